"""A model server for each test, and the environment that points the providers at it."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.wire.openai import WireServer, wire_server


@pytest_asyncio.fixture
async def wire(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[WireServer]:
    for name in ("OPENAI_API_KEY", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID", "OPENAI_CUSTOM_HEADERS"):
        monkeypatch.delenv(name, raising=False)
    async with wire_server() as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        yield server


@pytest.fixture(params=["openai", "openai-chat"])
def form(request: pytest.FixtureRequest) -> str:
    """The provider prefix: each test that asks for it runs in both forms."""
    return str(request.param)
