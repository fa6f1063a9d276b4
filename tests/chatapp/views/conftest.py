"""A real server whose resources and prompts pages offer."""

from collections.abc import Iterator
from typing import Any

import pytest

from mcpconfig.models import Service
from tests.peers.reading_room import ReadSwitch, at_room
from tests.peers.serving import Served


@pytest.fixture(scope="session")
def _doors() -> ReadSwitch:
    return ReadSwitch()


@pytest.fixture(scope="session")
def _room(_doors: ReadSwitch) -> Iterator[Served]:
    with Served(at_room(_doors)) as served:
        yield served


@pytest.fixture
def doors(_doors: ReadSwitch) -> ReadSwitch:
    _doors.shut.clear()
    return _doors


@pytest.fixture
def room(_room: Served, doors: ReadSwitch, transactional_db: Any, settings: Any) -> Service:
    """The service. Operations write from threads of their own, so no transaction is around them."""
    settings.MCP_TOTAL_SECONDS, settings.MCP_IDLE_SECONDS = 20, 10
    _room.arrivals.clear()
    return Service.objects.create(
        name="room",
        title="Reading room",
        url=_room.url,
        allows_private_addresses=True,
        visibility="everyone",
    )


@pytest.fixture
def arrivals(_room: Served) -> Served:
    """The server of `room`, to see what has reached it."""
    return _room
