"""The proxy of the settings: every request goes through it, and the rules on addresses stay the
same."""

from collections.abc import Awaitable, Callable

import pytest
from django.conf import LazySettings

from mcpconfig.models import Service, ToolDefinition
from mcpconfig.operations.tools import list_tools
from mcpconfig.values.errors import OperationError
from tests.peers.connect_proxy import ConnectProxy
from tests.peers.finished_calls import call_tool
from tests.peers.serving import Served

MakeService = Callable[..., Awaitable[Service]]

pytestmark = pytest.mark.timeout(30)

ECHO = {"name": "echo", "input_schema": {"type": "object"}}


async def failure(service: Service) -> OperationError:
    with pytest.raises(OperationError) as caught:
        await call_tool(service, ToolDefinition(**ECHO), {"text": "x"})
    return caught.value


async def test_operations_go_through_the_proxy_that_the_settings_name(
    modern: Served, service_at: MakeService, settings: LazySettings
) -> None:
    with ConnectProxy() as proxy:
        settings.OUTBOUND_PROXY = proxy.url
        service = await service_at(modern.url.replace("127.0.0.1", "localhost"))

        outcome = await call_tool(service, ToolDefinition(**ECHO), {"text": "through"})

        assert outcome.result.content[0]["text"] == "through"
        assert set(proxy.places) <= {f"127.0.0.1:{modern.port}", f"[::1]:{modern.port}"}
        assert modern.arrivals.seen[0].headers["host"] == f"localhost:{modern.port}"


async def test_its_credentials_are_shown_to_the_proxy_and_not_to_the_service(
    modern: Served, service_at: MakeService, settings: LazySettings
) -> None:
    with ConnectProxy() as proxy:
        settings.OUTBOUND_PROXY = proxy.url.replace("http://", "http://us%40er:pass@")

        await list_tools(await service_at(modern.url))

        assert "Proxy-Authorization: Basic dXNAZXI6cGFzcw==" in proxy.heads[0]
        assert "proxy-authorization" not in modern.arrivals.seen[0].headers


async def test_an_inside_address_is_refused_before_the_proxy_is_asked(
    service_at: MakeService, settings: LazySettings
) -> None:
    with ConnectProxy() as proxy:
        settings.OUTBOUND_PROXY = proxy.url

        error = await failure(
            await service_at("https://10.0.0.1/mcp", allows_private_addresses=False)
        )

        assert error.kind == "blocked_address"
        assert proxy.heads == []


@pytest.mark.parametrize(
    "refusal",
    [
        b"HTTP/1.1 403 Forbidden\r\n\r\n",
        b"HTTP/1.1 2000 Odd\r\n\r\n",
        b"HTTP/1.1 200",
        b"nonsense\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * 1_000_000,
    ],
)
async def test_a_proxy_that_does_not_tunnel_is_a_failure_before_anything_was_sent(
    modern: Served, service_at: MakeService, settings: LazySettings, refusal: bytes
) -> None:
    with ConnectProxy(refusal) as proxy:
        settings.OUTBOUND_PROXY = proxy.url

        error = await failure(await service_at(modern.url))

        assert error.kind in ("refused", "too_large")
        assert (error.was_sent, error.is_definite) == (False, True)
        assert modern.arrivals.seen == []


async def test_a_proxy_that_is_not_there_is_refused(
    modern: Served, service_at: MakeService, settings: LazySettings
) -> None:
    settings.OUTBOUND_PROXY = "http://127.0.0.1:9"

    error = await failure(await service_at(modern.url))

    assert (error.kind, error.was_sent) == ("refused", False)


async def test_without_the_setting_no_variable_of_the_environment_names_a_proxy(
    modern: Served, service_at: MakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ConnectProxy() as proxy:
        for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy.url)

        assert await list_tools(await service_at(modern.url))
        assert proxy.heads == []
