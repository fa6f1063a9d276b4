"""No connection is opened to any form of a private address, whatever its spelling and whatever DNS
answers."""

import ipaddress
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, NoReturn

import httpcore2
import httpx2
import pytest

from mcpconfig.models import Service
from mcpconfig.net import addresses, connections
from mcpconfig.net.addresses import is_allowed
from mcpconfig.net.outbound import GuardedTransport
from mcpconfig.net.wire import Wire
from mcpconfig.operations.tools import list_tools
from mcpconfig.session import client
from mcpconfig.values.errors import OperationError, Refusal
from mcpconfig.values.limits import LIMITS
from tests.peers.outbound import Resolver, counted_connections, post_to

MakeService = Callable[..., Awaitable[Service]]

pytestmark = [pytest.mark.gate, pytest.mark.timeout(300)]

V4_FORMS = """
127.0.0.1 127.0.0.2 127.1 127.0.1 127.255.255.255 0.0.0.0 0 1
2130706433 017700000001 0x7f000001 0x7f.1 0x7f.0x0.0x0.0x1 0177.0.0.1 0177.1 0x7F000001
localhost LOCALHOST localhost. LocalHost 127。0。0。1 ①②⑦.0.0.1 １２７.0.0.1
10.0.0.1 10.255.255.255 172.16.0.1 172.31.255.255 192.168.0.1 192.168.255.255
169.254.169.254 169.254.0.1 2852039166 0xa9fea9fe 100.64.0.1 100.100.100.200
192.0.0.1 192.0.2.1 198.18.0.1 198.51.100.1 203.0.113.1 224.0.0.1 239.255.255.255 240.0.0.1
255.255.255.255 192.88.99.1 127.0.0.1. 0x7f.0.0.1. 127.000.000.001 localhost.localdomain
%31%32%37.0.0.1 127.0.0.1%00 127%2e0%2e0%2e1 0.0.0.0. 0x0 00000000000 127.0x1 017700000001.
"""
V6_FORMS = """
::1 :: 0:0:0:0:0:0:0:1 ::ffff:127.0.0.1 ::ffff:7f00:1 ::ffff:7f00:0001
::ffff:10.0.0.1 ::ffff:a9fe:a9fe 0:0:0:0:0:ffff:7f00:1 ::7f00:1 ::127.0.0.1
64:ff9b::7f00:1 64:ff9b::127.0.0.1 64:ff9b::a9fe:a9fe 64:ff9b:1::7f00:1
2002:7f00:1:: 2002:a00:1::1 2002:a9fe:a9fe:: 2001:0:0:0:0:0:80ff:fffe
fe80::1 fec0::1 fc00::1 fd00::1 fd00:ec2::254 ff02::1 ff0e::1 2001:db8::1 100::1 3fff::1 5f00::1
fe80::1%25lo ::1%25lo ::1%lo 0000:0000:0000:0000:0000:0000:0000:0001 ::ffff:0:7f00:1
::FFFF:127.0.0.1 ::ffff:0:a9fe:a9fe 4000::1 fd20:ce::254
2002:7f00:0001::7f00:1 64:ff9b::10.0.0.1 2001:0:7f00:1::
"""
INSIDE = [*V4_FORMS.split(), *(f"[{form}]" for form in V6_FORMS.split())]
# Of a form that is a name for the system, which asks a name server that may not answer.
UNRESOLVED = ("not_found", "configuration", "timeout")
OUTSIDE = ["1.1.1.1", "8.8.8.8", "93.184.215.14", "2606:4700:4700::1111", "2002:101:101::1"]


def test_there_are_at_least_sixty_forms_to_try() -> None:
    assert len(set(INSIDE)) >= 60


