"""Rows of conversations and what belongs to them."""
