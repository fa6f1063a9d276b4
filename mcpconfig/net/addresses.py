"""Which URLs and addresses a connection may go to."""

import functools
import ipaddress
import socket

import anyio
import httpx2
from django.utils.translation import gettext as _

from mcpconfig.values.errors import OperationError, timeout_error
from mcpconfig.values.hooks import current_hooks
from mcpconfig.values.limits import LIMITS

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_V4_COMPATIBLE = ipaddress.ip_network("::/96")
# IPv4 in the last four bytes: NAT64, and SIIT translation.
_V4_INSIDE = (ipaddress.ip_network("64:ff9b::/96"), ipaddress.ip_network("::ffff:0:0:0/96"))
# All public IPv6 addresses are in this network, whatever `is_global` says of others.
_PUBLIC_V6 = ipaddress.ip_network("2000::/3")
# Special-purpose ranges that Python 3.11 counts as global: NAT64 for local use, the 6to4 relay,
# site-local, documentation, segment routing.
_NOT_GLOBAL = tuple(
    ipaddress.ip_network(network)
    for network in ("64:ff9b:1::/48", "192.88.99.0/24", "fec0::/10", "3fff::/20", "5f00::/16")
)
# Cloud metadata servers hand out credentials at these addresses; no setting allows them.
_METADATA = frozenset(
    ipaddress.ip_address(address)
    for address in (
        *("169.254.169.254", "100.100.100.200", "168.63.129.16", "192.0.0.192"),
        *("fd00:ec2::254", "fd20:ce::254"),
    )
)


def unwrap_address(address: Address) -> Address:
    """Return the IPv4 address inside an IPv6 one: mapped, compatible, 6to4, NAT64, Teredo."""
    if isinstance(address, ipaddress.IPv4Address):
        return address
    inner = address.ipv4_mapped or address.sixtofour or (address.teredo or (None, None))[1]
    if inner is not None:
        return inner
    is_wrapped = any(address in network for network in _V4_INSIDE) or (
        address in _V4_COMPATIBLE and int(address) > 1
    )
    return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF) if is_wrapped else address


def is_allowed(address: Address, *, allows_private: bool) -> bool:
    """Whether a service may have this address."""
    address = unwrap_address(address)
    if address.is_multicast or address.is_unspecified or address.is_link_local:
        return False
    if address in _METADATA:
        return False
    is_global = address.is_global and not any(address in network for network in _NOT_GLOBAL)
    if isinstance(address, ipaddress.IPv6Address) and address not in _PUBLIC_V6:
        is_global = False
    return allows_private or is_global


_parse_url = functools.lru_cache(256)(httpx2.URL)


def check_url(url: str | httpx2.URL, *, allows_private: bool) -> httpx2.URL:
    """Return the URL, parsed by the library that will use it; raise OperationError if it is not
    allowed."""
    try:
        parsed = url if isinstance(url, httpx2.URL) else _parse_url(url)
    except httpx2.InvalidURL as error:
        raise _url_error(_("The URL can’t be read.")) from error
    if parsed.scheme not in ("http", "https") or not parsed.host:
        raise _url_error(_("The URL must begin with https:// and name a host."))
    if parsed.port is not None and not 0 < parsed.port < 65_536:
        raise _url_error(_("The URL’s port does not exist."))
    if parsed.userinfo:
        raise _url_error(_("The URL must not contain a user name or password."))
    if parsed.scheme == "http" and not allows_private:
        raise _url_error(_("The URL must begin with https://."))
    return parsed


def _url_error(message: str) -> OperationError:
    return OperationError(
        kind="configuration",
        message=message,
        hint=_("To use http:// or a private address, turn on “allow private addresses”."),
        was_sent=False,
        is_definite=True,
    )


async def resolve_vetted_addresses(host: str, port: int, *, allows_private: bool) -> list[Address]:
    """Return the addresses of the host, if all of them are allowed.

    One forbidden address blocks the host: a resolver that mixes them is an attack.
    """
    addresses = _parse_literal(host) or await _resolve_host(host, port)
    if not addresses or not all(
        is_allowed(address, allows_private=allows_private) for address in addresses
    ):
        current_hooks().count_refused_connection("address")
        raise OperationError(
            kind="blocked_address",
            message=_("The service’s host leads to an address that is not allowed."),
            hint=_(
                "If the server is in your own network, allow private addresses in its settings."
            ),
        )
    return list(dict.fromkeys(addresses))


def _parse_literal(host: str) -> list[Address]:
    """Return the address if the host is one in its standard form; this saves a thread."""
    try:
        return [ipaddress.ip_address(host)]
    except ValueError:
        return []


async def _resolve_host(host: str, port: int) -> list[Address]:
    try:
        with anyio.fail_after(LIMITS.connect_seconds):
            found = await anyio.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except TimeoutError as error:
        raise timeout_error() from error
    except (OSError, UnicodeError) as error:
        raise OperationError(
            kind="not_found",
            message=_("The service’s host name was not found."),
            hint=_("Check the URL for typos."),
        ) from error
    return [ipaddress.ip_address(str(entry[4][0])) for entry in found]
