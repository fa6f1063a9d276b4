"""Whether values were copied from a text, in whole or in part, also in another spelling.

Case, separators, percent-encoding, base64 and hexadecimal digits make no difference. The work is
bounded: both sides may be hostile, and a text may have millions of characters.
"""

import binascii
import re
from base64 import b64decode
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from urllib.parse import unquote

# A part of this many letters and digits in a row counts, wherever it stands.
MIN_CHARACTERS = 12
MAX_VALUES = 20
MAX_VALUE_CHARACTERS = 8_000
MAX_TEXT_CHARACTERS = 4_000_000
# For all values and texts of one search: characters of the texts that are compared.
MAX_WORK = 200_000_000
# Of all values together, with what they say when they are decoded.
_MAX_FORM_CHARACTERS = 100_000
_MAX_ENCODED = 20
_MAX_PIECES = 60
# Each part of 12 characters contains one of 6 whose place in the text is a multiple of 6.
_STEP = MIN_CHARACTERS // 2
# As many characters as are compared in the same time.
_COST_OF_A_PLACE = 1_000
_COST_OF_A_PASS = 10
_RUNS = re.compile(r"[^\W_]+")
_OPENING = re.compile(r"\bhttps?://(?:www\.)?|\bwww\.", re.I)
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{16,}")
_HEX = re.compile(r"(?:[0-9A-Fa-f]{2}){8,}")
_NUMBER = re.compile(r"\d(?:[ ./()-]?\d){7,30}")
# Mail addresses and hosts, which may be shorter than 12 letters and digits.
_NAMES = re.compile(r"(?:[\w.+-]{1,64}@)?(?:[\w-]{1,63}\.){1,20}[^\W\d_]{2,63}")


@dataclass(slots=True, kw_only=True)
class CopySearch:
    """A search for parts of some values in one text after the other. When `work_left` is used up,
    nothing more is found."""

    # The letters and digits of each form of each value, and the value that it belongs to.
    forms: list[tuple[str, str]]
    numbers: list[tuple[str, str]]
    names: list[tuple[str, str]]
    # Where each part of 6 characters stands: the number of the form, and the place in it.
    places: dict[str, list[tuple[int, int]]]
    found: set[str] = field(default_factory=set)
    work_left: int = MAX_WORK

    @classmethod
    def prepare(cls, values: Mapping[str, str]) -> "CopySearch":
        forms = list(_list_bounded_forms(values))
        numbers = [(key, each) for key, form in forms for each in _list_numbers(form)]
        names = [(key, each) for key, form in forms for each in _list_names(form)]
        joined = [(key, _join(form)) for key, form in forms]
        return cls(
            forms=joined,
            numbers=list(dict.fromkeys(numbers))[:_MAX_PIECES],
            names=list(dict.fromkeys(names))[:_MAX_PIECES],
            places=_index_parts(joined),
        )

    def search(self, text: str) -> list[str]:
        """Return the values with a part that occurs in the text, without those found before."""
        before = set(self.found)
        lowered = text[:MAX_TEXT_CHARACTERS].casefold()
        joined = "".join(_RUNS.findall(lowered))
        self._search_parts(joined)
        for key, number in self.numbers:
            if key not in self.found and self._spend(len(joined)) and number in joined:
                self.found.add(key)
        for key, name in self.names:
            if key not in self.found and self._stands_in(name, lowered):
                self.found.add(key)
        return sorted(self.found - before)

    def _spend(self, characters: int) -> bool:
        """Return whether there was work left for so many characters."""
        if self.work_left < characters:
            self.work_left = 0
            return False
        self.work_left -= characters
        return True

    def _stands_in(self, name: str, text: str) -> bool:
        """Return whether the name occurs in the text as a whole word."""
        start = 0
        while True:
            place = text.find(name, start)
            compared = (place if place >= 0 else len(text)) - start
            # Finding one place costs more than its characters.
            if not self._spend(compared + _COST_OF_A_PLACE) or place < 0:
                return False
            end = place + len(name)
            around = text[max(0, place - 1) : place], text[end : end + 1]
            if not any(each.isalnum() or each in ("-", "_") for each in around if each):
                return True
            start = place + 1

    def _search_parts(self, text: str) -> None:
        """Find the values that have 12 characters in a row in common with the text."""
        if not self.places or not self._spend(_COST_OF_A_PASS * len(text)):
            return
        places, wanted = self.places, {key for key, _ in self.forms}
        for start in range(0, len(text) - _STEP + 1, _STEP):
            for number, place in places.get(text[start : start + _STEP], ()):
                if not self._spend(_COST_OF_A_PLACE):
                    return
                key, form = self.forms[number]
                if key in self.found or _count_shared(form, place, text, start) < MIN_CHARACTERS:
                    continue
                self.found.add(key)
                if self.found == wanted:
                    return


