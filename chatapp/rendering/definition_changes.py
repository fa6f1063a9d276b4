"""The parts of a tool definition as HTML, and the differences of two definitions."""

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy

from mcpconfig.models import ToolDefinition

from .hidden_characters import draw_hidden
from .word_diff import render_word_diff

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

FIELDS = {
    "name": gettext_lazy("Name"),
    "title": gettext_lazy("Title"),
    "description": gettext_lazy("Description"),
    "input_schema": gettext_lazy("Input format"),
    "output_schema": gettext_lazy("Result format"),
    "annotations": gettext_lazy("Annotations from the service"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One part of a definition, or its change."""

    label: "StrOrPromise"
    html: SafeString


def list_parts(definition: ToolDefinition) -> list[Part]:
    """Return all parts of a definition that are not empty."""
    return [
        Part(label=label, html=draw_hidden(_format_field(definition, field)))
        for field, label in FIELDS.items()
        if getattr(definition, field) not in (None, "")
    ]


def compare_definitions(before: ToolDefinition | None, after: ToolDefinition) -> list[Part]:
    """Return the parts that differ. Without an earlier definition, return an empty list."""
    if before is None:
        return []
    texts = (
        (label, _format_field(before, field), _format_field(after, field))
        for field, label in FIELDS.items()
    )
    return [
        Part(label=label, html=render_word_diff(old, new))
        for label, old, new in texts
        if old != new
    ]


def _format_field(definition: ToolDefinition, field: str) -> str:
    value: Any = getattr(definition, field)
    if value is None or isinstance(value, str):
        return value or ""
    return json.dumps(value, ensure_ascii=False, indent=2, sort_keys=True)
