"""Runs an MCP server inside an ASGI application that has no lifespan for it.

The first request in an event loop starts the server, the first one after a crash starts it again,
and `close` stops it.
"""

import asyncio
import contextlib
import logging
import time
from collections import deque
from collections.abc import Callable
from typing import Protocol
from weakref import WeakKeyDictionary

from django.utils.translation import gettext as _
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

log = logging.getLogger(__name__)
# A server that crashes often is not started for a while, since each crash ends other requests.
MAX_STARTS = 5
WITHIN_SECONDS = 60.0


def build_down_answer() -> dict[str, object]:
    """Return the answer of a server that crashed too often."""
    return {
        "error": {
            "kind": "down",
            "message": _("This server crashed several times in a row."),
            "hint": _("Try again in a minute. See its log for the cause."),
            "field": "",
        }
    }


class Manager(Protocol):
    """The SDK's session manager, which runs the requests of a server."""

    def run(self) -> contextlib.AbstractAsyncContextManager[None]: ...


class RunningServer:
    """The running server of one event loop. One task enters and leaves it, as anyio requires."""

    def __init__(self, app: ASGIApp, manager: Manager) -> None:
        self.app = app
        self._manager = manager
        self._started: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._hold())

    async def wait_started(self) -> None:
        # Shielded, because a client that disconnects must not cancel the start for other clients.
        await asyncio.shield(self._started)

    async def close(self) -> None:
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task

    @property
    def has_ended(self) -> bool:
        return self._task.done()

    async def _hold(self) -> None:
        try:
            async with self._manager.run():
                self._started.set_result(None)
                await asyncio.Event().wait()
        except Exception as error:
            if self._started.done():
                log.exception("An MCP server crashed; the next request starts it anew")
            else:
                self._started.set_exception(error)


class Starts:
    """The server of one event loop, and the times of its latest starts."""

    def __init__(self) -> None:
        self.running: RunningServer | None = None
        self._times: deque[float] = deque(maxlen=MAX_STARTS)

    def may_start(self) -> bool:
        """Whether the server may be started now. Counts a start if it may."""
        now = time.monotonic()
        if len(self._times) == MAX_STARTS and now - self._times[0] < WITHIN_SECONDS:
            return False
        self._times.append(now)
        return True


class Mount:
    """An ASGI application for one server. `make` builds it for each start, because the SDK can run
    a server only once."""

    def __init__(self, make: Callable[[], tuple[ASGIApp, Manager]]) -> None:
        self._make = make
        self._starts: WeakKeyDictionary[asyncio.AbstractEventLoop, Starts] = WeakKeyDictionary()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        starts = self._starts.setdefault(asyncio.get_running_loop(), Starts())
        if starts.running is None or starts.running.has_ended:
            if not starts.may_start():
                headers = {"Retry-After": f"{WITHIN_SECONDS:.0f}"}
                await JSONResponse(build_down_answer(), 503, headers)(scope, receive, send)
                return
            starts.running = RunningServer(*self._make())
        running = starts.running
        await running.wait_started()
        await running.app(scope, receive, send)

    async def close(self) -> None:
        """Stop the server of this event loop, if one was started."""
        starts = self._starts.pop(asyncio.get_running_loop(), None)
        if starts is not None and starts.running is not None:
            await starts.running.close()
