"""Hidden and deceptive characters, made visible wherever a person decides on what they read."""

import re
import unicodedata
from html import escape
from typing import Final

from django.utils.safestring import SafeString, mark_safe

# Controls (all but newline and tab), lone surrogates, bidirectional controls, zero-width and
# filler characters, variation selectors, the tag block, and spaces that only look like a space.
_HIDDEN: Final = re.compile(
    "["
    "\x00-\x08\x0b-\x1f\x7f-\xa0\xad"
    "\u034f\u061c\u115f\u1160\u1680\u17b4\u17b5\u180b-\u180f"
    "\u2000-\u200f\u2028-\u202f\u205f-\u206f\u2800\u3000\u3164"
    "\ud800-\udfff\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
    "]"
)
# Scripts with letters that look like Latin ones. The first word of a character's name is its
# script; styled Latin letters have names of their own.
_LOOK_ALIKE_SCRIPTS: Final = frozenset(
    ["CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE", "COPTIC", "LISU", "FULLWIDTH", "MATHEMATICAL"]
)


def draw_hidden(text: str) -> SafeString:
    """The text as HTML, with every hidden character drawn as its code point."""
    # Escaping touches no hidden character and drawing adds no character that needs escaping.
    return mark_safe(_HIDDEN.sub(_draw, escape(text)))  # noqa: S308


def has_hidden(text: str) -> bool:
    return _HIDDEN.search(text) is not None


def has_mixed_scripts(name: str) -> bool:
    """Whether Latin letters stand beside letters of another script that look like them."""
    scripts = {unicodedata.name(character, "").split(" ")[0] for character in name}
    return "LATIN" in scripts and not scripts.isdisjoint(_LOOK_ALIKE_SCRIPTS)


def _draw(match: re.Match[str]) -> str:
    return f'<span class="hidden-char">⟨U+{ord(match[0]):04X}⟩</span>'
