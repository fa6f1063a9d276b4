"""Secrets among the values of a call, drawn as dots: a screen may be seen by others.

Only what can be a secret is veiled: one word under a name that says so. A sentence or a command
under such a name is shown, or it would be a place to hide one from whoever decides.
"""

import json
from typing import Any

from mcpconfig.masking import names_secret

DOTS = "••••••"
LONGEST = 512


def veiled(value: Any, name: str = "") -> Any:
    """The value with its secrets as dots and their length."""
    if isinstance(value, dict):
        return {key: veiled(inner, key) for key, inner in value.items()}
    if isinstance(value, list):
        return [veiled(inner, name) for inner in value]
    return _dots(value) if is_secret(name, value) else value


def is_secret(name: str, value: Any) -> bool:
    is_word = isinstance(value, str) and 0 < len(value) <= LONGEST and value.split() == [value]
    return is_word and names_secret(name)


def _dots(secret: str) -> str:
    return f"{DOTS} ({len(secret)} characters, not shown)"


def veiled_json(text: str) -> str:
    """A call's arguments as they will be sent, but for secrets; the very text where none is there
    or it cannot be read."""
    try:
        values = json.loads(text)
    except (ValueError, RecursionError):
        return text
    drawn = veiled(values)
    return text if drawn == values else json.dumps(drawn, ensure_ascii=False, separators=(",", ":"))
