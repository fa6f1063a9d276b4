"""Real servers for the tests of services: one of each kind, on loopback, in this process."""

from collections.abc import Awaitable, Callable, Iterator
from itertools import count
from typing import Any

import pytest

from mcpconfig.models import Service
from tests.peers.hostile import Hostile
from tests.peers.library import library
from tests.peers.serving import Served
from tests.peers.toolbox import Watch, application, toolbox

_numbers = count(1)


@pytest.fixture(autouse=True)
def _database(transactional_db: None) -> None:
    """Operations write from threads of their own, so nothing here runs inside one transaction."""


@pytest.fixture(autouse=True)
def _bounds(settings: Any) -> None:
    """Shorter than a test may take, so that an answer that never comes is a failure with a trace
    and a reason instead of a test that hangs."""
    settings.MCP_TOTAL_SECONDS, settings.MCP_IDLE_SECONDS = 20, 10


@pytest.fixture(scope="session")
def watch() -> Watch:
    return Watch()


@pytest.fixture(scope="session")
def _modern(watch: Watch) -> Iterator[Served]:
    with Served(application(toolbox(watch), era="modern")) as served:
        yield served


@pytest.fixture(scope="session")
def _handshake(watch: Watch) -> Iterator[Served]:
    with Served(application(toolbox(watch), era="handshake")) as served:
        yield served


@pytest.fixture(scope="session")
def _stateless(watch: Watch) -> Iterator[Served]:
    with Served(application(toolbox(watch), era="handshake", is_stateless=True)) as served:
        yield served


@pytest.fixture(scope="session")
def _sse(watch: Watch) -> Iterator[Served]:
    with Served(application(toolbox(watch), transport="sse"), path="/sse") as served:
        yield served


@pytest.fixture(scope="session")
def _guarded(watch: Watch) -> Iterator[Served]:
    with Served(application(toolbox(watch, is_guarded=True))) as served:
        yield served


@pytest.fixture(scope="session")
def _modern_library() -> Iterator[Served]:
    with Served(application(library(), era="modern")) as served:
        yield served


@pytest.fixture(scope="session")
def _handshake_library() -> Iterator[Served]:
    with Served(application(library(), era="handshake")) as served:
        yield served


@pytest.fixture(scope="session")
def _hostile() -> Iterator[Hostile]:
    with Hostile() as hostile:
        yield hostile


@pytest.fixture
def hostile(_hostile: Hostile) -> Hostile:
    _hostile.clear()
    return _hostile


@pytest.fixture(params=["modern", "handshake", "stateless", "sse"])
def peer(request: pytest.FixtureRequest) -> Served:
    """A well-behaved server, once in each way of speaking."""
    served: Served = request.getfixturevalue(f"_{request.param}")
    served.arrivals.clear()
    return served


@pytest.fixture(params=["modern", "handshake"])
def shelves(request: pytest.FixtureRequest) -> Served:
    """A server with resources and prompts, once in each era."""
    served: Served = request.getfixturevalue(f"_{request.param}_library")
    served.arrivals.clear()
    return served


@pytest.fixture
def modern_library(_modern_library: Served) -> Served:
    _modern_library.arrivals.clear()
    return _modern_library


@pytest.fixture
def modern(_modern: Served) -> Served:
    _modern.arrivals.clear()
    return _modern


@pytest.fixture
def handshake(_handshake: Served) -> Served:
    _handshake.arrivals.clear()
    return _handshake


@pytest.fixture
def sse(_sse: Served) -> Served:
    _sse.arrivals.clear()
    return _sse


@pytest.fixture
def guarded(_guarded: Served) -> Served:
    _guarded.arrivals.clear()
    return _guarded


@pytest.fixture
def service_at() -> Callable[..., Awaitable[Service]]:
    """Makes a service for a URL on this machine."""

    async def make(url: str, **fields: object) -> Service:
        values = {"name": f"service-{next(_numbers)}", "allows_private_addresses": True} | fields
        return await Service.objects.acreate(url=url, **values)

    return make
