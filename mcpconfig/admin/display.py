"""Values as admin lists and pages show them: badges, JSON, and the sign for an empty value."""

import json
from datetime import datetime
from typing import Any

from django.utils.formats import date_format
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.timezone import localtime

EMPTY = "–"


def render_badge(tone: str, text: str) -> SafeString:
    """Return `text` as a coloured badge. The colour only repeats what the text says."""
    return format_html('<span class="badge" data-tone="{}">{}</span>', tone, text)


def format_to_the_second(at: datetime, format_name: str) -> str:
    """Return a time in one of the formats that end with the minute, with its seconds."""
    moment = localtime(at)
    return f"{date_format(moment, format_name)}:{date_format(moment, 's')}"


def render_json(value: Any) -> SafeString | str:
    """Return `value` as indented JSON, or `EMPTY` for null and an empty object."""
    if value in (None, {}):
        return EMPTY
    return draw_block(json.dumps(value, ensure_ascii=False, indent=2))


def draw_block(text: str) -> SafeString:
    """Return text in its lines. A wide block scrolls, so the keyboard can reach it."""
    return format_html('<pre tabindex="0">{}</pre>', text)
