"""Words that a search looks for: in which spellings a column has them, and the text around them."""

from collections.abc import Iterable, Sequence
from functools import reduce
from operator import or_

from django.db.models import Q

CHARACTERS_BEFORE = 60


def match_any(column: str, words: Sequence[str]) -> Q:
    """Return a condition for all usual spellings, because SQLite compares non-ASCII letters
    exactly."""
    spelled = {way for word in words for way in (word, word.upper(), word.capitalize())}
    found = Q(pk__in=())
    for way in sorted(spelled):
        found = or_(found, Q(**{f"{column}__icontains": way}))
    return found


def match_all(columns: Sequence[str], words: Sequence[str]) -> Q:
    """Return a condition that each word is in one of these columns."""
    found = Q()
    for word in words:
        found &= reduce(or_, (match_any(column, [word]) for column in columns))
    return found


def cut_excerpt(text: str, words: Iterable[str], characters: int) -> str:
    """Return so much of the text around the first of these words, on one line; its beginning if the
    text has them with other accents only."""
    plain = text.casefold()
    places = [place for word in words if (place := plain.find(word)) >= 0]
    start = max(0, min(places, default=0) - CHARACTERS_BEFORE)
    end = start + characters
    cut = " ".join(text[start:end].split())
    return f"{'…' if start else ''}{cut}{'…' if end < len(text) else ''}"