def _list_bounded_forms(values: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield each value as it is, and then what they say when they are decoded."""
    some = {key: value[:MAX_VALUE_CHARACTERS] for key, value in islice(values.items(), MAX_VALUES)}
    left = _MAX_FORM_CHARACTERS
    waiting = [(key, iter(_list_forms(value))) for key, value in some.items()]
    while waiting:
        key, forms = waiting.pop(0)
        form = next(forms, None)
        if form is None:
            continue
        if len(form) > left:
            return
        left -= len(form)
        yield key, form
        waiting.append((key, forms))


def _list_forms(value: str) -> Iterator[str]:
    """Yield the value and what it says when it is decoded, without duplicates."""
    yield value
    plain = unquote(value)
    twice = unquote(plain)
    yield from (form for form in dict.fromkeys((plain, twice)) if form != value)
    yield from _decode_parts(plain)


def _decode_parts(text: str) -> Iterator[str]:
    for part in _BASE64.findall(text)[:_MAX_ENCODED]:
        padded = part.translate({ord("-"): "+", ord("_"): "/"}) + "=" * (-len(part) % 4)
        try:
            yield b64decode(padded).decode("utf-8", "ignore")
        except (binascii.Error, ValueError):
            continue
    for part in _HEX.findall(text)[:_MAX_ENCODED]:
        yield bytes.fromhex(part).decode("utf-8", "ignore")


def _join(text: str) -> str:
    """Return the letters and digits of a text, without what addresses begin with anyway."""
    return "".join(_RUNS.findall(_OPENING.sub("", text).casefold()))


def _list_numbers(text: str) -> list[str]:
    found = _NUMBER.findall(text)[:_MAX_ENCODED]
    return ["".join(filter(str.isdigit, number)) for number in found]


def _list_names(text: str) -> list[str]:
    return [name.casefold() for name in _NAMES.findall(_OPENING.sub("", text))[:_MAX_ENCODED]]


def _index_parts(forms: Iterable[tuple[str, str]]) -> dict[str, list[tuple[int, int]]]:
    """Return the places of each part of 6 characters, up to 6 for each form."""
    places: dict[str, list[tuple[int, int]]] = {}
    for number, (_, form) in enumerate(forms):
        counts: dict[str, int] = {}
        for place in range(len(form) - _STEP + 1):
            part = form[place : place + _STEP]
            counts[part] = counts.get(part, 0) + 1
            if counts[part] <= _STEP:
                places.setdefault(part, []).append((number, place))
    return places


def _count_shared(value: str, place: int, text: str, start: int) -> int:
    """Return how many characters around these places are the same, up to the length of a part."""
    before, after = 0, 0
    while (
        before < MIN_CHARACTERS
        and min(place, start) > before
        and value[place - before - 1] == text[start - before - 1]
    ):
        before += 1
    while (
        after < MIN_CHARACTERS
        and place + after < len(value)
        and start + after < len(text)
        and value[place + after] == text[start + after]
    ):
        after += 1
    return before + after
