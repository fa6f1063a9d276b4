"""Runs `manage.py mcp` in this process and keeps what it said."""

from . import commands


class Ran(commands.Ran):
    """A finished `mcp` command."""

    def __init__(self, *words: str) -> None:
        super().__init__("mcp", *words)
