"""Limits the size of requests, whether signed in or not.

Without it Django would write a whole body to a temporary file before its own limits apply.
"""

from collections.abc import Awaitable, Callable

from django.conf import settings
from starlette.types import Message, Receive, Scope, Send

Application = Callable[[Scope, Receive, Send], Awaitable[None]]
# A browser that is still sending may not read the answer, so this many bodies are read and dropped.
MAX_DROPPED = 10


async def limit_request_body(
    pages: Application, scope: Scope, receive: Receive, send: Send
) -> None:
    """Pass a request on, or answer that it is too large."""
    most = settings.REQUEST_MAX_BYTES
    if _read_content_length(scope) > most:
        await _drop(receive, MAX_DROPPED * most)
        await _refuse(send)
        return
    taken, is_over, has_begun = 0, False, False

    async def counted() -> Message:
        nonlocal taken, is_over
        message = await receive()
        taken += len(message.get("body", b""))
        is_over = taken > most
        return {"type": "http.disconnect"} if is_over else message

    async def watched(message: Message) -> None:
        nonlocal has_begun
        has_begun = True
        await send(message)

    await pages(scope, counted, watched)
    if is_over and not has_begun:
        await _refuse(send)


def _read_content_length(scope: Scope) -> int:
    """Return the declared length. The server has checked that it is a number."""
    return int(dict(scope["headers"]).get(b"content-length", 0))


async def _drop(receive: Receive, most: int) -> None:
    dropped = 0
    while dropped < most:
        message = await receive()
        dropped += len(message.get("body", b""))
        if message["type"] != "http.request" or not message.get("more_body"):
            return


async def _refuse(send: Send) -> None:
    megabytes = settings.REQUEST_MAX_BYTES // 1_000_000
    text = f"This is too large: {megabytes} MB can be sent at once. Go back and choose less."
    headers = [
        (b"content-type", b"text/plain; charset=utf-8"),
        (b"connection", b"close"),
        (b"hx-retarget", b"#composer-notice"),
    ]
    await send({"type": "http.response.start", "status": 413, "headers": headers})
    await send({"type": "http.response.body", "body": text.encode()})
