"""What lies below the providers' SDKs: a client for each event loop and account, one TLS context,
and the headers that may leave."""

import asyncio
import functools
import ssl
import threading
from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

import httpx2

from chatapp.providers.account import Account

CONNECT_SECONDS = 10.0
# Whatever an SDK adds from the operator's environment is not among these.
PLAIN_HEADERS = frozenset(
    {
        *("accept", "accept-encoding", "connection", "content-length", "content-type"),
        *("host", "transfer-encoding"),
    }
)

Client = TypeVar("Client")


class Clients(Generic[Client]):
    """Clients by event loop and account: the connections of one loop fail in another."""

    def __init__(self, make: Callable[[Account], Client]) -> None:
        self._make = make
        self._known: dict[tuple[asyncio.AbstractEventLoop, Account], Client] = {}
        self._lock = threading.Lock()

    def of(self, account: Account) -> Client:
        """The client of the running loop."""
        loop = asyncio.get_running_loop()
        with self._lock:
            for known in [known for known in self._known if known[0].is_closed()]:
                del self._known[known]
            if (loop, account) not in self._known:
                self._known[loop, account] = self._make(account)
            return self._known[loop, account]


@functools.cache
def tls() -> ssl.SSLContext:
    """One for the process: each takes a twentieth of a second."""
    return httpx2.create_ssl_context()


class OwnHeaders:
    """A hook that sends the headers of one account and none besides.

    The SDKs add what the operator's environment names (organisations, another key, headers of its
    own) to whatever address they are given. So the list of what may go is closed, and is kept where
    the request leaves. `kept` names what the provider's form itself needs.
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
