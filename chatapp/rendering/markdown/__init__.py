"""Markdown as safe HTML, one block at a time. Pure functions, no models."""
