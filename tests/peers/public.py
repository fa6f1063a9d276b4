"""A server at a public address, as far as the transport can tell: `service.test` has a trusted
certificate and resolves to an address of the public network, and a proxy leads here."""

import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from mcpconfig.net import outbound

from .connect_proxy import ConnectProxy
from .outbound import Resolver
from .serving import Application, Served

PUBLIC = "93.184.216.34"


def self_signed(folder: Path) -> Path:
    """A self-signed certificate for `service.test`, with its key."""
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
    path = folder / "certificate.pem"
    path.write_bytes(signed.public_bytes(pem) + key.private_bytes(pem, format_, plain))
    return path


def any_host(application: Application) -> Application:
    """The SDK's server would refuse the test's host name."""

    async def renamed(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            headers = [(n, v) for n, v in scope["headers"] if n != b"host"]
            scope = {**scope, "headers": [*headers, (b"host", b"127.0.0.1:1")]}
        await application(scope, receive, send)

    return renamed


class _LeadsHere(ConnectProxy):
    """A proxy that tunnels every address to one port of this machine."""

    def __init__(self, port: int) -> None:
        super().__init__()
        self._port_here = port

    async def _join(self, place: str, reader: Any, writer: Any) -> None:
        await super()._join(f"127.0.0.1:{self._port_here}", reader, writer)


@contextmanager
def at_public_address(
    application: Application, folder: Path, settings: Any, patch: pytest.MonkeyPatch
) -> Iterator[tuple[Served, str]]:
    """The server and its URL. Any host but `service.test` has a certificate that does not fit."""
    certificate = self_signed(folder)
    trusting = ssl.create_default_context(cafile=str(certificate))
    patch.setattr(outbound, "tls_context", lambda: trusting)
    patch.setattr("anyio.getaddrinfo", Resolver([PUBLIC]))
    with (
        Served(any_host(application), certificate=certificate) as served,
        _LeadsHere(served.port) as proxy,
    ):
        settings.OUTBOUND_PROXY = proxy.url
        yield served, f"https://service.test:{served.port}/mcp"
