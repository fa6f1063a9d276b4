"""A chat as a file: plain values in, Markdown or JSON out."""
