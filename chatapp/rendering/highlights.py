"""Marks the words of a search in a text."""

import re
from collections.abc import Sequence

from django.utils.safestring import SafeString, mark_safe

from .hidden_characters import draw_hidden


def mark_words(text: str, words: Sequence[str]) -> SafeString:
    """Return the text with hidden characters drawn, and a `mark` around each word that begins with
    one of these."""
    if not words:
        return draw_hidden(text)
    found = re.compile(rf"(?<![^\W_])(?:{'|'.join(map(re.escape, words))})[^\W_]*", re.IGNORECASE)
    pieces, end = [], 0
    for match in found.finditer(text):
        pieces += [draw_hidden(text[end : match.start()]), f"<mark>{draw_hidden(match[0])}</mark>"]
        end = match.end()
    return mark_safe("".join([*pieces, draw_hidden(text[end:])]))  # noqa: S308  # all of it is drawn
