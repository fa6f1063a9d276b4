"""The tabs of a benchmark: sockets as browsers open them, all in one process without threads. They
take little CPU time, so that the server has it: no frame is parsed."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import cast
from urllib.parse import urlsplit

from websockets.client import ClientProtocol
from websockets.extensions.permessage_deflate import ClientPerMessageDeflateFactory
from websockets.frames import Frame, Opcode
from websockets.http11 import Response
from websockets.typing import Origin
from websockets.uri import parse_uri

from .fast_model import MAX_CHUNKS, make_word

WORDS = [make_word(number) for number in range(MAX_CHUNKS)]


def make_question(key: str, start: int, chunks: int, rate: int, lost: int = -1) -> str:
    """The message that the model server answers as wanted."""
    return f"Bench {key} {start} {chunks} {rate} {lost}"


@dataclass(slots=True, kw_only=True)
class Reading:
    """What a tab saw of one answer. Times are in seconds of the monotonic clock."""

    key: str
    chunks: int
    sent: float = 0.0
    # How many words came, in their order, and when each frame came that had new ones.
    words: int = 0
    arrivals: list[float] = field(default_factory=list)
    is_over: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def is_whole(self) -> bool:
        return self.is_over.is_set() and self.words == self.chunks

    def take(self, frame: str, end_mark: str) -> None:
        before = self.words
        while self.words < self.chunks and WORDS[self.words] in frame:
            self.words += 1
        if self.words > before:
            self.arrivals.append(time.monotonic())
        # What is said of an earlier answer does not end this one.
        if self.arrivals and end_mark in frame:
            self.is_over.set()


class Socket(asyncio.Protocol):
    """One WebSocket. It offers compression, as a browser does."""

    def __init__(self, address: str, cookies: str, take: Callable[[str], None]) -> None:
        parts = urlsplit(address)
        self._protocol = ClientProtocol(
            parse_uri(address),
            origin=Origin(f"http://{parts.netloc}"),
            extensions=[ClientPerMessageDeflateFactory(client_max_window_bits=True)],
        )
        self._cookies = cookies
        self._take = take
        self.is_open: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        request = self._protocol.connect()
        if self._cookies:
            request.headers["Cookie"] = self._cookies
        self._protocol.send_request(request)
        self._flush()

    def data_received(self, data: bytes) -> None:
        self._protocol.receive_data(data)
        self._flush()
        for event in self._protocol.events_received():
            match event:
                case Response() if not self.is_open.done():
                    if error := self._protocol.handshake_exc:
                        self.is_open.set_exception(error)
                    else:
                        self.is_open.set_result(None)
                case Frame(opcode=Opcode.TEXT, data=content):
                    self._take(bytes(content).decode())

    def connection_lost(self, error: Exception | None) -> None:
        if not self.is_open.done():
            self.is_open.set_exception(error or ConnectionError("The socket was closed"))

    def send(self, text: str) -> None:
        self._protocol.send_text(text.encode())
        self._flush()

    def close(self) -> None:
        self._transport.close()

    def _flush(self) -> None:
        for data in self._protocol.data_to_send():
            if data:
                self._transport.write(data)


async def open_socket(address: str, cookies: str, take: Callable[[str], None]) -> Socket:
    """Return an open socket whose texts are given to `take`."""
    parts = urlsplit(address)
    loop = asyncio.get_running_loop()
    assert parts.hostname is not None
    assert parts.port is not None
    _, socket = await loop.create_connection(
        lambda: Socket(address, cookies, take), parts.hostname, parts.port
    )
    await asyncio.wait_for(socket.is_open, 30)
    return socket


class Tab:
    """A page with an open socket, which reads one answer after the other."""

    end_mark = ""

    def __init__(self) -> None:
        self.reading: Reading | None = None
        self.socket: Socket | None = None

    def take(self, frame: str) -> None:
        if self.reading is not None:
            self.reading.take(frame, self.end_mark)

    async def shows_words(self, count: int) -> bool:
        """Whether the page has them all after a reload, if the server stores answers."""
        return True

    async def ask(self, question: str) -> None:
        """Send a message."""
        raise NotImplementedError

    def close(self) -> None:
        if self.socket is not None:
            self.socket.close()

    async def read_answer(self, reading: Reading, rate: int, lost: int = -1) -> Reading:
        """Send the message and wait for the end of its answer, at most a minute longer than it
        should take."""
        self.reading = reading
        reading.sent = time.monotonic()
        await self.ask(make_question(reading.key, 0, reading.chunks, rate, lost))
        try:
            await asyncio.wait_for(reading.is_over.wait(), reading.chunks / rate + 60)
        except TimeoutError:
            print(f"An answer of {reading.chunks} chunks ended after {reading.words}", flush=True)
        return reading
