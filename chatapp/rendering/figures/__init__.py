"""Code blocks and tables of answers and results: their controls, files and charts. No models."""
