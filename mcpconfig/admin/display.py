"""Values as admin lists and pages show them: badges, JSON, and the sign for an empty value."""

import json
from typing import Any

from django.utils.html import format_html
from django.utils.safestring import SafeString

EMPTY = "–"


def render_badge(tone: str, text: str) -> SafeString:
    """Return `text` as a coloured badge. The colour only repeats what the text says."""
    return format_html('<span class="badge" data-tone="{}">{}</span>', tone, text)


def render_json(value: Any) -> SafeString | str:
    """Return `value` as indented JSON, or `EMPTY` for null and an empty object."""
    if value in (None, {}):
        return EMPTY
    return format_html("<pre>{}</pre>", json.dumps(value, ensure_ascii=False, indent=2))
