"""A model server for each test, and the environment that points the providers at it."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.wire.formats import FORMATS
from tests.wire.server import WireServer, wire_server

from .accounts import forget_environment, point_at


@pytest_asyncio.fixture
async def wire(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[WireServer]:
    forget_environment(monkeypatch)
    async with wire_server() as server:
        point_at(monkeypatch, server.url)
        yield server


@pytest.fixture(params=FORMATS)
def form(request: pytest.FixtureRequest) -> str:
    """The provider prefix: each test that asks for it runs in every form."""
    return str(request.param)
