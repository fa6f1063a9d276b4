"""A request body has a limit that holds before anybody is known to be signed in."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from chatapp.asgi import application
from chatapp.server import request_bodies
from chatapp.server.request_bodies import limit_request_body
from chatapp.server.runtime import current_runtime

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


async def post(
    line: Line, declared: int | None = None, *, path: str = "/sign-in/", method: str = "POST"
) -> Line:
    length = [] if declared is None else [(b"content-length", str(declared).encode())]
    scope = {
        "type": "http",
        "method": method,
        "path": path,
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


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("POST", "/imports/", 302),
        ("GET", "/imports/", 413),
        ("POST", "/imports", 413),
        ("POST", "/imports/2b1c3d4e-0000-4000-8000-000000000000/", 413),
        ("POST", "/imports/2b1c3d4e-0000-4000-8000-000000000000/undo", 413),
        ("POST", "/c/new/messages", 413),
    ],
)
async def test_only_the_form_of_imports_takes_a_larger_body(
    settings: Any, method: str, path: str, status: int
) -> None:
    settings.IMPORT_MAX_BYTES = 50_000
    line = await post(Line(pieces(40)), 40_000, path=path, method=method)
    assert line.status == status


async def test_the_form_of_imports_has_a_limit_as_well(settings: Any) -> None:
    settings.IMPORT_MAX_BYTES = 50_000
    most = settings.IMPORT_MAX_BYTES + request_bodies.FORM_BYTES
    line = await post(Line(pieces(10**9)), path="/imports/")
    assert (line.status, line.taken <= most + 1_000) == (413, True)


class StoppingLine(Line):
    """A sender that stops before the end."""

    async def receive(self) -> dict[str, Any]:
        if self.taken >= 2_000:
            await asyncio.Event().wait()
        return await super().receive()


@pytest.mark.parametrize("declared", [5_000, None, 10**9])
async def test_one_that_stops_in_the_middle_is_answered(
    settings: Any, declared: int | None
) -> None:
    settings.BODY_SECONDS = 0.05
    line = await post(StoppingLine(pieces(100)), declared)
    assert line.status == (413 if declared == 10**9 else 408)
    assert not current_runtime().large_bodies


async def test_one_that_arrives_slowly_but_steadily_is_received(settings: Any) -> None:
    class SlowLine(Line):
        async def receive(self) -> dict[str, Any]:
            await asyncio.sleep(0.03)
            return await super().receive()

    settings.BODY_SECONDS = 0.2
    settings.REQUEST_MAX_BYTES = 100_000
    taken = []

    async def page(_scope: Any, receive: Any, send: Any) -> None:
        while (message := await receive())["type"] == "http.request" and message["more_body"]:
            taken.append(len(message["body"]))
        await send({"type": "http.response.start", "status": 200, "headers": []})

    line = SlowLine(pieces(20))
    scope: Any = {"headers": [], "client": ("192.0.2.1", 1)}
    await limit_request_body(page, scope, line.receive, line.send)
    assert line.status == 200
    assert sum(taken) == 20_000


CHUNKED = [(b"transfer-encoding", b"chunked")]


class HeldLine(Line):
    """A sender that stops after some pieces until it may go on."""

    def __init__(self, pieces: Iterator[bytes], stops_after: int = 0) -> None:
        super().__init__(pieces)
        self._left = stops_after
        self.go_on = asyncio.Event()
        self.stops = asyncio.Event()

    async def receive(self) -> dict[str, Any]:
        if not self._left:
            self.stops.set()
            await self.go_on.wait()
        self._left -= 1
        return await super().receive()


async def read_page(_scope: Any, receive: Any, send: Any) -> None:
    while (message := await receive()).get("more_body"):
        pass
    if message["type"] == "http.request":
        await send({"type": "http.response.start", "status": 200, "headers": []})


def send_large(address: str, line: Line) -> asyncio.Task[None]:
    scope: Any = {"headers": CHUNKED, "client": (address, 1)}
    return asyncio.create_task(limit_request_body(read_page, scope, line.receive, line.send))


@pytest.fixture
def small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_bodies, "LARGE_PER_ADDRESS", 2)
    monkeypatch.setattr(request_bodies, "LARGE_IN_ALL", 3)


@pytest.mark.usefixtures("small_limits")
@pytest.mark.parametrize("address", ["192.0.2.1", "192.0.2.9"])
async def test_of_too_many_large_bodies_the_slowest_ends(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One more of the same address, or one more of all."""
    monkeypatch.setattr(request_bodies, "GRACE_SECONDS", -1)
    addresses = ["192.0.2.1", "192.0.2.1", "192.0.2.2"]
    lines = [HeldLine(pieces(3), stops_after=number) for number in range(3)]
    tasks = [send_large(each, line) for each, line in zip(addresses, lines, strict=True)]
    for line in lines:
        await asyncio.wait_for(line.stops.wait(), 30)
    more = HeldLine(pieces(1))
    tasks.append(send_large(address, more))
    await asyncio.wait_for(tasks[0], 30)
    assert lines[0].status == 429
    assert (b"retry-after", b"5") in lines[0].sent[0]["headers"]
    for line in (*lines, more):
        line.go_on.set()
    await asyncio.gather(*tasks)
    assert [line.status for line in (*lines[1:], more)] == [200] * 3
    assert not current_runtime().large_bodies


@pytest.mark.usefixtures("small_limits")
async def test_if_all_just_began_the_newest_is_refused() -> None:
    lines = [HeldLine(pieces(1)) for _ in range(2)]
    tasks = [send_large("192.0.2.1", line) for line in lines]
    for line in lines:
        await asyncio.wait_for(line.stops.wait(), 30)
    newest = HeldLine(pieces(1))
    await asyncio.wait_for(send_large("192.0.2.1", newest), 30)
    assert newest.status == 429
    for line in lines:
        line.go_on.set()
    await asyncio.gather(*tasks)
    assert [line.status for line in lines] == [200, 200]


@pytest.mark.usefixtures("small_limits")
async def test_small_bodies_and_received_ones_are_not_counted() -> None:
    answer, received = asyncio.Event(), asyncio.Event()

    async def slow_page(_scope: Any, receive: Any, send: Any) -> None:
        while (await receive()).get("more_body"):
            pass
        received.set()
        await answer.wait()
        await send({"type": "http.response.start", "status": 200, "headers": []})

    lines = [Line(pieces(1)) for _ in range(6)]
    tasks = []
    for number, line in enumerate(lines):
        headers = [(b"content-length", b"1000")] if number % 2 else CHUNKED
        scope: Any = {"headers": headers, "client": ("192.0.2.1", 1)}
        received.clear()
        request = limit_request_body(slow_page, scope, line.receive, line.send)
        tasks.append(asyncio.create_task(request))
        await asyncio.wait_for(received.wait(), 30)
    answer.set()
    await asyncio.gather(*tasks)
    assert [line.status for line in lines] == [200] * 6
