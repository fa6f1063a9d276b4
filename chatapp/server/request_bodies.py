"""Limits the size, the time and the number of request bodies, whether signed in or not.

Without it Django would write a whole body to a temporary file before its own limits apply, and
would wait for ever for one that stops in the middle.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager

from django.conf import settings
from django.utils.translation import gettext as _
from starlette.types import Message, Receive, Scope, Send

from .http_protocol import find_network
from .runtime import current_runtime

Application = Callable[[Scope, Receive, Send], Awaitable[None]]
# A browser that is still sending may not read the answer, so this many bodies are read and dropped.
MAX_DROPPED = 10
# A body may take BODY_SECONDS of waiting and one second more for each of these bytes that arrived
# (as in Apache's mod_reqtimeout).
BYTES_PER_SECOND = 10_000
# Bodies of unknown length count as large. With one too many, the slowest that is older than the
# grace ends, so that slow ones never keep others out.
LARGE_BYTES = 1_000_000
LARGE_PER_ADDRESS = 20
LARGE_IN_ALL = 100
# The form that takes files of chats, and what it has beside the file.
IMPORT_PATH = "/imports/"
FORM_BYTES = 1_000_000
GRACE_SECONDS = 2.0
TOO_MANY_RETRY_SECONDS = 5


class Body:
    """Receives the body of one request and watches its limits."""

    def __init__(self, receive: Receive, max_bytes: int) -> None:
        self._receive = receive
        self._max_bytes = max_bytes
        self._waited = 0.0
        self._has_ended = False
        self._timeout: asyncio.Timeout | None = None
        self._loop = asyncio.get_running_loop()
        self._begun = self._loop.time()
        self.taken = 0
        self.is_late = False
        self.is_crowded_out = False
        self.address = ""

    @property
    def is_over(self) -> bool:
        return self.taken > self._max_bytes

    @property
    def is_incomplete(self) -> bool:
        return not (self._has_ended or self.is_over or self.is_late or self.is_crowded_out)

    @property
    def seconds(self) -> float:
        """How long it has been arriving."""
        return self._loop.time() - self._begun

    async def receive(self) -> Message:
        """Return the next message, or a disconnect once a limit is exceeded."""
        if self._has_ended:
            return await self._receive()
        begun = self._loop.time()
        allowed = settings.BODY_SECONDS + self.taken / BYTES_PER_SECOND - self._waited
        try:
            async with asyncio.timeout(0 if self.is_crowded_out else max(0, allowed)) as timeout:
                self._timeout = timeout
                message = await self._receive()
        except TimeoutError:
            self.is_late = not self.is_crowded_out
            return {"type": "http.disconnect"}
        finally:
            self._timeout = None
        self._waited += self._loop.time() - begun
        self.taken += len(message.get("body", b""))
        self._has_ended = not message.get("more_body", False)
        return {"type": "http.disconnect"} if self.is_over else message

    def crowd_out(self) -> None:
        """End it to make room for another one."""
        self.is_crowded_out = True
        if self._timeout is not None:
            self._timeout.reschedule(self._loop.time())

    async def drop(self) -> None:
        """Read and forget what is left, within the limits."""
        while self.is_incomplete:
            await self.receive()


async def limit_request_body(
    pages: Application, scope: Scope, receive: Receive, send: Send
) -> None:
    """Pass a request on, or answer that its body is too large, too slow or one of too many."""
    length, most = _read_content_length(scope), _find_limit(scope)
    if length is not None and length > most:
        await Body(receive, MAX_DROPPED * most).drop()
        await _refuse_size(send, most)
        return
    body, has_begun = Body(receive, most), False

    async def watched(message: Message) -> None:
        nonlocal has_begun
        has_begun = True
        await send(message)

    if length is None or length > LARGE_BYTES:
        with _counted(body, scope):
            await pages(scope, body.receive, watched)
    else:
        await pages(scope, body.receive, watched)
    if has_begun:
        return
    if body.is_over:
        await _refuse_size(send, most)
    elif body.is_late:
        await _refuse_time(send)
    elif body.is_crowded_out:
        await _refuse_number(send)


@contextmanager
def _counted(body: Body, scope: Scope) -> Iterator[None]:
    """Count a large body while it is received. If it is one of too many, the slowest ends."""
    bodies = current_runtime().large_bodies
    body.address = find_network(str((scope.get("client") or ("",))[0]))
    receiving = [each for each in bodies if isinstance(each, Body) and each.is_incomplete]
    same = [each for each in receiving if each.address == body.address]
    if len(same) >= LARGE_PER_ADDRESS:
        _find_slowest(same, body).crowd_out()
    elif len(receiving) >= LARGE_IN_ALL:
        _find_slowest(receiving, body).crowd_out()
    bodies.add(body)
    try:
        yield
    finally:
        bodies.discard(body)


def _find_slowest(bodies: Iterable[Body], newest: Body) -> Body:
    """Return the one whose bytes arrive most slowly, or `newest` if all others just began."""
    old = [each for each in bodies if each.seconds > GRACE_SECONDS]
    return min(old, key=lambda each: each.taken / each.seconds, default=newest)


def _read_content_length(scope: Scope) -> int | None:
    """Return the declared length, 0 without a body, or None if it is only known at its end. The
    server has checked that it is a number."""
    headers = dict(scope["headers"])
    if b"transfer-encoding" in headers:
        return None
    return int(headers.get(b"content-length", 0))


def _find_limit(scope: Scope) -> int:
    """Return the largest body of this request: one form takes whole files of chats."""
    path = str(scope.get("path", "")).removeprefix(scope.get("root_path", ""))
    if path == IMPORT_PATH and scope.get("method") == "POST":
        return max(settings.REQUEST_MAX_BYTES, settings.IMPORT_MAX_BYTES + FORM_BYTES)
    return int(settings.REQUEST_MAX_BYTES)


async def _refuse_size(send: Send, most: int) -> None:
    megabytes = most // 1_000_000
    sentence = _(
        "This is too large: you can send up to %(size)s MB at once. Go back and choose less."
    ) % {"size": megabytes}
    await _refuse(send, 413, sentence)


async def _refuse_time(send: Send) -> None:
    await _refuse(send, 408, _("The request took too long to arrive. Try again."))


async def _refuse_number(send: Send) -> None:
    await _refuse(
        send,
        429,
        _("Too many files are being sent at once. Try again in a moment."),
        (b"retry-after", b"%d" % TOO_MANY_RETRY_SECONDS),
    )


async def _refuse(
    send: Send, status: int, sentence: str, *more_headers: tuple[bytes, bytes]
) -> None:
    headers = [
        (b"content-type", b"text/plain; charset=utf-8"),
        (b"connection", b"close"),
        (b"hx-retarget", b"#composer-notice"),
        *more_headers,
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": sentence.encode()})
