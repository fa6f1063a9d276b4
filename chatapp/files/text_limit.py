"""The bound on the text of one file, while it is read piece by piece."""

from collections.abc import Iterable


def join_pieces(pieces: Iterable[str], most: int, separator: str) -> tuple[str, bool]:
    """Return the pieces as one text of at most `most` characters, and whether it was cut. No piece
    is made once the text is full."""
    kept: list[str] = []
    length = 0
    for piece in pieces:
        kept.append(piece)
        length += len(piece) + (len(separator) if len(kept) > 1 else 0)
        if length > most:
            return separator.join(kept)[:most], True
    return separator.join(kept), False
