"""What the SDKs share: clients by event loop and account, the TLS context, allowed headers."""

import asyncio
import functools
import ssl
import threading
from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

import httpx2

from .account import Account

CONNECT_SECONDS = 10.0
# None of these comes from the operator's environment.
PLAIN_HEADERS = frozenset(
    {
        *("accept", "accept-encoding", "connection", "content-length", "content-type"),
        *("host", "transfer-encoding"),
    }
)

Client = TypeVar("Client")


class Clients(Generic[Client]):
    """Clients by event loop and account. A connection of one loop fails in another."""

    def __init__(self, make: Callable[[Account], Client]) -> None:
        self._make = make
        self._known: dict[tuple[asyncio.AbstractEventLoop, Account], Client] = {}
        self._lock = threading.Lock()

    def get(self, account: Account) -> Client:
        """Return the client of the running loop."""
        loop = asyncio.get_running_loop()
        with self._lock:
            for known in [known for known in self._known if known[0].is_closed()]:
                del self._known[known]
            if (loop, account) not in self._known:
                self._known[loop, account] = self._make(account)
            return self._known[loop, account]


@functools.cache
def get_tls_context() -> ssl.SSLContext:
    """Return the TLS context of the process. Building one takes 50 ms."""
    return httpx2.create_ssl_context()


class OwnHeaders:
    """A hook that sends the headers of one account and no others.

    The SDKs add values of the operator's environment (an organisation, another key, headers) to
    every request, for any address. So only listed headers are sent, and the check is made where the
    request is sent. `kept` has the headers that the API needs.
    """

    def __init__(
        self, account: Account, own: Mapping[str, str], kept: frozenset[str] = frozenset()
    ) -> None:
        self._headers = {"user-agent": "Countersign", **own, **dict(account.headers)}
        self._kept = PLAIN_HEADERS | kept

    async def __call__(self, request: httpx2.Request) -> None:
        for name in set(request.headers) - self._kept:
            del request.headers[name]
        request.headers.update(self._headers)
