"""The outbound door: no URL form leads inside, whatever it looks like and whatever DNS says."""

import ipaddress
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx2
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from mcpconfig import network
from mcpconfig.errors import OperationError, Refusal
from mcpconfig.models import Service, ToolDefinition
from mcpconfig.network import GuardedTransport, is_allowed, tls_context
from mcpconfig.operations import call_tool, list_tools
from mcpconfig.wire import Wire
from tests.peers.hostile import Hostile
from tests.peers.serving import Served
from tests.peers.toolbox import application, toolbox

MakeService = Callable[..., Awaitable[Service]]

pytestmark = pytest.mark.timeout(30)

V4_FORMS = """
127.0.0.1 127.0.0.2 127.1 127.0.1 127.255.255.255 0.0.0.0 0 1
2130706433 017700000001 0x7f000001 0x7f.1 0x7f.0x0.0x0.0x1 0177.0.0.1 0177.1 0x7F000001
localhost LOCALHOST localhost. LocalHost 127。0。0。1 ①②⑦.0.0.1 １２７.0.0.1
10.0.0.1 10.255.255.255 172.16.0.1 172.31.255.255 192.168.0.1 192.168.255.255
169.254.169.254 169.254.0.1 2852039166 0xa9fea9fe 100.64.0.1 100.100.100.200
192.0.0.1 192.0.2.1 198.18.0.1 198.51.100.1 203.0.113.1 224.0.0.1 239.255.255.255 240.0.0.1
255.255.255.255 192.88.99.1
"""
V6_FORMS = """
::1 :: 0:0:0:0:0:0:0:1 ::ffff:127.0.0.1 ::ffff:7f00:1 ::ffff:7f00:0001
::ffff:10.0.0.1 ::ffff:a9fe:a9fe 0:0:0:0:0:ffff:7f00:1 ::7f00:1 ::127.0.0.1
64:ff9b::7f00:1 64:ff9b::127.0.0.1 64:ff9b::a9fe:a9fe 64:ff9b:1::7f00:1
2002:7f00:1:: 2002:a00:1::1 2002:a9fe:a9fe:: 2001:0:0:0:0:0:80ff:fffe
fe80::1 fec0::1 fc00::1 fd00::1 fd00:ec2::254 ff02::1 ff0e::1 2001:db8::1 100::1 3fff::1 5f00::1
"""
INSIDE = [*V4_FORMS.split(), *(f"[{form}]" for form in V6_FORMS.split())]
OUTSIDE = ["1.1.1.1", "8.8.8.8", "93.184.215.14", "2606:4700:4700::1111", "2002:101:101::1"]


@contextmanager
def counted_connections() -> Iterator[tuple[int, Callable[[], int]]]:
    """A listener on all of loopback, and how many connections it was offered."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.setblocking(False)

        def offered() -> int:
            count = 0
            while True:
                try:
                    listening.accept()[0].close()
                except BlockingIOError:
                    return count
                count += 1

        yield int(listening.getsockname()[1]), offered


async def get(url: str, *, allows_private: bool = False) -> httpx2.Response:
    transport = GuardedTransport(Wire(), allows_private=allows_private, is_sse=False)
    async with httpx2.AsyncClient(transport=transport, trust_env=False, timeout=0.3) as client:
        return await client.post(url)


def test_there_are_at_least_sixty_forms_to_try() -> None:
    assert len(set(INSIDE)) >= 60


async def test_no_form_of_an_inside_address_is_connected_to(service_at: MakeService) -> None:
    service = await service_at("https://example.org", allows_private_addresses=False)
    with counted_connections() as (port, offered):
        for host in INSIDE:
            service.url = f"https://{host}:{port}/mcp"
            with pytest.raises(OperationError) as caught:
                await list_tools(service)
            assert caught.value.kind in ("blocked_address", "not_found", "configuration"), host
            assert not caught.value.was_sent
        assert offered() == 0


async def test_the_same_listener_is_reached_when_private_addresses_are_allowed() -> None:
    with counted_connections() as (port, offered):
        with pytest.raises(httpx2.TransportError):
            await get(f"http://127.1:{port}/mcp", allows_private=True)
        assert offered() == 1


@pytest.mark.parametrize("host", ["169.254.169.254", "[fd00:ec2::254]", "224.0.0.1", "0.0.0.0"])  # noqa: S104
async def test_metadata_and_multicast_stay_closed_even_in_an_own_network(host: str) -> None:
    with pytest.raises(Refusal) as caught:
        await get(f"http://{host}/mcp", allows_private=True)

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
        network.check_url(url, allows_private=False)

    assert caught.value.kind == "configuration"
    assert not caught.value.was_sent


class Resolver:
    """Answers with the given addresses, one set a question."""

    def __init__(self, *answers: list[str]) -> None:
        self.answers = list(answers)
        self.asked = 0

    async def __call__(self, host: str, port: int, **_: Any) -> list[Any]:
        answer = self.answers[min(self.asked, len(self.answers) - 1)]
        self.asked += 1
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in answer]


async def test_one_inside_address_among_public_ones_blocks_the_host(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("anyio.getaddrinfo", Resolver(["1.1.1.1", "127.0.0.1"]))
    with counted_connections() as (port, offered):
        with pytest.raises(Refusal) as caught:
            await get(f"https://mixed.example:{port}/mcp")
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
            await get(f"https://rebinding.example:{port}/mcp")
        assert offered() == 0


async def test_proxy_variables_of_the_environment_are_ignored(
    monkeypatch: pytest.MonkeyPatch, hostile: Hostile, service_at: MakeService
) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")

    assert await list_tools(await service_at(hostile.url("html")))


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
    """A certificate for `service.test`, signed by nobody, with its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "service.test")])
    now = datetime.now(UTC)
    signed = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("service.test")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem, plain = serialization.Encoding.PEM, serialization.NoEncryption()
    format_ = serialization.PrivateFormat.PKCS8
    path = tmp_path / "certificate.pem"
    path.write_bytes(signed.public_bytes(pem) + key.private_bytes(pem, format_, plain))
    return path


@pytest.fixture
def tls_served(certificate: Path, watch: Any) -> Iterator[Served]:
    app = application(toolbox(watch))

    async def any_host(scope: Any, receive: Any, send: Any) -> None:
        """The SDK's server would turn the test's host name down."""
        if scope["type"] == "http":
            headers = [(n, v) for n, v in scope["headers"] if n != b"host"]
            scope = {**scope, "headers": [*headers, (b"host", b"127.0.0.1:1")]}
        await app(scope, receive, send)

    with Served(any_host, certificate=certificate) as served:
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
    monkeypatch.setattr(network, "tls_context", lambda: trusting)
    monkeypatch.setattr("anyio.getaddrinfo", Resolver(["127.0.0.1"]))

    named = await service_at(f"https://service.test:{tls_served.port}/mcp")
    assert await list_tools(named)

    misnamed = await service_at(f"https://other.test:{tls_served.port}/mcp")
    with pytest.raises(OperationError) as caught:
        await list_tools(misnamed)
    assert caught.value.kind == "tls"


def test_the_tls_context_is_made_once_per_process() -> None:
    assert tls_context() is tls_context()
