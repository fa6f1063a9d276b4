"""The table of tools and providers: which tools a provider accepts, without sending a request."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from django.core.paginator import Paginator
from django.db.models import Exists, OuterRef, QuerySet
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from chatapp.providers.registry import DIALECTS
from chatapp.providers.request import ToolSpec
from chatapp.providers.tools.toolbox import Dialect, preflight
from chatapp.rendering.hidden_characters import draw_hidden
from chatapp.tools.catalogue import CatalogueTool, assemble, load_listings
from mcpconfig.models import Service, ToolDefinition, ToolSetting

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
    listed = Paginator(_list_definitions(service), ROWS_PER_PAGE).get_page(page)
    keys = [definition.pk for definition in listed]
    on_page = services.filter(pk__in={definition.service_id for definition in listed})
    tools = assemble(load_listings(on_page, ToolDefinition.objects.filter(pk__in=keys)))
    dialects = list({dialect.label: dialect for dialect in DIALECTS.values()}.values())
    return {
        "title": _("Tool support by provider"),
        "services": services,
        "chosen": service,
        "notices": [draw_hidden(notice) for notice in tools.notices],
        "providers": [dialect.label for dialect in dialects],
        "limits": [dialect for dialect in dialects if dialect.most_tools is not None],
        "page": listed,
        "rows": [_build_row(tool, dialects) for tool in tools.values()],
    }


def _list_definitions(service: str) -> QuerySet[ToolDefinition]:
    """Return the current tools that are not switched off."""
    settings = ToolSetting.objects.filter(service=OuterRef("service"), name=OuterRef("name"))
    found = ToolDefinition.objects.filter(is_current=True, service__is_enabled=True)
    found = found.filter(~Exists(settings.filter(is_enabled=False))).only("pk", "service_id")
    found = found.filter(service__name=service) if service else found
    return found.order_by("service__name", "name", "pk")


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
