"""A model server on loopback that speaks every provider's real streaming form, by the path.

It records what it was sent, refuses what the provider would refuse, and counts the streams that the
other side left before their end.
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

from .demands.demand import broken
from .embeddings import embed
from .form import Format
from .formats import FORMATS, form_of
from .http import LAST_CHUNK, Request, chunk, head, read_request, send_document, split
from .listings import listing_of
from .script import FALLBACK, Answer, answer_from_json

PATIENCE_SECONDS = 30.0
JSON = {"content-type": "application/json"}


class ScriptedBreak(ConnectionError):
    """The script breaks the connection here; the other side did not."""


@dataclass(slots=True)
class WireServer:
    """Plays its script, one answer a request, then says that there is no more.

    Lists of models and embeddings are always there: a request for one takes an answer of the script
    only when that is an error or a document.
    """

    script: deque[Answer] = field(default_factory=deque)
    requests: list[Request] = field(default_factory=list)
    listed: list[Request] = field(default_factory=list)
    embedded: list[Request] = field(default_factory=list)
    aborted: int = 0
    streaming: int = 0
    connections: int = 0
    port: int = 0
    _changed: asyncio.Condition = field(default_factory=asyncio.Condition)
    _open: dict[asyncio.Task[None], asyncio.StreamWriter] = field(default_factory=dict)

    @property
    def url(self) -> str:
        """The base URL of OpenAI's two forms."""
        return self.base_url("openai")

    def base_url(self, form: str) -> str:
        """The base URL that an adapter of this form is given."""
        return f"http://127.0.0.1:{self.port}{FORMATS[form].root}"

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
            while request := await read_request(reader):
                await self._answer(request, reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            del self._open[task]
            writer.close()

    async def _answer(
        self, request: Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        if form_of(request) is None:
            await self._side(request, writer)
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

    async def _side(self, request: Request, writer: asyncio.StreamWriter) -> None:
        """Embeddings, a list of models, or what a test asks of this server."""
        if embedded := embed(request):
            self.embedded.append(request)
            if self.script and self.script[0].is_document:
                await _send_answer(self.script.popleft(), FORMATS["openai"], writer)
            else:
                status, value = embedded
                await send_document(writer, status, JSON, json.dumps(value))
            return
        listing = listing_of(request)
        if listing is None:
            status, value = self._control(request)
            await send_document(writer, status, JSON, json.dumps(value))
            return
        self.listed.append(request)
        if self.script and self.script[0].is_document:
            await _send_answer(self.script.popleft(), FORMATS["openai"], writer)
        else:
            await send_document(writer, 200, JSON, json.dumps(listing(request)))

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
        return 404, {"error": {"message": f"There is no {request.path} here."}}

    async def _play(self, answer: Answer, request: Request, writer: asyncio.StreamWriter) -> None:
        form, model = cast(tuple[Format, str], form_of(request))
        for complaint in broken(form.demands, request.body):
            answer = Answer(status=400, error={"code": "", "message": complaint})
        await asyncio.sleep(answer.first_byte_ms / 1000)
        if answer.is_document:
            await _send_answer(answer, form, writer)
            return
        if answer.cut and answer.cut_after < 0:
            await _cut(answer, writer)
            return
        content_type = answer.content_type or form.content_type
        writer.write(head(200, {**answer.headers, "content-type": content_type}))
        pieces = form.pieces(answer, model)
        if answer.write is not None:
            pieces = split(b"".join(pieces), answer.write)
        for number, piece in enumerate(pieces):
            if answer.cut and number == answer.cut_after:
                await _cut(answer, writer)
                return
            writer.write(chunk(piece))
            if answer.write is None:
                await writer.drain()
                await asyncio.sleep(answer.delay_ms / 1000)
        writer.write(LAST_CHUNK)
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


async def _send_answer(answer: Answer, form: Format, writer: asyncio.StreamWriter) -> None:
    """A document instead of a stream: a page, or the provider's own form of an error."""
    if answer.document:
        headers, text = {"content-type": answer.content_type or form.content_type}, answer.document
    else:
        own, value = form.refused(answer)
        headers, text = {**JSON, **own}, json.dumps(value)
    await send_document(writer, answer.status, {**headers, **answer.headers}, text)


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
    writer.write(LAST_CHUNK)


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
