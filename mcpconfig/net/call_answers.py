"""The body of the answer to a tool call. One that exceeds a limit is read on and discarded: if its
end arrives, the call has an outcome, and only its content is lost."""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from typing import Any

import httpx2
from django.utils.translation import gettext as _

from mcpconfig.values.errors import OperationError, malformed_answer_error, timeout_error
from mcpconfig.values.limits import LIMITS
from mcpconfig.values.results import build_withheld_content

from .answer_scanner import AnswerScanner, Budget, EventScanner, GaveUp, JsonScanner
from .connections import MeteredStream
from .response_limits import LimitedBody, too_large_error
from .wire import ExchangeRecord, Wire

# The end of an event: an empty line. The alternatives are atomic, so that \r\n is one line end.
_EVENT_END = re.compile(rb"(?>\r\n|\n|\r)(?>\r\n|\n|\r)")


class _Exceeded(Exception):
    def __init__(self, error: OperationError) -> None:
        self.error = error


class CallAnswerBody(LimitedBody):
    """The body of the answer to a tool call.

    JSON is handed on when it is whole, and an event stream event by event. From the first limit
    that is exceeded, nothing is handed on and nothing kept: `AnswerScanner` reads the outline. A
    complete answer is then replaced by one with a sentence as its content. If the end does not
    come within `LIMITS.discarded_bytes` and the time limits, the operation fails as at a limit.
    """

    def __init__(
        self,
        stream: httpx2.AsyncByteStream,
        wire: Wire,
        exchange: ExchangeRecord,
        most_bytes: int,
        network: MeteredStream,
    ) -> None:
        super().__init__(stream, wire, exchange, most_bytes)
        self._network = network
        self._held = bytearray()
        self._scanner: AnswerScanner | None = None
        self._error: OperationError | None = None

    async def __aiter__(self) -> AsyncIterator[bytes]:
        if not self._is_parsed:
            async for chunk in super().__aiter__():
                yield chunk
            return
        try:
            async for chunk in self._stream:
                if whole := self._take(chunk):
                    yield whole
                while self._held and self._scanner is not None:
                    # Other tasks run between two pieces.
                    await asyncio.sleep(0)
                    self._scan(self._scanner, bytes(self._held[: LIMITS.read_bytes]))
                    del self._held[: LIMITS.read_bytes]
                if self._scanner is not None and self._scanner.verdict is not None:
                    break
            if self._scanner is not None:
                yield self._build_answer(self._scanner)
            else:
                yield bytes(self._held) + self._repair.finish()
        except httpx2.TransportError as error:
            if self._error is not None:
                raise self._wire.end(self._error) from error
            if isinstance(error, httpx2.ReadTimeout):
                raise self._wire.end(timeout_error()) from error
            raise
        finally:
            self._held.clear()
            self._exchange.update_duration()

    def _take(self, chunk: bytes) -> bytes:
        """Take in a piece, and return what can be handed on."""
        if self._scanner is not None:
            self._discard(self._scanner, chunk)
            return b""
        exceeded: OperationError | None = None
        try:
            self._count(chunk)
        except _Exceeded as limit:
            exceeded = limit.error
        whole = self._hold(self._repair.repair(chunk))
        if exceeded is None and len(self._held) > LIMITS.event_bytes and self._is_event_stream:
            exceeded = too_large_error(LIMITS.event_bytes)
        if exceeded is not None:
            self._begin_to_discard(exceeded)
        return whole

    def _hold(self, chunk: bytes) -> bytes:
        """Keep a piece. Return the events that are complete; JSON only at its end."""
        seen = len(self._held)
        if not self._is_event_stream:
            self._held += chunk
            return b""
        tail = bytes(self._held[-3:])
        ends = [found.end() for found in _EVENT_END.finditer(tail + chunk)]
        last = seen - len(tail) + ends[-1] if ends else 0
        self._held += chunk
        whole = bytes(self._held[:last])
        del self._held[:last]
        return whole

    def _exceed(self, error: OperationError) -> Exception:
        return _Exceeded(error)

    def _begin_to_discard(self, error: OperationError) -> None:
        rpc_id, budget = self._exchange.rpc_id, Budget()
        scan = EventScanner if self._is_event_stream else JsonScanner
        self._scanner, self._error = scan(rpc_id, budget), error
        self._wire.exceeded = error

    def _discard(self, scanner: AnswerScanner, chunk: bytes) -> None:
        self._exchange.response_bytes += len(chunk)
        self._pieces += 1
        is_too_much = self._exchange.response_bytes > LIMITS.discarded_bytes
        if is_too_much or self._pieces > LIMITS.discarded_pieces:
            raise self._give_up()
        self._network.allow_body(len(chunk))
        self._scan(scanner, self._repair.repair(chunk))

    def _scan(self, scanner: AnswerScanner, piece: bytes) -> None:
        try:
            scanner.feed(piece)
        except GaveUp:
            raise self._give_up() from None

    def _give_up(self) -> Exception:
        return self._wire.end(self._error or malformed_answer_error())

    def _build_answer(self, scanner: AnswerScanner) -> bytes:
        """Return what stands for the answer whose end has been read."""
        scanner.finish()
        verdict = scanner.verdict
        if verdict is None or self._error is None:
            raise self._give_up()
        self._wire.exceeded = None
        message = {"jsonrpc": "2.0", "id": self._id, **self._describe(scanner, verdict)}
        text = json.dumps(message).encode()
        return b"event: message\ndata: " + text + b"\n\n" if self._is_event_stream else text

    def _describe(self, scanner: AnswerScanner, verdict: str) -> dict[str, Any]:
        bound = _("more than %(bound)s") % {"bound": self._error.bound} if self._error else ""
        if verdict == "refused":
            said = _("The tool’s error is not kept because it has %(bound)s.") % {"bound": bound}
            return {"error": {"code": scanner.code or -32603, "message": said}}
        is_error = verdict == "failed"
        content = build_withheld_content(is_error=is_error, bound=bound)
        return {"result": {"content": content, "isError": is_error, "resultType": "complete"}}

    @property
    def _id(self) -> int | str:
        text = self._exchange.rpc_id
        return int(text) if text.isdecimal() else text
