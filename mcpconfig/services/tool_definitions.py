"""The tool definitions of services. They are identified by their content and never deleted."""

import hashlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict
from datetime import timedelta
from typing import TYPE_CHECKING

from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext_lazy

from mcpconfig.models import Service, ToolDefinition, ToolSetting
from mcpconfig.values.limits import LIMITS
from mcpconfig.values.results import Listing, Tool

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

# True while tools are confirmed by the setting of their service, and not by an admin. The audit log
# reads it to record who confirmed a tool.
_confirms_by_setting: ContextVar[bool] = ContextVar("confirms_by_setting", default=False)


def hash_definition(service: Service, tool: Tool) -> str:
    """Return the hash of a tool's content and the endpoint of its service. Consents refer to it."""
    return hashlib.sha256(f"{service.endpoint}\n{tool.hash}".encode()).hexdigest()


def store_tools(service: Service, tools: list[Tool]) -> list[ToolDefinition]:
    """Store the current tools of the service. A known definition keeps its row."""
    return store_listing(
        service, Listing(tools=tools, left_out=[], fresh_seconds=LIMITS.fresh_seconds)
    )


@transaction.atomic
def store_listing(service: Service, listing: Listing) -> list[ToolDefinition]:
    """Store the current tools, the tools that were left out, and how long the listing is fresh."""
    # The row lock prevents concurrent listings from both updating `is_current`.
    locked = Service.objects.select_for_update().get(pk=service.pk)
    hashes = {hash_definition(service, tool): tool for tool in listing.tools}
    stored = set(service.definitions.filter(hash__in=hashes).values_list("hash", flat=True))
    ToolDefinition.objects.bulk_create(
        build_definition(service, hash_, tool)
        for hash_, tool in hashes.items()
        if hash_ not in stored
    )
    service.definitions.filter(is_current=True).exclude(hash__in=hashes).update(is_current=False)
    service.definitions.filter(is_current=False, hash__in=hashes).update(is_current=True)
    _update_meta(service, hashes)
    _store_listing_time(service, listing)
    tools = list_current_tools(service)
    if locked.new_tools == Service.NewTools.PASS:
        with _mark_confirmed_by_setting():
            confirm_tools(list_unconfirmed(locked, tools))
    return tools


def is_confirmed_by_setting() -> bool:
    """Return whether tools are being confirmed by the setting of their service."""
    return _confirms_by_setting.get()


@contextmanager
def _mark_confirmed_by_setting() -> Iterator[None]:
    token = _confirms_by_setting.set(True)
    try:
        yield
    finally:
        _confirms_by_setting.reset(token)


def list_unconfirmed(service: Service, tools: list[ToolDefinition]) -> list[ToolDefinition]:
    """Return the definitions that are not confirmed, whether their tool is enabled or not."""
    confirmed = set(service.settings.values_list("name", "confirmed_hash"))
    return [tool for tool in tools if (tool.name, tool.hash) not in confirmed]


def _update_meta(service: Service, tools: dict[str, Tool]) -> None:
    """Update the metadata of known definitions, which is not a part of their hash."""
    changed = list(service.definitions.filter(hash__in=tools).only("hash", "meta"))
    changed = [stored for stored in changed if stored.meta != tools[stored.hash].meta]
    for definition in changed:
        definition.meta = tools[definition.hash].meta
    ToolDefinition.objects.bulk_update(changed, ["meta"])


def _store_listing_time(service: Service, listing: Listing) -> None:
    least, most = LIMITS.fresh_seconds_least, LIMITS.fresh_seconds_most
    service.tools_listed_at = timezone.now()
    service.tools_fresh_until = service.tools_listed_at + timedelta(
        seconds=min(max(listing.fresh_seconds, least), most)
    )
    service.left_out = [asdict(tool) for tool in listing.left_out]
    service.save(update_fields=["tools_listed_at", "tools_fresh_until", "left_out"])


def build_definition(service: Service, hash_: str, tool: Tool) -> ToolDefinition:
    return ToolDefinition(
        service=service,
        hash=hash_,
        name=tool.name,
        title=tool.title,
        description=tool.description,
        input_schema=tool.input_schema,
        output_schema=tool.output_schema,
        annotations=tool.annotations,
        meta=tool.meta,
    )


def list_current_tools(service: Service) -> list[ToolDefinition]:
    """Return the definitions in the last listing of the service."""
    return list(service.definitions.filter(is_current=True))


def describe_tool_state(definition: ToolDefinition, setting: ToolSetting | None) -> str:
    """Return the state of a tool: new, confirmed, changed since it was confirmed, or disabled."""
    if setting is None:
        return "new"
    if not setting.is_enabled:
        return "disabled"
    if setting.confirmed_hash == definition.hash:
        return "confirmed"
    return "changed" if setting.confirmed_hash else "new"


TOOL_STATES: "dict[str, StrOrPromise]" = {
    "new": gettext_lazy("new"),
    "confirmed": gettext_lazy("confirmed"),
    "changed": gettext_lazy("changed"),
    "disabled": gettext_lazy("disabled"),
}


def is_ticked_at_first(state: str, level: str | None) -> bool:
    """Whether a page that confirms tools ticks this one before an admin does: only a new tool with
    a low risk. An admin ticks riskier and changed tools one by one."""
    return state == "new" and level == "low"


def confirm_tools(definitions: Iterable[ToolDefinition]) -> int:
    """Confirm these definitions, so that their tools are offered without a warning."""
    confirmed = 0
    for definition in definitions:
        ToolSetting.objects.update_or_create(
            service_id=definition.service_id,
            name=definition.name,
            defaults={"confirmed_hash": definition.hash},
        )
        confirmed += 1
    return confirmed
