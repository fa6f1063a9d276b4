"""How large a request may be: whoever sends more, signed in or not, fills no disk of ours.

Django writes a whole body to a temporary file before any of its own limits counts.
"""

from collections.abc import Awaitable, Callable

from django.conf import settings
from starlette.types import Message, Receive, Scope, Send

Application = Callable[[Scope, Receive, Send], Awaitable[None]]
# A browser that is still sending may never read an answer, so this much is taken in and dropped.
MOST_DROPPED = 10


async def within_bounds(pages: Application, scope: Scope, receive: Receive, send: Send) -> None:
    """Let a request through, or answer that it is too large."""
    most = settings.REQUEST_MAX_BYTES
    if _declared(scope) > most:
        await _drop(receive, MOST_DROPPED * most)
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


def _declared(scope: Scope) -> int:
    """What the request says of its length; the server has checked that it is a number."""
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
