"""Splitting names into words: camelCase, kebab-case, dots, digits, accents and invisible
characters."""

import re
import unicodedata

_HUMPS = re.compile(r"[A-Z]{2,}s(?![a-z])|[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[^\W\d_A-Za-z]+")
_LETTERS = re.compile(r"[^\W\d_]+")
# Letters that Unicode does not decompose into a plain letter and an accent.
_PLAIN_LETTERS = str.maketrans(
    {"ł": "l", "Ł": "L", "ø": "o", "Ø": "O", "đ": "d", "Đ": "D", "ß": "ss", "ẞ": "SS"}
)
_ALPHABETS = ("LATIN", "CYRILLIC", "GREEK")
# Characters that are no combining marks, and become some when they are normalised.
_LIKE_MARKS = str.maketrans(dict.fromkeys("\u0f73\u0f75\u0f81\uff9e\uff9f", "\u0300"))
_MANY_MARKS = re.compile(rb"[^\0]{31}")


def split_words(text: str) -> tuple[str, ...]:
    """Return the words of a name or a sentence in order, lower case and without accents."""
    plain = _normalise(text)
    return tuple(word.lower() for word in _HUMPS.findall(plain))


def mixes_alphabets(text: str) -> bool:
    """Return whether a word mixes letters of alphabets that look alike, as a disguised verb
    does."""
    return not text.isascii() and any(
        len({_name_alphabet(letter) for letter in word} & set(_ALPHABETS)) > 1
        for word in _LETTERS.findall(_normalise(text))
    )


def has_many_marks(text: str) -> bool:
    """Return whether more than 30 combining marks stand in a row. The time to normalise them grows
    with the square of their number."""
    if text.isascii():
        return False
    classes = bytes(map(unicodedata.combining, text.translate(_LIKE_MARKS)))
    return _MANY_MARKS.search(classes) is not None


def _normalise(text: str) -> str:
    """Remove compatibility forms, accents and invisible characters."""
    if text.isascii() and text.isprintable():
        return text  # Nearly every text. The steps below look at each character.
    if has_many_marks(text):
        marked = text.translate(_LIKE_MARKS)
        text = "".join(each for each in marked if not unicodedata.combining(each))
    parts = unicodedata.normalize("NFKD", text).translate(_PLAIN_LETTERS)
    seen = "".join(part for part in parts if part.isspace() or not _is_invisible(part))
    return unicodedata.normalize("NFC", seen)


def _is_invisible(character: str) -> bool:
    return unicodedata.category(character) in {"Mn", "Cf", "Cc", "Cn", "Co", "Cs"}


def _name_alphabet(letter: str) -> str:
    return unicodedata.name(letter, "").partition(" ")[0]
