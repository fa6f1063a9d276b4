"""Built-in services are reached by real HTTP on loopback."""

from collections.abc import Awaitable, Callable

import pytest

from mcpconfig.models import Service
from mcpconfig.operations.tools import list_tools
from mcpconfig.values.errors import OperationError
from mcpconfig.values.hooks import BuiltinAddress, Hooks, using_hooks
from tests.peers.serving import Served
from tests.peers.toolbox import BEARER

MakeService = Callable[..., Awaitable[Service]]


async def test_a_built_in_service_is_opened_with_its_own_token(
    guarded: Served, service_at: MakeService
) -> None:
    async def address() -> BuiltinAddress:
        return BuiltinAddress(url=guarded.url, bearer=BEARER)

    service = await service_at("builtin:box", allows_private_addresses=False)

    with using_hooks(Hooks(builtin_addresses={"box": address})):
        assert len(await list_tools(service)) == 7
    assert guarded.arrivals.seen[0].headers["authorization"] == f"Bearer {BEARER}"


async def test_an_unknown_built_in_name_is_said_before_anything_is_sent(
    service_at: MakeService,
) -> None:
    with pytest.raises(OperationError) as caught:
        await list_tools(await service_at("builtin:nothing"))

    assert (caught.value.kind, caught.value.was_sent) == ("not_found", False)
    assert "nothing" in caught.value.message


async def test_only_built_in_services_reach_loopback_without_the_setting(
    guarded: Served, service_at: MakeService
) -> None:
    service = await service_at(guarded.url, allows_private_addresses=False)

    with pytest.raises(OperationError) as caught:
        await list_tools(service)

    assert caught.value.kind == "configuration"
    assert guarded.arrivals.seen == []


def test_the_endpoint_that_approvals_bind_to_is_the_name_not_the_port() -> None:
    assert Service(name="box", url="builtin:box").endpoint == "builtin:box"
