"""A service's icon: an emoji or a letter on a colour. Never a picture that would be fetched."""

import unicodedata

from django.core.exceptions import ValidationError
from django.db import models


class Colour(models.TextChoices):
    GREY = "grey", "grey"
    BLUE = "blue", "blue"
    GREEN = "green", "green"
    AMBER = "amber", "amber"
    RED = "red", "red"
    VIOLET = "violet", "violet"


_JOINER = "\u200d"
_FLAG_LETTERS = range(0x1F1E6, 0x1F200)
# What may follow a drawn character: the coloured form, a colour of skin, the tags of a region.
_FOLLOWING = (*range(0xFE0E, 0xFE10), *range(0x1F3FB, 0x1F400), *range(0xE0020, 0xE0080))
_KEYCAP = "\u20e3"


def check_icon(icon: str) -> None:
    """One emoji or one letter: more would be a word, or hide something in a word's place."""
    if len(icon) == 1 and icon.isalnum():
        return
    is_keycap = icon[:1] in "0123456789#*" and icon[1:].removeprefix("\ufe0f") == _KEYCAP
    if not is_keycap and not all(_is_drawn(part) for part in icon.split(_JOINER)):
        raise ValidationError("Give one emoji or one letter.")


def _is_drawn(part: str) -> bool:
    """Whether this is one drawn character, or a flag's two letters, with what belongs to it."""
    drawn = [character for character in part if ord(character) not in _FOLLOWING]
    is_flag = len(drawn) == 2 and all(ord(letter) in _FLAG_LETTERS for letter in drawn)
    is_symbol = len(drawn) == 1 and unicodedata.category(drawn[0]) == "So"
    return (is_flag or is_symbol) and part.startswith(drawn[0])
