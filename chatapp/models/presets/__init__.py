"""Rows that people save to use again, for themselves or for others: assistants and prompts."""
