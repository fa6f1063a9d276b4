"""The MCP endpoints as ASGI applications: authentication, origin checks and limits."""

import io
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import anyio
from django.conf import settings
from django.core.exceptions import DisallowedHost
from django.core.handlers.asgi import ASGIRequest
from django.utils.translation import gettext as _
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from chatapp.server.database import in_database
from chatapp.server.mcp_mount import Manager, Mount
from mcpconfig.values.lazy_module import LazyModule, load

from .bearer import Problem, admit, check_method

if TYPE_CHECKING:
    from chatapp.api import mcp_server
    from chatapp.tools.blueprint import Mode
else:
    # It imports the MCP SDK, which nothing needs before the first request.
    mcp_server = LazyModule("chatapp.api.mcp_server")

MAX_BYTES = 256 * 1024
# Longer than the longest wait for a call.
MAX_SECONDS = 60.0
PATHS: "MappingProxyType[str, Mode]" = MappingProxyType(
    {"/mcp": "mcp_act", "/mcp/plan": "mcp_plan"}
)
SCOPES: "MappingProxyType[Mode, tuple[str, ...]]" = MappingProxyType(
    {"mcp_act": ("mcp",), "mcp_plan": ("mcp", "mcp:plan")}
)


def _build_mount(mode: "Mode") -> tuple[ASGIApp, Manager]:
    made = mcp_server.create_session_manager(mode, MAX_BYTES)
    return made.handle_request, made


def _build_too_slow() -> Problem:
    return Problem(
        status=504,
        kind="too_slow",
        message=_(
            "The request timed out. A call that has started continues. Its chat shows the result."
        ),
    )


_mounts = {path: Mount(partial(_build_mount, mode)) for path, mode in PATHS.items()}


async def application(scope: Scope, receive: Receive, send: Send) -> None:
    """Serve one HTTP request to the endpoint of its path."""
    request = ASGIRequest(scope, io.BytesIO())
    try:
        check_host_and_origin(request)
        token = await in_database(admit, request, *SCOPES[PATHS[scope["path"]]])
        # Stateless: there is no stream to read (GET) and no session to end (DELETE).
        check_method(request, ("POST",))
    except Problem as problem:
        await _refuse(problem, scope, receive, send)
        return
    await load(mcp_server)
    # The HTTP parser keeps white space around values, which is not part of them (RFC 9110, 5.5).
    headers = [(name, value.strip(b" \t")) for name, value in scope["headers"]]
    await _serve({**scope, "headers": headers, mcp_server.SCOPE_ENTRY: token}, receive, send)


async def _serve(scope: Scope, receive: Receive, send: Send) -> None:
    """Serve a request within the time limit. A call that it began continues after the limit."""
    has_begun = False

    async def watched(message: Message) -> None:
        nonlocal has_begun
        has_begun = True
        await send(message)

    with anyio.move_on_after(MAX_SECONDS) as bound:
        await _mounts[scope["path"]](scope, receive, watched)
    if bound.cancelled_caught and not has_begun:
        await _refuse(_build_too_slow(), scope, receive, send)


async def _refuse(problem: Problem, scope: Scope, receive: Receive, send: Send) -> None:
    headers = {"Cache-Control": "no-store"} | problem.headers
    await JSONResponse(problem.value, problem.status, headers)(scope, receive, send)


async def close() -> None:
    """Close the servers of this event loop."""
    for mount in _mounts.values():
        await mount.close()


def check_host_and_origin(request: Any) -> None:
    """Refuse foreign hosts and origins, as a protection against DNS rebinding. Raises Problem."""
    try:
        ours = f"{request.scheme}://{request.get_host()}"
    except DisallowedHost:
        raise Problem(
            status=421, kind="host", message=_("This host name is not one of the server.")
        ) from None
    origin = request.headers.get("Origin")
    if origin is not None and origin not in (ours, *settings.ALLOWED_ORIGINS):
        message = _("Pages of other sites cannot use this server.")
        raise Problem(status=403, kind="origin", message=message)
