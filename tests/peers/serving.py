"""Runs an ASGI application on a loopback port from a thread, and counts what arrives there."""

import json
import socket
import threading
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass, field
from pathlib import Path
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
    """What reached a server, in order; cleared by whoever wants to count from here."""

    seen: list[Arrival] = field(default_factory=list)

    def clear(self) -> None:
        self.seen.clear()

    @property
    def methods(self) -> list[str]:
        return [arrival.rpc_method or arrival.method for arrival in self.seen]


def counted(application: Application, arrivals: Arrivals) -> Application:
    """The application, with every request noted before it is handled."""

    async def noting(scope: Message, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await application(scope, receive, send)
            return
        body, more = b"", scope["method"] == "POST"
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
    message = json.loads(body) if body.startswith(b"{") else {}
    return Arrival(
        method=scope["method"],
        path=scope["path"],
        rpc_method=message.get("method", ""),
        headers={name.decode(): value.decode() for name, value in scope["headers"]},
        body=body,
    )


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
        self._server = uvicorn.Server(
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
        """Until the process is told to end."""
        self._thread.join()

    def __exit__(self, *_: object) -> None:
        self._server.should_exit = True
        self._thread.join(timeout=5)
        self._listening.close()
