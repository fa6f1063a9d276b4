"""Lists that services send page by page, taken in until their end or until a bound."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

import mcp_types as types
from mcp import MCPError

from .client import Connection
from .errors import OperationError
from .explain import explain
from .limits import LIMITS

Page = TypeVar("Page", bound=types.PaginatedResult)
Entry = TypeVar("Entry")

Fetch = Callable[[str | None], Awaitable[Page]]
Entries = Callable[[Page], list[Entry]]


async def tool_pages(connection: Connection) -> list[types.ListToolsResult]:
    """All pages, because the first one says how long the list stays fresh. None, if the service
    neither declares tools nor knows the question."""
    client = connection.client
    try:
        return await _all_pages(
            connection,
            lambda cursor: client.list_tools(cursor=cursor),
            lambda page: page.tools,
            LIMITS.tools,
        )
    except MCPError as error:
        if client.server_capabilities.tools is None and _is_unknown(error, connection):
            return []
        raise


async def listed_resources(connection: Connection) -> list[types.Resource]:
    client = connection.client
    return await _listed(
        connection,
        lambda cursor: client.list_resources(cursor=cursor),
        lambda page: page.resources,
    )


async def listed_templates(connection: Connection) -> list[types.ResourceTemplate]:
    client = connection.client
    return await _listed(
        connection,
        lambda cursor: client.list_resource_templates(cursor=cursor),
        lambda page: page.resource_templates,
    )


async def listed_prompts(connection: Connection) -> list[types.Prompt]:
    client = connection.client
    return await _listed(
        connection, lambda cursor: client.list_prompts(cursor=cursor), lambda page: page.prompts
    )


async def _listed(
    connection: Connection, fetch: Fetch[Page], entries: Entries[Page, Entry]
) -> list[Entry]:
    """Everything on all pages; nothing, where the service does not know the question: many offer
    resources without templates, or the other way round, and answer only one of the two."""
    try:
        pages = await _all_pages(connection, fetch, entries, LIMITS.entries)
    except MCPError as error:
        if _is_unknown(error, connection):
            return []
        raise
    found = [entry for page in pages for entry in entries(page)]
    if len(found) > LIMITS.entries:
        raise _endless("entries")
    return found


async def _all_pages(
    connection: Connection, fetch: Fetch[Page], entries: Entries[Page, Entry], most: int
) -> list[Page]:
    """The whole list. One that goes round in circles or grows without end is an attack or a bug."""
    pages: list[Page] = []
    cursors: set[str] = set()
    cursor: str | None = None
    count = 0
    most_bytes = connection.wire.received_bytes + LIMITS.listing_wire_bytes
    for _unused in range(LIMITS.pages):
        page = await fetch(cursor)
        pages.append(page)
        count += len(entries(page))
        cursor = page.next_cursor
        if cursor is None:
            return pages
        if cursor in cursors or len(cursor) > LIMITS.cursor_characters:
            break
        cursors.add(cursor)
        if count > most:
            raise _endless("entries")
        if connection.wire.received_bytes > most_bytes:
            raise _endless("bytes")
    raise _endless("pages")


def _is_unknown(error: MCPError, connection: Connection) -> bool:
    """Whether the service itself said that it does not know the method."""
    failure = explain(error, connection.wire.evidence)
    is_answer = failure is not None and failure.kind == "rpc_error"
    return is_answer and error.code == types.METHOD_NOT_FOUND


def _endless(what: str) -> OperationError:
    return OperationError(
        kind="too_large",
        message=f"The service's list does not end, or is too long: too many {what}.",
        hint="Tell whoever runs the service.",
    )