# The forms among these that lead to this very machine, where a listener counts.
LOOPBACK = """
127.0.0.1 127.1 127.0.1 0.0.0.0 0 2130706433 017700000001 0x7f000001
0x7f.1 0x7f.0x0.0x0.0x1 0177.1 0x7F000001 localhost LOCALHOST 127。0。0。1
[::ffff:127.0.0.1] [::ffff:7f00:1] [0:0:0:0:0:ffff:7f00:1] 127.0x1 0x0
"""
AROUND = [
    "https://example.org@127.0.0.1:{port}/mcp",
    "https://example.org:443@127.0.0.1:{port}/mcp",
    "https://127.0.0.1:{port}@example.invalid/mcp",
    "https://127.0.0.1:{port}\\@example.invalid/mcp",
    "https://example.invalid\\@127.0.0.1:{port}/mcp",
    "https://127.0.0.1:{port}#@example.invalid/mcp",
    "https://127.0.0.1:{port}?@example.invalid/mcp",
    "https://127.0.0.1\t:{port}/mcp",
    "https://127.0.0.1\n:{port}/mcp",
    " https://127.0.0.1:{port}/mcp",
    "HTTPS://127.0.0.1:{port}/mcp",
    "https:\\\\127.0.0.1:{port}/mcp",
    "https:///127.0.0.1:{port}/mcp",
    "https:127.0.0.1:{port}/mcp",
    "http://127.0.0.1:{port}/mcp",
    "gopher://127.0.0.1:{port}/mcp",
    "unix://127.0.0.1:{port}/mcp",
    "ws://127.0.0.1:{port}/mcp",
]


