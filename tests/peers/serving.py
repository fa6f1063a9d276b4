"""Runs an ASGI application on a loopback port from a thread, and records its requests."""

import asyncio
import json
import socket
import threading
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any, Self

import uvicorn

Message = MutableMapping[str, Any]
Application = Callable[
    [Message, Callable[[], Awaitable[Message]], Callable[[Message], Awaitable[None]]],
    Awaitable[None],
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """One request as it reached the server."""

    method: str
    path: str
    rpc_method: str
    headers: dict[str, str]
    body: bytes = b""


@dataclass(slots=True)
class Arrivals:
    """The requests of a server, in order; a test clears them to count from there."""

    seen: list[Arrival] = field(default_factory=list)

    def clear(self) -> None:
        self.seen.clear()

    @property
    def methods(self) -> list[str]:
        return [arrival.rpc_method or arrival.method for arrival in self.seen]


def counted(application: Application, arrivals: Arrivals) -> Application:
    """Record every request before it is handled."""

    async def noting(scope: Message, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await application(scope, receive, send)
            return
        body, more = b"", scope["method"] in ("POST", "PUT")
        while more:
            part = await receive()
            body += part.get("body", b"")
            more = part.get("more_body", False)
        arrivals.seen.append(_arrival(scope, body))
        replay = [{"type": "http.request", "body": body, "more_body": False}]

        async def received() -> Message:
            return replay.pop() if replay else await receive()

        await application(scope, received, send)

    return noting


def _arrival(scope: Message, body: bytes) -> Arrival:
    is_json = body.startswith(b"{") and body.endswith(b"}")
    message = json.loads(body) if is_json else {}
    return Arrival(
        method=scope["method"],
        path=scope["path"],
        rpc_method=message.get("method", ""),
        headers={name.decode(): value.decode() for name, value in scope["headers"]},
        body=body,
    )


class EventServer(uvicorn.Server):
    """A uvicorn server that starts and ends on events. The original looks ten times a second,
    which costs each of some thousand tests up to 0.3 seconds."""

    _loop: asyncio.AbstractEventLoop | None = None

    def stop(self) -> None:
        """End the server, from any thread."""
        self.should_exit = True
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._is_over.set)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        super().handle_exit(sig, frame)
        self.stop()

    async def main_loop(self) -> None:
        self._is_over = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        if not await self.on_tick(0):
            await self._is_over.wait()
        self._loop = None

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for server in self.servers:
            server.close()
        for listener in sockets or []:
            listener.close()
        for connection in list(self.server_state.connections):
            connection.shutdown()
        try:
            async with asyncio.timeout(self.config.timeout_graceful_shutdown):
                while self.server_state.connections or self.server_state.tasks:  # noqa: ASYNC110
                    await asyncio.sleep(0.002)  # uvicorn announces neither
        except TimeoutError:
            for task in self.server_state.tasks:
                task.cancel()
        await self.lifespan.shutdown()


class Served:
    """`with Served(application) as served:` it answers at `served.url`."""

    def __init__(
        self,
        application: Application,
        path: str = "/mcp",
        *,
        port: int = 0,
        certificate: Path | None = None,
    ) -> None:
        self.arrivals = Arrivals()
        self._listening = socket.socket()
        self._listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._listening.bind(("127.0.0.1", port))
        self._listening.listen(64)
        self.port = int(self._listening.getsockname()[1])
        scheme = "https" if certificate else "http"
        self.url = f"{scheme}://127.0.0.1:{self.port}{path}"
        self._server = EventServer(
            uvicorn.Config(
                counted(application, self.arrivals),
                log_config=None,
                log_level="critical",
                loop="asyncio",
                ws="none",
                timeout_graceful_shutdown=1,
                ssl_certfile=certificate,
            )
        )
        self._thread = threading.Thread(
            target=self._server.run, args=([self._listening],), daemon=True
        )

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def wait(self) -> None:
        """Wait until the process is told to end."""
        self._thread.join()

    def __exit__(self, *_: object) -> None:
        self._server.stop()
        self._thread.join(timeout=30)
        self._listening.close()
