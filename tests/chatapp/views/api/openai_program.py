"""A program before the whole application, which speaks through OpenAI's own client."""

import json
from collections.abc import AsyncIterator
from typing import Any

import httpx2 as httpx
import pytest
import pytest_asyncio
from django.utils import timezone
from openai import AsyncOpenAI

from chatapp.api import access_tokens
from chatapp.asgi import application
from chatapp.demo.seed import seed
from chatapp.engine.runtime import EngineRuntime, close_engine_runtime, open_engine_runtime
from chatapp.models import AccessToken, Member, Note
from chatapp.providers import registry
from chatapp.server.database import close_threads
from tests import scripted

HELLO = [{"role": "user", "content": "Hello"}]
DELETE = ("notebook_delete_note", '{"title": "Old ideas"}')


class Program:
    """A program with a token of this person; `client` is OpenAI's own."""

    def __init__(self, person: Member, *scopes: str) -> None:
        self.token, self.text = access_tokens.create(
            person, name="Job", scopes=scopes or ("chat",), days=7
        )
        transport = httpx.ASGITransport(app=application)
        self.http = httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", timeout=30)
        self.client = AsyncOpenAI(
            api_key=self.text, base_url="http://127.0.0.1/v1", http_client=self.http, max_retries=0
        )

    def revoke(self) -> None:
        AccessToken.objects.filter(pk=self.token.pk).update(revoked_at=timezone.now())

    async def ask(self, messages: Any = None, **more: Any) -> Any:
        values = {"model": scripted.MODEL, "messages": messages or HELLO, **more}
        return await self.client.chat.completions.create(**values)

    async def post(self, body: Any, **headers: str) -> httpx.Response:
        given = body if isinstance(body, bytes) else json.dumps(body).encode()
        shown = {"Authorization": f"Bearer {self.text}", "Content-Type": "application/json"}
        return await self.http.post(
            "/v1/chat/completions", content=given, headers={**shown, **headers}
        )


@pytest_asyncio.fixture
async def runtime(
    transactional_db: None, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[EngineRuntime]:
    monkeypatch.setitem(registry.PROVIDERS, "scripted", scripted.PROVIDER)
    monkeypatch.setenv("OPENAI_API_KEY", "a-key-that-is-never-used")
    scripted.scenes.clear()
    scripted.requests.clear()
    opened = await open_engine_runtime(sweeps=False)
    yield opened
    await close_engine_runtime(opened)
    close_threads()


@pytest.fixture
def program(owner: Member, runtime: EngineRuntime) -> Program:
    return Program(owner)


@pytest.fixture
def notebook(transactional_db: None) -> None:
    seed()
    Note.objects.update_or_create(title="Old ideas", defaults={"text": "Nothing of worth."})


def get_text(answer: Any) -> str:
    return str(answer.choices[0].message.content)


def get_extension(answer: Any) -> dict[str, Any]:
    told: dict[str, Any] = answer.model_extra["countersign"]
    return told


async def read_stream(program: Program, **more: Any) -> list[Any]:
    stream = await program.ask(stream=True, **more)
    return [chunk async for chunk in stream]


def words(chunks: list[Any]) -> str:
    return "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
