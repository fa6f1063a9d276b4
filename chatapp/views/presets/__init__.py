"""Views of what people save to use again: assistants and prompts, for themselves or for others."""
