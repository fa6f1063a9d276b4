"""The demo service as an ASGI application for `/demo/mcp`, for this program itself and nobody
else."""

from django.conf import settings
from django.utils.crypto import constant_time_compare
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from chatapp.mcp_mount import Manager, Mount

from .door import PATH, token
from .notebook import notebook_server

__all__ = ["PATH", "application", "close", "token"]


def _made() -> tuple[ASGIApp, Manager]:
    server = notebook_server()
    app = server.streamable_http_app(streamable_http_path=PATH, stateless_http=True)
    return app, server.session_manager


_mount = Mount(_made)
close = _mount.close


async def application(scope: Scope, receive: Receive, send: Send) -> None:
    """Serves one HTTP request to the demo service."""
    await (refuse(scope) or _mount)(scope, receive, send)


def refuse(scope: Scope) -> PlainTextResponse | None:
    """The answer to a request that must not reach the server.

    A browser of this machine, or a page that it shows, can reach a loopback port too; the token is
    what keeps everybody but this program out. The SDK checks Host and Origin besides.
    """
    if not settings.DEMO or scope["path"] != PATH:
        return PlainTextResponse("Not found", status_code=404)
    if not constant_time_compare(authorization(scope), f"Bearer {token()}"):
        return PlainTextResponse(
            "The demo service answers to this application only.",
            status_code=401,
            headers={"WWW-Authenticate": "Bearer"},
        )
    # Stateless: there is no stream to listen to and no session to end.
    if scope["method"] != "POST":
        return PlainTextResponse("Use POST.", status_code=405, headers={"Allow": "POST"})
    return None


def authorization(scope: Scope) -> str:
    values = [value for name, value in scope["headers"] if name == b"authorization"]
    return values[0].decode("latin-1") if len(values) == 1 else ""
