"""What services write about their tools, without the characters that a person would not see."""

import unicodedata
from typing import Any

_HIDDEN_CATEGORIES = frozenset({"Cc", "Cf", "Co", "Cs"})
_PROSE_KEYS = frozenset({"description", "title", "$comment"})


def without_hidden(text: str) -> str:
    """The text without control, direction, tag, zero-width and variation characters.

    A model reads all of them, and a person who confirms the tool reads none: a second, hidden text
    could be written with them.
    """
    return "".join(character for character in text if not _is_hidden(character))


def schema_without_hidden(schema: Any) -> Any:
    """A copy whose prose is cleaned. Names and choices stay: the service compares them."""
    if isinstance(schema, list):
        return [schema_without_hidden(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: without_hidden(value)
        if key in _PROSE_KEYS and isinstance(value, str)
        else schema_without_hidden(value)
        for key, value in schema.items()
    }


def _is_hidden(character: str) -> bool:
    if character in "\n\t":
        return False
    is_variation = "\ufe00" <= character <= "\ufe0f" or "\U000e0100" <= character <= "\U000e01ef"
    return is_variation or unicodedata.category(character) in _HIDDEN_CATEGORIES
