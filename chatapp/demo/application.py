"""The demo service as an ASGI application for `/demo/mcp`, for this program itself and nobody else.

It needs no ASGI lifespan: the first request of an event loop starts the server, `close` ends it.
"""

import asyncio
import contextlib
from weakref import WeakKeyDictionary

from django.conf import settings
from django.utils.crypto import constant_time_compare
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from .door import PATH, token
from .notebook import notebook_server

__all__ = ["PATH", "application", "close", "token"]


class Mount:
    """The running server of one event loop, entered and left in one task, as anyio demands."""

    def __init__(self) -> None:
        server = notebook_server()
        self.app: ASGIApp = server.streamable_http_app(
            streamable_http_path=PATH, stateless_http=True
        )
        self._manager = server.session_manager
        self._started: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._hold())

    async def started(self) -> None:
        # Shielded: a client that goes away must not cancel the start for those who wait beside it.
        await asyncio.shield(self._started)

    async def close(self) -> None:
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task

    async def _hold(self) -> None:
        try:
            async with self._manager.run():
                self._started.set_result(None)
                await asyncio.Event().wait()
        except Exception as error:
            if self._started.done():
                raise
            self._started.set_exception(error)


_mounts: WeakKeyDictionary[asyncio.AbstractEventLoop, Mount] = WeakKeyDictionary()


async def application(scope: Scope, receive: Receive, send: Send) -> None:
    """Serves one HTTP request to the demo service."""
    refusal = refuse(scope)
    if refusal is not None:
        await refusal(scope, receive, send)
        return
    loop = asyncio.get_running_loop()
    mount = _mounts.get(loop)
    if mount is None:
        mount = _mounts[loop] = Mount()
    try:
        await mount.started()
    except Exception:
        _mounts.pop(loop, None)
        raise
    await mount.app(scope, receive, send)


async def close() -> None:
    """Ends the server of this event loop, if one was started."""
    mount = _mounts.pop(asyncio.get_running_loop(), None)
    if mount is not None:
        await mount.close()


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
