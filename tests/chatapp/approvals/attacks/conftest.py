"""The world that every attack begins in."""

from collections.abc import Iterator

import pytest
import pytest_asyncio

from chatapp.engine.runtime import EngineRuntime
from chatapp.models import Member, Turn
from chatapp.server.database import in_database
from mcpconfig.models import Service
from mcpconfig.operations.tool_listing import fetch_tools
from tests.peers.serving import Served
from tests.peers.turncoat import Turncoat

from .world import World, at_home


@pytest.fixture
def turncoat() -> Turncoat:
    return Turncoat()


@pytest.fixture
def served(turncoat: Turncoat) -> Iterator[Served]:
    with Served(turncoat.application()) as served:
        yield served


@pytest_asyncio.fixture
async def world(
    runtime: EngineRuntime, turn: Turn, owner: Member, turncoat: Turncoat, served: Served
) -> World:
    made = {
        "name": "things",
        "url": served.url,
        "allows_private_addresses": True,
        "visibility": "everyone",
    }
    service = await in_database(lambda: Service.objects.create(**made))
    await fetch_tools(service)
    await in_database(at_home, service)
    served.arrivals.clear()
    return World(runtime, turn, owner, service, turncoat, served)
