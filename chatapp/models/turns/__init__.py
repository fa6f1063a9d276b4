"""Rows of turns, tool calls and their pauses."""
