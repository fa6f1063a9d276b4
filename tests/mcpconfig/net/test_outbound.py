"""The transport: redirects, certificates, and environment variables that it ignores."""

import ssl
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mcpconfig.models import Service, ToolDefinition
from mcpconfig.net import outbound
from mcpconfig.net.outbound import tls_context
from mcpconfig.operations.tools import call_tool, list_tools
from mcpconfig.values.errors import OperationError
from tests.peers.outbound import Resolver
from tests.peers.public import any_host, self_signed
from tests.peers.serving import Served
from tests.peers.toolbox import application, toolbox

MakeService = Callable[..., Awaitable[Service]]

pytestmark = pytest.mark.timeout(30)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_no_redirect_is_followed(status: int, service_at: MakeService) -> None:
    async def redirect(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        headers = [(b"location", b"/other")]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body"})

    with Served(redirect) as served:
        with pytest.raises(OperationError) as caught:
            await list_tools(await service_at(served.url))
        assert [arrival.path for arrival in served.arrivals.seen] == ["/mcp"]
    assert caught.value.kind == "configuration"


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    return self_signed(tmp_path)


@pytest.fixture
def tls_served(certificate: Path, watch: Any) -> Iterator[Served]:
    with Served(any_host(application(toolbox(watch))), certificate=certificate) as served:
        yield served


async def test_a_certificate_that_nobody_vouches_for_is_refused_before_anything_is_sent(
    tls_served: Served, service_at: MakeService
) -> None:
    service = await service_at(tls_served.url)

    with pytest.raises(OperationError) as caught:
        await call_tool(service, ToolDefinition(name="echo", input_schema={}), {})

    assert (caught.value.kind, caught.value.was_sent) == ("tls", False)
    assert tls_served.arrivals.seen == []


async def test_the_certificate_is_checked_for_the_name_although_the_address_is_pinned(
    tls_served: Served,
    certificate: Path,
    service_at: MakeService,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    trusting = ssl.create_default_context(cafile=str(certificate))
    monkeypatch.setattr(outbound, "tls_context", lambda: trusting)
    monkeypatch.setattr("anyio.getaddrinfo", Resolver(["127.0.0.1"]))

    named = await service_at(f"https://service.test:{tls_served.port}/mcp")
    assert await list_tools(named)

    misnamed = await service_at(f"https://other.test:{tls_served.port}/mcp")
    with pytest.raises(OperationError) as caught:
        await list_tools(misnamed)
    assert caught.value.kind == "tls"


def test_the_tls_context_is_made_once_per_process() -> None:
    assert tls_context() is tls_context()
