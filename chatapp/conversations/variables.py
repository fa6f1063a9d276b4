"""Variables in saved texts: `{{team}}` is replaced by what a person enters for it."""

import re
from collections.abc import Iterable, Mapping

VARIABLE_CHARACTERS = 500
MAX_VARIABLES = 20
# A name has letters, digits, underscores and spaces, and at least one of the first three. Anything
# else in braces is plain text.
_VARIABLE = re.compile(r"\{\{(?= *\w)([\w ]{1,60})\}\}")


def list_variables(*texts: str) -> list[str]:
    """Return the names of the variables in these texts, each once, in the order of the texts."""
    return list(dict.fromkeys(_read_name(found) for text in texts for found in _find(text)))


def fill_variables(text: str, values: Mapping[str, str]) -> str:
    """Return the text with these values. Variables in a value stay as they are, and so do those
    without a value."""
    return _VARIABLE.sub(lambda found: values.get(_read_name(found), found[0]), text)


def list_missing(names: Iterable[str], values: Mapping[str, str]) -> list[str]:
    """Return the names without a value, or with an empty one."""
    return [name for name in names if not values.get(name, "").strip()]


def _find(text: str) -> Iterable[re.Match[str]]:
    return _VARIABLE.finditer(text)


def _read_name(found: re.Match[str]) -> str:
    return " ".join(found[1].split())
