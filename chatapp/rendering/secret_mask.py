"""Secrets among the values of a call, drawn as dots, because other people may see a screen.

Only a single word under a name for a secret is masked. A sentence or a command under such a name is
shown: otherwise the name could hide it from the person who decides.
"""

import json
from typing import Any

from django.utils.translation import ngettext

from mcpconfig.values.masking import is_secret_name

DOTS = "••••••"
MAX_SECRET_CHARACTERS = 512


def mask_secrets(value: Any, name: str = "") -> Any:
    """Return the value with its secrets replaced by dots and their length."""
    if isinstance(value, dict):
        return {key: mask_secrets(inner, key) for key, inner in value.items()}
    if isinstance(value, list):
        return [mask_secrets(inner, name) for inner in value]
    return _draw_dots(value) if is_secret(name, value) else value


def is_secret(name: str, value: Any) -> bool:
    is_word = (
        isinstance(value, str)
        and 0 < len(value) <= MAX_SECRET_CHARACTERS
        and value.split() == [value]
    )
    return is_word and is_secret_name(name)


def _draw_dots(secret: str) -> str:
    hidden = ngettext("%(count)d character, hidden", "%(count)d characters, hidden", len(secret))
    return f"{DOTS} ({hidden % {'count': len(secret)}})"


def mask_secrets_in_json(text: str) -> str:
    """Return the arguments as they will be sent, with secrets masked. Text without secrets, or text
    that is not JSON, is returned unchanged."""
    try:
        values = json.loads(text)
    except (ValueError, RecursionError):
        return text
    drawn = mask_secrets(values)
    return text if drawn == values else json.dumps(drawn, ensure_ascii=False, separators=(",", ":"))
