"""The table of tools and providers: which tools a provider accepts, without sending a request."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from django.core.paginator import Paginator
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from chatapp.providers.registry import DIALECTS
from chatapp.providers.request import ToolSpec
from chatapp.providers.tools.toolbox import Dialect, preflight
from chatapp.rendering.hidden_characters import draw_hidden
from chatapp.tools.catalogue import CatalogueTool, assemble, load_listings
from mcpconfig.models import Service

ROWS_PER_PAGE = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolAtProvider:
    """One tool at one provider: the reason why it is left out, or the changes to its schema."""

    provider: str
    reason: str
    changes: list[SafeString]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    tool: SafeString
    at: list[ToolAtProvider]


def build_table(service: str, page: str = "") -> Mapping[str, Any]:
    """Return the context of the page, with the tools of one service or of all enabled services."""
    services = Service.objects.filter(is_enabled=True).order_by("name")
    tools = assemble(load_listings(services.filter(name=service) if service else services))
    listed = Paginator(list(tools.values()), ROWS_PER_PAGE).get_page(page)
    dialects = list({dialect.label: dialect for dialect in DIALECTS.values()}.values())
    return {
        "title": _("Tool support by provider"),
        "services": services,
        "chosen": service,
        "notices": [draw_hidden(notice) for notice in tools.notices],
        "providers": [dialect.label for dialect in dialects],
        "limits": [dialect for dialect in dialects if dialect.most_tools is not None],
        "total": len(tools),
        "page": listed,
        "rows": [_build_row(tool, dialects) for tool in listed],
    }


def _build_row(tool: CatalogueTool, dialects: Iterable[Dialect]) -> Row:
    spec = ToolSpec(name=tool.tool_id, description=tool.description, input_schema=tool.input_schema)
    return Row(
        tool=draw_hidden(tool.tool_id), at=[_check_tool(dialect, spec) for dialect in dialects]
    )


def _check_tool(dialect: Dialect, spec: ToolSpec) -> ToolAtProvider:
    reason, changes = preflight(dialect, spec)
    return ToolAtProvider(
        provider=dialect.label, reason=reason, changes=[draw_hidden(each) for each in changes]
    )
