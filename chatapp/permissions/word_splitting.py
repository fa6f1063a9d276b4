"""Names cut into words: camelCase, kebab, dots, digits, accents, and characters nobody sees."""

import re
import unicodedata

_HUMPS = re.compile(r"[A-Z]{2,}s(?![a-z])|[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[^\W\d_A-Za-z]+")
_LETTERS = re.compile(r"[^\W\d_]+")
_ALPHABETS = ("LATIN", "CYRILLIC", "GREEK")


def words_of(text: str) -> tuple[str, ...]:
    """The words of a name or a sentence, in order, lower case, without accents."""
    plain = _plain(text)
    return tuple(word.lower() for word in _HUMPS.findall(plain))


def mixes_alphabets(text: str) -> bool:
    """Whether a word holds letters of two alphabets that look alike, as a disguised verb would."""
    return not text.isascii() and any(
        len({_alphabet(letter) for letter in word} & set(_ALPHABETS)) > 1
        for word in _LETTERS.findall(_plain(text))
    )


def _plain(text: str) -> str:
    """Compatibility forms, accents and invisible characters taken off."""
    if text.isascii() and text.isprintable():
        return text  # nearly every text; what follows looks at each character
    parts = unicodedata.normalize("NFKD", text)
    seen = "".join(part for part in parts if part.isspace() or not _is_unseen(part))
    return unicodedata.normalize("NFC", seen)


def _is_unseen(character: str) -> bool:
    return unicodedata.category(character) in {"Mn", "Cf", "Cc", "Cn", "Co", "Cs"}


def _alphabet(letter: str) -> str:
    return unicodedata.name(letter, "").partition(" ")[0]
