"""The MCP faces as ASGI applications: who may speak to them, from where, how much and how long."""

import io
from functools import partial
from types import MappingProxyType
from typing import Any

import anyio
from django.conf import settings
from django.core.exceptions import DisallowedHost
from django.core.handlers.asgi import ASGIRequest
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from chatapp.mcp_mount import Manager, Mount
from chatapp.storage import in_database
from chatapp.tools.blueprint import Mode
from chatapp.views.bearer import Problem, admitted, check_method

from .mcp_server import SHOWN, manager

MOST_BYTES = 256 * 1024
# Beyond the longest wait for a call, with its beginning and its end.
MOST_SECONDS = 60.0
PATHS: MappingProxyType[str, Mode] = MappingProxyType({"/mcp": "mcp_act", "/mcp/plan": "mcp_plan"})
SCOPES: MappingProxyType[Mode, tuple[str, ...]] = MappingProxyType(
    {"mcp_act": ("mcp",), "mcp_plan": ("mcp", "mcp:plan")}
)


def _made(mode: Mode) -> tuple[ASGIApp, Manager]:
    made = manager(mode, MOST_BYTES)
    return made.handle_request, made


TOO_SLOW = Problem(
    status=504,
    kind="too_slow",
    message="This took too long. A call that had begun goes on; its chat shows it.",
)
_mounts = {path: Mount(partial(_made, mode)) for path, mode in PATHS.items()}


async def application(scope: Scope, receive: Receive, send: Send) -> None:
    """Serves one HTTP request to the face of its path."""
    request = ASGIRequest(scope, io.BytesIO())
    try:
        check_place(request)
        token = await in_database(admitted, request, *SCOPES[PATHS[scope["path"]]])
        # Stateless: there is no stream to listen to and no session to end.
        check_method(request, ("POST",))
    except Problem as problem:
        await _refuse(problem, scope, receive, send)
        return
    # Our HTTP parser leaves white space around values, which is no part of them (RFC 9110, 5.5).
    headers = [(name, value.strip(b" \t")) for name, value in scope["headers"]]
    await _serve({**scope, "headers": headers, SHOWN: token}, receive, send)


async def _serve(scope: Scope, receive: Receive, send: Send) -> None:
    """One that takes too long is broken off; a call that it began goes on without it."""
    has_begun = False

    async def watched(message: Message) -> None:
        nonlocal has_begun
        has_begun = True
        await send(message)

    with anyio.move_on_after(MOST_SECONDS) as bound:
        await _mounts[scope["path"]](scope, receive, watched)
    if bound.cancelled_caught and not has_begun:
        await _refuse(TOO_SLOW, scope, receive, send)


async def _refuse(problem: Problem, scope: Scope, receive: Receive, send: Send) -> None:
    headers = {"Cache-Control": "no-store"} | problem.headers
    await JSONResponse(problem.value, problem.status, headers)(scope, receive, send)


async def close() -> None:
    """End the servers of this event loop."""
    for mount in _mounts.values():
        await mount.close()


def check_place(request: Any) -> None:
    """Refuse a host that is not ours and a page of anybody else, as pages do: a name that was bent
    to this machine reaches nothing. Raises Problem."""
    try:
        ours = f"{request.scheme}://{request.get_host()}"
    except DisallowedHost:
        raise Problem(status=421, kind="host", message="This server has another name.") from None
    origin = request.headers.get("Origin")
    if origin is not None and origin not in (ours, *settings.ALLOWED_ORIGINS):
        message = "Pages of other sites may not use this server."
        raise Problem(status=403, kind="origin", message=message)
