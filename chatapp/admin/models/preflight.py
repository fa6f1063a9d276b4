"""What each provider takes of the tools that services offer, known before any request is sent."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from django.utils.safestring import SafeString

from chatapp.providers.request import ToolSpec
from chatapp.providers.toolbox import DIALECTS, Dialect, preflight
from chatapp.rendering.visible import draw_hidden
from chatapp.tools.catalogue import CatalogueTool, assemble, listings_of
from mcpconfig.models import Service


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """One tool at one provider: the reason why it is left out, or what is changed for it."""

    provider: str
    reason: str
    changes: list[SafeString]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    tool: SafeString
    at: list[Taken]


def table(service: str) -> Mapping[str, Any]:
    """The page's values: the tools of all services that are on, or of the one of this name."""
    services = Service.objects.filter(is_enabled=True).order_by("name")
    found = assemble(listings_of(services.filter(name=service) if service else services))
    dialects = list({dialect.label: dialect for dialect in DIALECTS.values()}.values())
    return {
        "title": "What each provider takes",
        "services": services,
        "chosen": service,
        "notices": [draw_hidden(notice) for notice in found.notices],
        "providers": [dialect.label for dialect in dialects],
        "limits": [dialect for dialect in dialects if dialect.most_tools is not None],
        "rows": [_row(tool, dialects) for tool in found.values()],
    }


def _row(tool: CatalogueTool, dialects: Iterable[Dialect]) -> Row:
    spec = ToolSpec(name=tool.tool_id, description=tool.description, input_schema=tool.input_schema)
    return Row(tool=draw_hidden(tool.tool_id), at=[_taken(dialect, spec) for dialect in dialects])


def _taken(dialect: Dialect, spec: ToolSpec) -> Taken:
    reason, changes = preflight(dialect, spec)
    return Taken(
        provider=dialect.label, reason=reason, changes=[draw_hidden(each) for each in changes]
    )
