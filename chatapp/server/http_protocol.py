"""uvicorn's HTTP protocol with limits on requests that have not arrived and answers that are not
read.

uvicorn has none: a connection that sends nothing, or one byte a minute, stays open for ever, and
headers may have any size. A stranger could use up all connections or the memory.
"""

import asyncio
import ipaddress
import time
from collections import OrderedDict
from collections.abc import Hashable

from django.conf import settings
from httptools import HttpParserError
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MAX_HEADER_BYTES = 64 * 1024
# Unfinished requests of one address and of all. One more closes the oldest, so that new ones are
# always admitted. A browser opens a few connections before it needs them.
UNFINISHED_PER_ADDRESS = 100
UNFINISHED_IN_ALL = 1_000
# Connections that many people behind one address open at the same moment are not closed: their
# requests may have arrived, and wait to be read.
BURST_SECONDS = 2.0
# How long a client may read nothing while an answer waits to be sent.
READ_SECONDS = 60.0
# Who has one IPv6 address usually has a network of this size.
IPV6_PREFIX = 64

TOO_LATE = b"408 Request Timeout", b"The request did not arrive in time."
TOO_LARGE = b"431 Request Header Fields Too Large", b"The headers of this request are too large."


class UnfinishedRequests:
    """The connections of one process whose request has not arrived as a whole, oldest first.

    One address may have more than its share for `burst_seconds`, all together may not."""

    def __init__(self, per_address: int, in_all: int, burst_seconds: float = 0) -> None:
        self._per_address = per_address
        self._in_all = in_all
        self._burst_seconds = burst_seconds
        self._all: OrderedDict[BoundedHttpProtocol, Hashable] = OrderedDict()
        # With the moment of each, in monotonic seconds.
        self._by_address: dict[Hashable, OrderedDict[BoundedHttpProtocol, float]] = {}

    def add(self, connection: "BoundedHttpProtocol", address: Hashable) -> None:
        """Add a connection, unless it is there. `address` is None where all come from a proxy."""
        if connection in self._all:
            return
        self._all[connection] = address
        if address is not None:
            same = self._by_address.setdefault(address, OrderedDict())
            same[connection] = time.monotonic()
            self._drop_excess(same)
        if len(self._all) > self._in_all:
            next(iter(self._all)).drop()

    def _drop_excess(self, same: "OrderedDict[BoundedHttpProtocol, float]") -> None:
        while len(same) > self._per_address:
            oldest, since = next(iter(same.items()))
            if time.monotonic() - since < self._burst_seconds:
                return
            oldest.drop()

    def remove(self, connection: "BoundedHttpProtocol") -> None:
        address = self._all.pop(connection, None)
        same = self._by_address.get(address)
        if same is not None:
            same.pop(connection, None)
            if not same:
                del self._by_address[address]

    def __len__(self) -> int:
        return len(self._all)


# A process has one server, whose event loop alone uses this.
unfinished_requests = UnfinishedRequests(UNFINISHED_PER_ADDRESS, UNFINISHED_IN_ALL, BURST_SECONDS)


def find_network(host: str) -> str:
    """Return what counts as one address: an IPv4 address, or the network of an IPv6 address."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if address.version == 4:
        return host
    return str(ipaddress.ip_network((address, IPV6_PREFIX), strict=False))


class BoundedHttpProtocol(HttpToolsProtocol):
    """Bounds the number of unfinished requests, the time and size of their headers, and the time in
    which a client reads nothing.

    The time of headers begins with the connection and again with each later request on it. Between
    two requests, uvicorn's own timeout for idle connections applies. `limit_request_body` bounds
    the time of bodies.
    """

    _deadline: asyncio.TimerHandle | None = None
    _read_deadline: asyncio.TimerHandle | None = None
    _fed_bytes = 0
    _header_bytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._begin_request()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end_request()
        self._end_read_deadline()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        # What the parser holds of a header that has not ended is in no callback yet.
        self._fed_bytes += len(data)
        if self._deadline is not None and self._fed_bytes > MAX_HEADER_BYTES:
            self._refuse(*TOO_LARGE)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._begin_request()

    def on_url(self, url: bytes) -> None:
        self._count(url)
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count(name, value)
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._end_deadline()
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._end_request()
        super().on_message_complete()

    def handle_websocket_upgrade(self) -> None:
        self._end_request()
        self._end_read_deadline()
        super().handle_websocket_upgrade()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._begin_read_deadline()

    def resume_writing(self) -> None:
        self._end_read_deadline()
        super().resume_writing()

    def timeout_keep_alive_handler(self) -> None:
        super().timeout_keep_alive_handler()
        # Closing waits until the client has read what is left.
        self._begin_read_deadline()

    def send_400_response(self, msg: str) -> None:
        if self._header_bytes > MAX_HEADER_BYTES:
            self._refuse(*TOO_LARGE)
        else:
            super().send_400_response(msg)

    def drop(self) -> None:
        """Close this connection: it is the oldest of too many unfinished ones."""
        self._end_request()
        self.transport.abort()

    def _begin_request(self) -> None:
        self._fed_bytes = self._header_bytes = 0
        if self._deadline is None:
            self._deadline = self.loop.call_later(settings.HEADER_SECONDS, self._end_late)
        host = find_network(self.client[0]) if self.client and not settings.PUBLIC_URL else None
        unfinished_requests.add(self, host)

    def _end_request(self) -> None:
        self._end_deadline()
        unfinished_requests.remove(self)

    def _end_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _begin_read_deadline(self) -> None:
        self._end_read_deadline()
        self._read_deadline = self.loop.call_later(READ_SECONDS, self.transport.abort)

    def _end_read_deadline(self) -> None:
        if self._read_deadline is not None:
            self._read_deadline.cancel()
            self._read_deadline = None

    def _end_late(self) -> None:
        self._end_deadline()
        if self.cycle is not None and not self.cycle.response_complete:
            # An earlier request on this connection is still being answered.
            self._deadline = self.loop.call_later(settings.HEADER_SECONDS, self._end_late)
        elif self._fed_bytes:
            self._refuse(*TOO_LATE)
        else:
            self.transport.close()

    def _count(self, *parts: bytes) -> None:
        self._header_bytes += sum(map(len, parts))
        if self._header_bytes > MAX_HEADER_BYTES:
            raise HttpParserError("The headers are too large.")

    def _refuse(self, status: bytes, sentence: bytes) -> None:
        self._end_request()
        if self.transport.is_closing():
            return
        lines = [
            b"HTTP/1.1 " + status,
            b"content-type: text/plain; charset=utf-8",
            b"content-length: %d" % len(sentence),
            b"connection: close",
            b"",
            sentence,
        ]
        self.transport.write(b"\r\n".join(lines))
        self.transport.close()
