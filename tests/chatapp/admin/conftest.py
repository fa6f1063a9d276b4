"""A real server with tools to try, configured and listed, and a page of it as a tree."""

from collections.abc import Iterator
from typing import Any

import pytest
from asgiref.sync import async_to_sync

from mcpconfig.models import Service
from mcpconfig.operations.tool_listing import fetch_tools
from tests.peers.bench import Bench, at_bench
from tests.peers.serving import Served


@pytest.fixture(scope="session")
def _bench() -> Bench:
    return Bench()


@pytest.fixture(scope="session")
def _bench_served(_bench: Bench) -> Iterator[Served]:
    with Served(at_bench(_bench)) as served:
        yield served


@pytest.fixture
def bench(_bench: Bench) -> Bench:
    _bench.ran.clear()
    return _bench


def service_at(url: str, **fields: Any) -> Service:
    """A service whose tools are known, and confirmed by nobody."""
    values = {"name": "shop", "title": "Shop", "allows_private_addresses": True} | fields
    service = Service.objects.create(url=url, **{"visibility": "everyone", **values})
    async_to_sync(fetch_tools)(service)
    return service


@pytest.fixture
def shop(_bench_served: Served, bench: Bench, transactional_db: Any, settings: Any) -> Service:
    """Operations write from threads of their own, so no transaction is around them."""
    settings.MCP_TOTAL_SECONDS, settings.MCP_IDLE_SECONDS = 20, 10
    return service_at(_bench_served.url, is_trusted=True)
