"""A TCP proxy that resets each connection (RST, no goodbye) some seconds after it began."""

import contextlib
import select
import socket
import struct
import threading
import time
from typing import Self

AT_ONCE = struct.pack("ii", 1, 0)  # linger on, zero seconds: closing sends RST instead of FIN


class BreakingProxy:
    """Passes bytes between its `port` and the target's, for as long as it lets a line live."""

    def __init__(self, target: int, life_seconds: float) -> None:
        self.target = target
        self.life_seconds = life_seconds
        self.resets = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._thread = threading.Thread(target=self._accept, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        # Closing alone would not wake the thread that accepts.
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join(5)
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _address = self._listener.accept()
                threading.Thread(target=self._carry, args=(client,), daemon=True).start()

    def _carry(self, client: socket.socket) -> None:
        end = time.monotonic() + self.life_seconds
        with client, contextlib.suppress(OSError):
            server = socket.create_connection(("127.0.0.1", self.target), timeout=5)
            other = {client: server, server: client}
            with server:
                while (left := end - time.monotonic()) > 0:
                    for ready in select.select([client, server], [], [], left)[0]:
                        data = ready.recv(65_536)
                        if not data:
                            return
                        other[ready].sendall(data)
                self.resets += 1
                for line in (client, server):
                    line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, AT_ONCE)
