"""Pages run in one thread, and asynchronous views stay in the event loop."""

import threading
from io import BytesIO
from typing import Any

import pytest
from asgiref.sync import SyncToAsync, sync_to_async
from django.conf import settings
from django.core.handlers.base import BaseHandler
from django.http import FileResponse
from django.test import Client
from httpx2 import ASGITransport, AsyncClient

from chatapp.models import Member
from chatapp.server.page_handler import PageHandler, has_async_view

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def changes(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """What was given to a thread."""
    found: list[object] = []
    real = SyncToAsync.__call__

    async def count(self: SyncToAsync[Any, Any], *args: Any, **kwargs: Any) -> Any:
        found.append(self.func)
        return await real(self, *args, **kwargs)

    monkeypatch.setattr(SyncToAsync, "__call__", count)
    return found


async def get(path: str, **cookies: str) -> int:
    """The status of the answer."""
    transport = ASGITransport(app=PageHandler())  # type: ignore[arg-type]
    async with AsyncClient(
        transport=transport, cookies=cookies, base_url="http://127.0.0.1"
    ) as browser:
        answer = await browser.get(path)
    return answer.status_code


async def test_a_page_and_its_middleware_are_one_change_to_a_thread(
    owner: Member, changes: list[object]
) -> None:
    client = Client()
    await sync_to_async(client.force_login)(owner)
    session = {settings.SESSION_COOKIE_NAME: client.cookies[settings.SESSION_COOKIE_NAME].value}
    changes.clear()
    assert await get("/", **session) == 200
    assert len(changes) == 1, changes


async def test_pages_use_few_threads_again(owner: Member, monkeypatch: pytest.MonkeyPatch) -> None:
    used: set[int] = set()
    real = PageHandler._answer

    def note(self: PageHandler, *args: Any) -> Any:
        used.add(threading.get_ident())
        return real(self, *args)

    monkeypatch.setattr(PageHandler, "_answer", note)
    transport = ASGITransport(app=PageHandler())  # type: ignore[arg-type]
    async with AsyncClient(transport=transport, base_url="http://127.0.0.1") as browser:
        for _ in range(50):
            await browser.get("/nothing/here/")
    # A thread that has not noted the end of its request is not used again.
    assert len(used) < 5


async def test_a_streamed_file_is_whole_and_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    content = b"x" * 200_000
    file = BytesIO(content)
    monkeypatch.setattr(BaseHandler, "get_response", lambda *_: FileResponse(file))
    transport = ASGITransport(app=PageHandler())  # type: ignore[arg-type]
    async with AsyncClient(transport=transport, base_url="http://127.0.0.1") as browser:
        answer = await browser.get("/nothing/here/")
    assert (answer.content, file.closed) == (content, True)


@pytest.mark.filterwarnings("error")
async def test_a_file_is_not_read_whole_before_its_first_block_is_sent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    order: list[str] = []

    class Noted(BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            block = super().read(size)
            order.append(f"read {len(block)}")
            return block

    async def receive() -> dict[str, Any]:
        return {"type": "http.request"}

    async def send(message: dict[str, Any]) -> None:
        if message.get("body"):
            order.append("sent")

    file = Noted(b"x" * 3 * PageHandler.chunk_size)
    monkeypatch.setattr(BaseHandler, "get_response", lambda *_: FileResponse(file))
    scope = {"type": "http", "method": "GET", "path": "/nothing/", "headers": []}
    await PageHandler()(scope, receive, send)
    assert order == [f"read {PageHandler.chunk_size}", "sent"] * 3 + ["read 0"]


async def test_a_page_that_does_not_exist_is_answered() -> None:
    assert await get("/nothing/here/") == 404


@pytest.mark.parametrize(
    ("path", "expected"),
    [("/", False), ("/nothing/here/", False), ("/v1/chat/completions", True), ("/metrics", True)],
)
def test_asynchronous_views_are_known_by_their_path(path: str, expected: bool) -> None:
    assert has_async_view(path) is expected