def allow_every_address(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plant a fault: every address is allowed. The listener never speaks TLS."""
    monkeypatch.setattr(client, "LIMITS", replace(LIMITS, connect_seconds=0.2))
    monkeypatch.setattr(addresses, "is_allowed", lambda address, *, allows_private: True)


async def try_at(service: Service, url: str) -> OperationError:
    service.url = url
    with pytest.raises(OperationError) as caught:
        await list_tools(service)
    return caught.value


async def test_no_form_of_an_inside_address_is_connected_to(service_at: MakeService) -> None:
    service = await service_at("https://example.org", allows_private_addresses=False)
    with counted_connections() as (port, offered):
        for url in [*(f"https://{host}:{{port}}/mcp" for host in INSIDE), *AROUND]:
            error = await try_at(service, url.format(port=port))
            assert error.kind in ("blocked_address", *UNRESOLVED), url
            assert not error.was_sent
        assert offered() == 0


async def test_without_the_rule_each_loopback_form_is_connected_to(
    service_at: MakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    allow_every_address(monkeypatch)
    service = await service_at("https://example.org", allows_private_addresses=False)
    with counted_connections() as (port, offered):
        for host in LOOPBACK.split():
            await try_at(service, f"https://{host}:{port}/mcp")
            assert offered() > 0, host


class Attempts:
    """Records the hosts of connection attempts, and connects to none."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.hosts: list[str] = []
        monkeypatch.setattr(connections, "connect", self._note)

    async def _note(self, host: str, port: int, *_: Any, **__: Any) -> NoReturn:
        self.hosts.append(host)
        raise httpcore2.ConnectError("not here")


async def test_no_inside_address_is_even_tried(
    service_at: MakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempts = Attempts(monkeypatch)
    service = await service_at("https://example.org", allows_private_addresses=False)

    for host in INSIDE:
        await try_at(service, f"https://{host}/mcp")

    assert attempts.hosts == []


async def test_without_the_rule_every_form_that_resolves_is_tried(
    service_at: MakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    allow_every_address(monkeypatch)
    attempts = Attempts(monkeypatch)
    service = await service_at("https://example.org", allows_private_addresses=False)
    tried: set[str] = set()
    not_found: set[str] = set()

    for host in INSIDE:
        error = await try_at(service, f"https://{host}/mcp")
        (tried if attempts.hosts else not_found).add(host)
        assert attempts.hosts or error.kind in UNRESOLVED, host
        attempts.hosts.clear()

    assert len(tried) >= 60, not_found


async def test_the_same_listener_is_reached_when_private_addresses_are_allowed() -> None:
    with counted_connections() as (port, offered):
        with pytest.raises(httpx2.TransportError):
            await post_to(f"http://127.1:{port}/mcp", allows_private=True)
        assert offered() == 1


ALWAYS_CLOSED = """
169.254.169.254 [fd00:ec2::254] [fd20:ce::254] [::ffff:0:a9fe:a9fe] [::ffff:a9fe:a9fe] 192.0.0.192
[2002:a9fe:a9fe::] [64:ff9b::a9fe:a9fe] 224.0.0.1 0.0.0.0 [::] [ff02::1] [fe80::1]
"""


@pytest.mark.parametrize("host", ALWAYS_CLOSED.split())
async def test_metadata_and_multicast_stay_closed_even_in_an_own_network(host: str) -> None:
    with pytest.raises(Refusal) as caught:
        await post_to(f"http://{host}/mcp", allows_private=True)

    assert caught.value.error.kind == "blocked_address"


@pytest.mark.parametrize("address", OUTSIDE)
def test_public_addresses_are_allowed(address: str) -> None:
    assert is_allowed(ipaddress.ip_address(address), allows_private=False)


@pytest.mark.parametrize(
    "url",
    [
        "http://example.org/mcp",
        "ftp://example.org/",
        "file:///etc/passwd",
        "javascript:alert(1)",
        "//example.org/mcp",
        "example.org/mcp",
        "",
        "https://",
        "https://user:password@example.org/mcp",
        "https://example.org:999999/mcp",
    ],
)
def test_a_url_that_cannot_be_a_services_is_refused(url: str) -> None:
    with pytest.raises(OperationError) as caught:
        addresses.check_url(url, allows_private=False)

    assert caught.value.kind == "configuration"
    assert not caught.value.was_sent


async def test_one_inside_address_among_public_ones_blocks_the_host(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("anyio.getaddrinfo", Resolver(["1.1.1.1", "127.0.0.1"]))
    with counted_connections() as (port, offered):
        with pytest.raises(Refusal) as caught:
            await post_to(f"https://mixed.example:{port}/mcp")
        assert caught.value.error.kind == "blocked_address"
        assert offered() == 0


async def test_a_second_dns_answer_changes_nothing_within_an_operation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    resolver = Resolver(["127.0.0.1"], ["127.0.0.2"])
    monkeypatch.setattr("anyio.getaddrinfo", resolver)
    transport = GuardedTransport(Wire(), allows_private=True, is_sse=False)
    with counted_connections() as (port, offered):
        async with httpx2.AsyncClient(transport=transport, trust_env=False, timeout=0.2) as client:
            for _ in range(3):
                with pytest.raises(httpx2.TransportError):
                    await client.post(f"http://rebinding.example:{port}/mcp")
        assert resolver.asked == 1
        assert offered() == 3


async def test_a_host_that_turns_private_later_is_blocked_in_the_next_operation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("anyio.getaddrinfo", Resolver(["127.0.0.1"]))
    with counted_connections() as (port, offered):
        with pytest.raises(Refusal):
            await post_to(f"https://rebinding.example:{port}/mcp")
        assert offered() == 0


async def test_a_resolver_that_changes_its_mind_a_thousand_times_never_gets_a_connection_inside(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One answer in four is public. Every operation resolves and checks the host again."""
    answers = [["93.184.215.14"], ["127.0.0.1"], ["93.184.215.14", "::1"], ["::ffff:10.0.0.1"]]
    resolver = Resolver(*(answers * 250))
    monkeypatch.setattr("anyio.getaddrinfo", resolver)
    attempts = Attempts(monkeypatch)

    for _unused in range(1_000):
        with pytest.raises(httpx2.TransportError):
            await post_to("https://rebinding.example/mcp")

    assert resolver.asked == 1_000
    assert attempts.hosts == ["93.184.215.14"] * 250


async def test_without_pinning_the_second_answer_would_be_connected_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Plant the fault of the test above: the connection goes to the name."""

    async def names(*_: Any, **__: Any) -> list[str]:
        return ["rebinding.example"]

    monkeypatch.setattr(GuardedTransport, "_vetted", names)
    attempts = Attempts(monkeypatch)

    with pytest.raises(httpx2.TransportError):
        await post_to("https://rebinding.example/mcp")

    assert attempts.hosts == ["rebinding.example"]
