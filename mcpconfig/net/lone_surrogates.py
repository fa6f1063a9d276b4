"""Lone surrogates in JSON that arrives in pieces.

JSON may escape half of a character that takes two code units (`"\\ud83d"`); a service that cuts a
text in the middle of an emoji sends such an answer. The parser of the SDK refuses the whole answer,
so the half is replaced by U+FFFD before it is parsed. The length stays the same.
"""

import re

# A surrogate, and the start of an escape at the end of a piece that may become one.
_CANDIDATE = re.compile(rb"\\u[dD][89a-fA-F]|\\[0-9a-zA-Z\\]{0,10}\Z")
_HEX = rb"[0-9a-fA-F]"
_HIGH = rb"u[dD][89abAB]" + _HEX * 2
_LOW = rb"u[dD][c-fC-F]" + _HEX * 2
# An escape that the piece may have cut: one digit too few, or a first half without a second.
_OPEN = rb"(?P<open>\\(?:u" + _HEX + rb"{0,3}|" + _HIGH + rb"(?:\\(?:u" + _HEX + rb"{0,3})?)?)?\Z)"
_CLOSED = rb"\\(?:" + _HIGH + rb"\\" + _LOW + rb"|(?P<lone>u[dD][89a-fA-F]" + _HEX * 2 + rb")|.)"
_ESCAPE = re.compile(_CLOSED, re.DOTALL)
_ESCAPE_OR_OPEN = re.compile(_OPEN + rb"|" + _CLOSED, re.DOTALL)
_REPLACEMENT = rb"\ufffd"


class SurrogateRepair:
    """Replaces the lone surrogates of one body. An escape that a piece has cut waits for the
    next."""

    def __init__(self) -> None:
        self._open = b""

    def repair(self, piece: bytes) -> bytes:
        text, self._open = self._open + piece, b""
        if _CANDIDATE.search(text) is None:
            return text
        return _ESCAPE_OR_OPEN.sub(self._replace, text)

    def finish(self) -> bytes:
        """Return what has waited for a piece that did not come."""
        text, self._open = self._open, b""
        return _ESCAPE.sub(self._replace, text)

    def _replace(self, found: re.Match[bytes]) -> bytes:
        groups = found.groupdict()
        if groups.get("open") is not None:
            self._open = found[0]
            return b""
        return found[0] if groups["lone"] is None else _REPLACEMENT
