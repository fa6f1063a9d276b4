"""A model server on loopback: Responses and Chat Completions in their real streaming formats.

It records what it was sent and counts the streams that the other side left before their end.
"""

import asyncio
import json
import socket
import struct
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field
from typing import Any, cast

from tests.wire.chat_format import chat_events
from tests.wire.responses_format import responses_events
from tests.wire.script import FALLBACK, Answer, answer_from_json

PATIENCE_SECONDS = 5.0
FORMATS = {"/v1/responses": responses_events, "/v1/chat/completions": chat_events}


class ScriptedBreak(ConnectionError):
    """The script breaks the connection here; the other side did not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    path: str
    headers: dict[str, str]
    body: Any


@dataclass(slots=True)
class WireServer:
    """Plays its script, one answer a request, then says that there is no more."""

    script: deque[Answer] = field(default_factory=deque)
    requests: list[Request] = field(default_factory=list)
    aborted: int = 0
    streaming: int = 0
    connections: int = 0
    port: int = 0
    _changed: asyncio.Condition = field(default_factory=asyncio.Condition)
    _open: dict[asyncio.Task[None], asyncio.StreamWriter] = field(default_factory=dict)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def play(self, *answers: Answer) -> None:
        self.script.extend(answers)

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait, within a bound, for something to become true of this server."""
        async with asyncio.timeout(PATIENCE_SECONDS), self._changed:
            await self._changed.wait_for(holds)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, request after request."""
        self.connections += 1
        task = cast(asyncio.Task[None], asyncio.current_task())
        self._open[task] = writer
        try:
            while request := await _read_request(reader):
                await self._answer(request, reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            del self._open[task]
            writer.close()

    async def _answer(
        self, request: Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        if request.path.startswith("/_wire/") or request.path not in FORMATS:
            status, value = self._control(request)
            await _send_document(writer, status, {}, json.dumps(value), "application/json")
            return
        self.requests.append(request)
        self.streaming += 1
        await self._tell()
        answer = self.script.popleft() if self.script else FALLBACK
        try:
            await _unless_gone(self._play(answer, request, writer), reader)
        except ScriptedBreak:
            raise
        except ConnectionError:
            self.aborted += 1
            raise
        finally:
            self.streaming -= 1
            await self._tell()

    async def _tell(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    def _control(self, request: Request) -> tuple[int, Any]:
        """What tests in another process ask: see the requests, set the script."""
        match request.path:
            case "/_wire/requests":
                return 200, [asdict(each) for each in self.requests]
            case "/_wire/stats":
                return 200, {"aborted": self.aborted, "streaming": self.streaming}
            case "/_wire/script":
                self.script = deque(answer_from_json(value) for value in request.body)
                return 200, {"answers": len(self.script)}
            case "/v1/models":
                return 200, {"object": "list", "data": [{"id": "scripted", "object": "model"}]}
        return 404, {"error": {"message": f"There is no {request.path} here."}}

    async def _play(self, answer: Answer, request: Request, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(answer.first_byte_ms / 1000)
        if answer.status != 200 or answer.document:
            text = answer.document or json.dumps({"error": answer.error})
            kind = answer.content_type if answer.document else "application/json"
            await _send_document(writer, answer.status, answer.headers, text, kind)
            return
        if answer.cut and answer.cut_after < 0:
            await _cut(answer, writer)
            return
        writer.write(_head(200, {**answer.headers, "content-type": answer.content_type}))
        if answer.write is not None:
            for piece in _split(stream_bytes(answer, request.path, request.body), answer.write):
                writer.write(b"%x\r\n%b\r\n" % (len(piece), piece))
        else:
            for number, event in enumerate(_events(answer, request.path, request.body)):
                if answer.cut and number == answer.cut_after:
                    await _cut(answer, writer)
                    return
                piece = _encoded(event)
                writer.write(b"%x\r\n%b\r\n" % (len(piece), piece))
                await writer.drain()
                await asyncio.sleep(answer.delay_ms / 1000)
        writer.write(b"0\r\n\r\n")
        await writer.drain()

    async def close(self) -> None:
        """Break every connection and see its task end, so that nothing outlives the server."""
        open_now = dict(self._open)
        for writer in open_now.values():
            writer.transport.abort()
        if open_now:
            await asyncio.wait(open_now, timeout=PATIENCE_SECONDS)


@asynccontextmanager
async def wire_server(answers: Iterable[Answer] = (), port: int = 0) -> AsyncIterator[WireServer]:
    server = WireServer(deque(answers))
    listener = await asyncio.start_server(server.serve, "127.0.0.1", port)
    server.port = listener.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        listener.close()
        await server.close()


def _events(answer: Answer, path: str, body: Any) -> Iterable[Any]:
    return answer.events or FORMATS[path](answer, str(body.get("model")))


def stream_bytes(answer: Answer, path: str, body: Any) -> bytes:
    return b"".join(_encoded(event) for event in _events(answer, path, body))


def _encoded(event: Any) -> bytes:
    """One server-sent event. As OpenAI does, characters outside ASCII are not escaped."""
    if isinstance(event, str):
        return event.encode()
    name = f"event: {event['type']}\n" if "type" in event else ""
    text = json.dumps(event, ensure_ascii=False, separators=(",", ":"))
    return f"{name}data: {text}\n\n".encode("utf-8", "surrogatepass")


def _split(data: bytes, write: int | tuple[int, ...]) -> list[bytes]:
    places = range(write, len(data), write) if isinstance(write, int) else sorted(set(write))
    edges = [0, *(place for place in places if 0 < place < len(data)), len(data)]
    return [data[start:end] for start, end in zip(edges, edges[1:], strict=False)]


async def _read_request(reader: asyncio.StreamReader) -> Request | None:
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.strip().split("\r\n")
    headers = {k.lower(): v.strip() for k, _, v in (line.partition(":") for line in lines)}
    data = await reader.readexactly(int(headers.get("content-length", 0)))
    path = first.split(" ")[1].partition("?")[0]
    return Request(path=path, headers=headers, body=json.loads(data) if data else None)


def _head(status: int, headers: dict[str, str]) -> bytes:
    lines = [f"HTTP/1.1 {status} Scripted", "transfer-encoding: chunked", "x-request-id: req_1"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


async def _send_document(
    writer: asyncio.StreamWriter, status: int, headers: dict[str, str], text: str, kind: str
) -> None:
    data = text.encode()
    writer.write(_head(status, {**headers, "content-type": kind}))
    writer.write(b"%x\r\n%b\r\n0\r\n\r\n" % (len(data), data) if data else b"0\r\n\r\n")
    await writer.drain()


async def _cut(answer: Answer, writer: asyncio.StreamWriter) -> None:
    await writer.drain()
    match answer.cut:
        case "hang":
            await asyncio.Event().wait()
        case "reset":
            # Closing with a linger of zero seconds sends RST instead of FIN.
            sock = writer.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()
            raise ScriptedBreak
        case _ if answer.cut_after < 0:
            raise ScriptedBreak
    writer.write(b"0\r\n\r\n")


async def _unless_gone(play: Coroutine[Any, Any, None], reader: asyncio.StreamReader) -> None:
    """Play to the end, or fail as soon as the other side leaves."""
    playing, leaving = asyncio.create_task(play), asyncio.create_task(reader.read(1))
    try:
        await asyncio.wait({playing, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not playing.done():
            raise ConnectionAbortedError
        await playing
    finally:
        playing.cancel()
        leaving.cancel()
        await asyncio.gather(playing, leaving, return_exceptions=True)
