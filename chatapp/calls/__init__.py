"""The life of one tool call, from proposed to its outcome; not what people answer, nor the turn."""
