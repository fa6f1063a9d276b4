"""The demo service as an ASGI application at `/demo/mcp`, for this program only."""

from typing import TYPE_CHECKING

from django.conf import settings
from django.utils.crypto import constant_time_compare
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from chatapp.server.mcp_mount import Manager, Mount
from mcpconfig.values.lazy_module import LazyModule, load

from .address import PATH, compute_token

if TYPE_CHECKING:
    from . import notebook
else:
    # It imports the MCP SDK, which nothing needs before the first request.
    notebook = LazyModule("chatapp.demo.notebook")

__all__ = ["PATH", "application", "close"]


def _build_app() -> tuple[ASGIApp, Manager]:
    server = notebook.notebook_server()
    app = server.streamable_http_app(streamable_http_path=PATH, stateless_http=True)
    return app, server.session_manager


_mount = Mount(_build_app)
close = _mount.close


async def application(scope: Scope, receive: Receive, send: Send) -> None:
    """Serve one HTTP request to the demo service."""
    refusal = refuse(scope)
    if refusal is None:
        await load(notebook)
    await (refusal or _mount)(scope, receive, send)


def refuse(scope: Scope) -> PlainTextResponse | None:
    """Return the response to a request that must not reach the server, or None.

    A browser of this machine, and a page in it, can reach a loopback port, too. Only this program
    has the token. The SDK also checks Host and Origin.
    """
    if not settings.DEMO or scope["path"] != PATH:
        return PlainTextResponse("Not found", status_code=404)
    if not constant_time_compare(read_authorization(scope), f"Bearer {compute_token()}"):
        return PlainTextResponse(
            "The demo service answers to this application only.",
            status_code=401,
            headers={"WWW-Authenticate": "Bearer"},
        )
    # Stateless: there is no stream to listen to and no session to end.
    if scope["method"] != "POST":
        return PlainTextResponse("Use POST.", status_code=405, headers={"Allow": "POST"})
    return None


def read_authorization(scope: Scope) -> str:
    values = [value for name, value in scope["headers"] if name == b"authorization"]
    return values[0].decode("latin-1") if len(values) == 1 else ""
