"""Hidden and deceptive characters, made visible where a person decides by what they read."""

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

# The code points of those scripts: values are long, and looking up character names is slow.
_LOOK_ALIKE: Final = re.compile(
    "[\u0370-\u052f\u0531-\u058f\u13a0-\u13ff\u2c80-\u2cff\ua4d0-\ua4ff\uab70-\uabbf]"
)
# Full-width letters, digits and the marks of addresses, and styled letters: the same characters in
# another form. Full-width ones are common beside Chinese, Japanese or Korean; else they deceive.
_STYLED: Final = re.compile("[\uff0d-\uff1a\uff20-\uff3a\uff3f\uff41-\uff5a\U0001d400-\U0001d7ff]")
_MATHEMATICAL: Final = re.compile("[\U0001d400-\U0001d7ff]")
_FULL_WIDTH_LETTER: Final = re.compile("[\uff21-\uff3a\uff41-\uff5a]")
_FULL_WIDTH_MARK: Final = re.compile("[\uff0e\uff0f\uff20\uff3f]")
# A word or an address, or what is between two of them.
_TOKEN: Final = re.compile(r"[\w./@\uff01-\uff5e-]+|[^\w./@\uff01-\uff5e-]+")
_EAST_ASIAN: Final = re.compile("[\u3005-\u9fff\uac00-\ud7af\uf900-\ufaff\uff66-\uff9f]")
_LATIN: Final = re.compile("[A-Za-z\u00c0-\u024f]")
_WORD: Final = re.compile(r"[^\W\d_]{2,}")


def draw_hidden(text: str) -> SafeString:
    """Return the text as HTML with every hidden character drawn as its code point."""
    # Escaping touches no hidden character and drawing adds no character that needs escaping.
    return mark_safe(_HIDDEN.sub(_draw, escape(text)))  # noqa: S308


def draw_hidden_in(html: str) -> SafeString:
    """Do the same as `draw_hidden` for code that is already escaped and coloured."""
    return mark_safe(_HIDDEN.sub(_draw, html))  # noqa: S308


def write_hidden(text: str) -> str:
    """Do the same as `draw_hidden` in plain text."""
    return _HIDDEN.sub(lambda match: f"⟨U+{ord(match[0]):04X}⟩", text)


def has_hidden(text: str) -> bool:
    return _HIDDEN.search(text) is not None


def has_mixed_scripts(name: str) -> bool:
    """Return whether the name mixes Latin letters with look-alike letters of another script."""
    scripts = {unicodedata.name(character, "").split(" ")[0] for character in name}
    return "LATIN" in scripts and not scripts.isdisjoint(_LOOK_ALIKE_SCRIPTS)


def draw_look_alikes(text: str) -> SafeString:
    """Do the same as `draw_hidden`, and add the code point to each letter that only looks Latin in
    a word that mixes alphabets, and to each full-width or styled letter outside East Asian text."""
    drawn = _TOKEN.sub(_draw_styled, text) if _STYLED.search(text) else draw_hidden(text)
    return mark_safe(_WORD.sub(_draw_word, drawn))  # noqa: S308  adds no markup of its


def has_look_alikes(text: str) -> bool:
    """Return whether `draw_look_alikes` would add a code point."""
    is_mixed = any(_is_mixed(match[0]) for match in _WORD.finditer(text))
    if is_mixed or not _STYLED.search(text):
        return is_mixed
    return any(_is_styled(match[0]) for match in _TOKEN.finditer(text))


def _is_mixed(word: str) -> bool:
    return _LOOK_ALIKE.search(word) is not None and _LATIN.search(word) is not None


def _is_styled(token: str) -> bool:
    if not _STYLED.search(token):
        return False
    is_address = _FULL_WIDTH_LETTER.search(token) and _FULL_WIDTH_MARK.search(token)
    is_strange = is_address or _MATHEMATICAL.search(token) or _LATIN.search(token)
    return bool(is_strange) or _EAST_ASIAN.search(token) is None


def _draw_styled(match: re.Match[str]) -> str:
    drawn = draw_hidden(match[0])
    if not _is_styled(match[0]):
        return drawn
    return _STYLED.sub(lambda letter: f"{letter[0]}{_draw(letter)}", drawn)


def _draw_word(match: re.Match[str]) -> str:
    if not _is_mixed(match[0]):
        return match[0]
    return _LOOK_ALIKE.sub(lambda letter: f"{letter[0]}{_draw(letter)}", match[0])


def _draw(match: re.Match[str]) -> str:
    return f'<span class="hidden-char">⟨U+{ord(match[0]):04X}⟩</span>'
