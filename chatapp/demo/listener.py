"""The address of the demo service in this process: the port of `serve`, or its own listener."""

import atexit
import os
import socket
import threading

import uvicorn

from chatapp.server.runtime import current_runtime
from mcpconfig.values.hooks import BuiltinAddress

from .address import PATH, compute_token


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
                # By name, so that only a command that uses the service loads it.
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


async def find_address() -> BuiltinAddress:
    """Return the address of the demo service as this process sees it.

    `serve` sets COUNTERSIGN_PORT for its workers. A command starts a listener, once, so that it
    works without a server and never gets an answer from another version.
    """
    port = os.environ.get("COUNTERSIGN_PORT", "")
    url = f"http://127.0.0.1:{port}{PATH}" if port else start_own_listener().url
    return BuiltinAddress(url=url, bearer=compute_token())


def start_own_listener() -> Listener:
    """Return the listener of this process; start it first if there is none."""
    runtime = current_runtime()
    with _lock:
        if not isinstance(runtime.demo_listener, Listener):
            runtime.demo_listener = Listener()
            atexit.register(runtime.demo_listener.stop)
        return runtime.demo_listener
