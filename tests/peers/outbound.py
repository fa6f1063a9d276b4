"""Helpers for tests of the transport: a listener that must not be reached, a request, resolvers."""

import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx2

from mcpconfig.net.outbound import GuardedTransport
from mcpconfig.net.wire import Wire


@contextmanager
def counted_connections(
    address: str = "127.0.0.1",
) -> Iterator[tuple[int, Callable[[], int]]]:
    """A port on loopback, and the number of connections to it."""
    with socket.create_server((address, 0)) as listening:
        listening.setblocking(False)

        def offered() -> int:
            count = 0
            while True:
                try:
                    listening.accept()[0].close()
                except BlockingIOError:
                    return count
                count += 1

        yield int(listening.getsockname()[1]), offered


async def post_to(url: str, *, allows_private: bool = False) -> httpx2.Response:
    transport = GuardedTransport(Wire(), allows_private=allows_private, is_sse=False)
    async with httpx2.AsyncClient(transport=transport, trust_env=False, timeout=0.3) as client:
        return await client.post(url)


class Resolver:
    """Answers with the given addresses, one set a question."""

    def __init__(self, *answers: list[str]) -> None:
        self.answers = list(answers)
        self.asked = 0

    async def __call__(self, host: str, port: int, **_: Any) -> list[Any]:
        answer = self.answers[min(self.asked, len(self.answers) - 1)]
        self.asked += 1
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in answer]
