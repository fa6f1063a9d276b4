"""A service's tools: listed, and stored."""

from channels.db import database_sync_to_async
from django.utils import timezone

from mcpconfig.models import Service, ToolDefinition
from mcpconfig.services.tool_definitions import list_current_tools, store_listing
from mcpconfig.values.acting import Acting
from mcpconfig.values.lazy_module import load

from .lazy import operations


async def load_fresh_tools(
    service: Service, *, acting: Acting | None = None
) -> list[ToolDefinition]:
    """Return the stored tools while the list is fresh; otherwise list them."""
    if service.tools_fresh_until is not None and timezone.now() < service.tools_fresh_until:
        return await database_sync_to_async(list_current_tools)(service)
    return await fetch_tools(service, acting=acting)


async def fetch_tools(
    service: Service,
    *,
    acting: Acting | None = None,
    refresh: bool = False,
    total_seconds: float | None = None,
) -> list[ToolDefinition]:
    """List the tools of the service and store them. `refresh` also negotiates again."""
    await load(operations)
    listing = await operations.fetch_listing(
        service, acting=acting, refresh=refresh, total_seconds=total_seconds
    )
    return await database_sync_to_async(store_listing)(service, listing)
