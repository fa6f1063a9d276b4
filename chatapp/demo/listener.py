"""Where this process reaches the demo service: its own port, or a loopback listener of its own."""

import atexit
import os
import socket
import threading

import uvicorn

from mcpconfig.builtin import BuiltinAddress

from .door import PATH, token


class Listener:
    """Serves the demo service, and nothing else, on a free loopback port from a daemon thread."""

    def __init__(self) -> None:
        listening = socket.socket()
        listening.bind(("127.0.0.1", 0))
        # From here on a client may connect; the system queues it until the thread accepts.
        listening.listen()
        self.url = f"http://127.0.0.1:{listening.getsockname()[1]}{PATH}"
        self._server = uvicorn.Server(
            uvicorn.Config(
                # By name: only a command that really uses the service pays for loading it.
                "chatapp.demo.application:application",
                log_config=None,
                log_level="warning",
                access_log=False,
                lifespan="off",
                ws="none",
                timeout_graceful_shutdown=1,
            )
        )
        self._thread = threading.Thread(
            target=self._server.run, args=([listening],), name="demo service", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        self._server.should_exit = True
        self._thread.join(timeout=5)


_lock = threading.Lock()
_listeners: list[Listener] = []


async def address() -> BuiltinAddress:
    """The demo service's address as seen from this process.

    `serve` tells its workers their port in COUNTERSIGN_PORT. A command beside or without a server
    starts a listener, once, so that it works alone and is never answered by another version.
    """
    port = os.environ.get("COUNTERSIGN_PORT", "")
    url = f"http://127.0.0.1:{port}{PATH}" if port else own_listener().url
    return BuiltinAddress(url=url, bearer=token())


def own_listener() -> Listener:
    with _lock:
        if not _listeners:
            listener = Listener()
            atexit.register(listener.stop)
            _listeners.append(listener)
        return _listeners[0]
