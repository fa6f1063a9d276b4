"""Lists that services send in pages, read to their end or to a limit."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

import mcp_types as types
from django.utils.translation import gettext as _
from mcp import MCPError

from mcpconfig.session.client import Connection
from mcpconfig.session.sdk_errors import translate_error
from mcpconfig.values.errors import OperationError
from mcpconfig.values.limits import LIMITS

Page = TypeVar("Page", bound=types.PaginatedResult)
Entry = TypeVar("Entry")

Fetch = Callable[[str | None], Awaitable[Page]]
Entries = Callable[[Page], list[Entry]]


async def fetch_tool_pages(connection: Connection) -> list[types.ListToolsResult]:
    """Return all pages, because the first one says how long the list stays fresh. Empty if the
    service neither declares tools nor knows the method."""
    session = connection.session
    try:
        return await _fetch_pages(
            connection,
            lambda cursor: session.list_tools(params=_at(cursor)),
            lambda page: page.tools,
            LIMITS.tools,
        )
    except MCPError as error:
        if connection.capabilities.tools is None and _is_unknown_method(error, connection):
            return []
        raise


async def fetch_resources(connection: Connection) -> list[types.Resource]:
    session = connection.session
    return await _fetch_entries(
        connection,
        lambda cursor: session.list_resources(params=_at(cursor)),
        lambda page: page.resources,
    )


async def fetch_templates(connection: Connection) -> list[types.ResourceTemplate]:
    session = connection.session
    return await _fetch_entries(
        connection,
        lambda cursor: session.list_resource_templates(params=_at(cursor)),
        lambda page: page.resource_templates,
    )


async def fetch_prompts(connection: Connection) -> list[types.Prompt]:
    session = connection.session
    return await _fetch_entries(
        connection,
        lambda cursor: session.list_prompts(params=_at(cursor)),
        lambda page: page.prompts,
    )


async def _fetch_entries(
    connection: Connection, fetch: Fetch[Page], entries: Entries[Page, Entry]
) -> list[Entry]:
    """Return the entries of all pages; none if the service does not know the method. Many services
    offer resources without templates, or the other way round, and answer only one of the two
    methods."""
    try:
        pages = await _fetch_pages(connection, fetch, entries, LIMITS.entries)
    except MCPError as error:
        if _is_unknown_method(error, connection):
            return []
        raise
    found = [entry for page in pages for entry in entries(page)]
    if len(found) > LIMITS.entries:
        raise _endless_list_error(_("The service’s list is too long: too many entries."))
    return found


async def _fetch_pages(
    connection: Connection, fetch: Fetch[Page], entries: Entries[Page, Entry], most: int
) -> list[Page]:
    """Return all pages. A list that repeats a cursor or exceeds a limit is an attack or a bug."""
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
            raise _endless_list_error(_("The service’s list is too long: too many entries."))
        if connection.wire.received_bytes > most_bytes:
            raise _endless_list_error(_("The service’s list is too long: too many bytes."))
    raise _endless_list_error(_("The service’s list is too long or endless: too many pages."))


def _at(cursor: str | None) -> types.PaginatedRequestParams:
    return types.PaginatedRequestParams(cursor=cursor)


def _is_unknown_method(error: MCPError, connection: Connection) -> bool:
    """Whether the service itself answered that it does not know the method."""
    failure = translate_error(error, connection.wire.evidence)
    is_answer = failure is not None and failure.kind == "rpc_error"
    return is_answer and error.code == types.METHOD_NOT_FOUND


def _endless_list_error(message: str) -> OperationError:
    return OperationError(
        kind="too_large",
        message=message,
        hint=_("Report it to the service’s operator."),
    )
