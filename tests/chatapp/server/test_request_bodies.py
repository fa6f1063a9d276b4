"""A request body has a limit that holds before anybody is known to be signed in."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from chatapp.asgi import application

MOST = 10_000
HEADERS = [(b"host", b"127.0.0.1"), (b"content-type", b"application/x-www-form-urlencoded")]


class Line:
    """What a server hands to the application, and what comes back."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._is_over = False
        self.taken = 0
        self.sent: list[dict[str, Any]] = []

    async def receive(self) -> dict[str, Any]:
        if self._is_over:
            await asyncio.Event().wait()
        piece = next(self._pieces, None)
        self._is_over = piece is None
        self.taken += len(piece or b"")
        return {"type": "http.request", "body": piece or b"", "more_body": piece is not None}

    async def send(self, message: Any) -> None:
        self.sent.append(message)

    @property
    def status(self) -> int:
        starts = [each["status"] for each in self.sent if each["type"] == "http.response.start"]
        assert len(starts) == 1
        return int(starts[0])


async def post(line: Line, declared: int | None = None) -> Line:
    length = [] if declared is None else [(b"content-length", str(declared).encode())]
    scope = {
        "type": "http",
        "method": "POST",
        "path": "/sign-in/",
        "query_string": b"",
        "headers": [*HEADERS, *length],
        "client": ("127.0.0.1", 1),
        "scheme": "http",
    }
    await application(scope, line.receive, line.send)
    return line


@pytest.fixture(autouse=True)
def limit(settings: Any) -> None:
    settings.REQUEST_MAX_BYTES = MOST


def pieces(count: int, size: int = 1_000) -> Iterator[bytes]:
    return (b"a" * size for _ in range(count))


@pytest.mark.django_db(transaction=True)
async def test_a_body_within_the_limit_reaches_the_page() -> None:
    line = await post(Line(pieces(9)), 9_000)
    assert line.status == 403  # it has no token, which only a page can know


async def test_a_body_that_says_it_is_too_large_is_dropped_and_answered() -> None:
    line = await post(Line(pieces(20)), 20_000)
    assert (line.status, line.taken) == (413, 20_000)
    assert b"too large" in line.sent[-1]["body"]


async def test_one_that_does_not_end_is_not_dropped_for_ever() -> None:
    line = await post(Line(pieces(10**9)), 10**12)
    assert line.status == 413
    assert line.taken <= 10 * MOST + 1_000


async def test_one_that_does_not_say_how_large_it_is_is_counted() -> None:
    line = await post(Line(pieces(10**9)))
    assert line.status == 413
    assert line.taken <= MOST + 1_000
