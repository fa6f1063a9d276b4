"""Hosts of addresses and mail recipients in one normal form, and the hosts that an admin allows.

Programs disagree about the host of an unusual address: in `https://a.test\\@b.test`, some read
a.test and some b.test. So an address is read strictly, and one that is unclear has no host.

Normal forms: `example.com`, `192.0.2.1`, `2001:db8::1`, and `@example.com` for a mail recipient.
"""

import re
from collections.abc import Iterable
from ipaddress import AddressValueError, IPv4Address, IPv6Address

import idna
from django.utils.translation import gettext as _

MAX_HOST_CHARACTERS = 253
MAX_PATTERNS = 500
_MAX_AUTHORITY = 600
_SCHEMES = frozenset({"http", "https", "ws", "wss"})
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]{0,30})://")
_LABEL = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
# A host whose last label is a number is an IPv4 address to browsers: 0x7f.1, 2130706433, 127.1.
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
_AUTHORITY = re.compile(r"(\[[0-9A-Fa-f:.]{2,45}\]|[^\[\]:]+)(?::([0-9]{1,5}))?")
_END_OF_AUTHORITY = re.compile(r"[/?#]")
_UNCLEAR = re.compile(r"[\s\\\x00-\x20\x7f-\xa0\xad\u200b-\u200f\u2028-\u202e\u2060-\u2064\ufeff]")
# In a list, a second host after the first address: "https://a.test/,b.test/".
_SECOND = re.compile(
    r"[,;|](?:[^\W_][\w-]{0,62}\.){1,20}[^\W\d_][\w-]{1,62}(?:[:/?#,;|]|$)|[,;|]//"
)
# No quoted names, and neither % nor !, with which a mail server is told to pass a mail on. No /, ?
# or # either: as a web address, "a.test/?@b.test" is at a.test.
_LOCAL_PART = re.compile(r"[A-Za-z0-9.$&'*+=^_`{|}~-]{1,64}")


class BadHost(ValueError):
    """A line that names no host. The message is written for an admin."""


def read_address_host(text: str) -> str:
    """Return the normal form of the host of a web address, or of a host with an optional port and
    path. Return an empty string if it is unclear which host a program would connect to."""
    if _UNCLEAR.search(text):
        return ""
    scheme = _SCHEME.match(text)
    if scheme is not None and scheme[1].lower() not in _SCHEMES:
        return ""
    rest = text[scheme.end() :] if scheme else text
    # A second address after the first one may be the one that is used: "a.test,https://b.test".
    if "://" in rest or _SECOND.search(rest):
        return ""
    # Some programs read what stands before a late @ as a user name: "a.test?@b.test".
    if "@" in rest[:_MAX_AUTHORITY].partition("/")[0]:
        return ""
    end = _END_OF_AUTHORITY.search(rest)
    return _read_authority(rest[: end.start()] if end else rest)


def read_mail_host(text: str) -> str:
    """Return `@` and the host of a mail recipient, or an empty string if it is unclear."""
    local, _, host = text.partition("@")
    if not _LOCAL_PART.fullmatch(local) or local.startswith(".") or ".." in local:
        return ""
    found = normalise_host(host)
    return f"@{found}" if "." in found and ":" not in found else ""


def normalise_host(text: str) -> str:
    """Return a host name or IP address in its normal form, or an empty string."""
    host = text.lower().removesuffix(".")
    if not host or len(host) > MAX_HOST_CHARACTERS:
        return ""
    if not host.isascii():
        host = _encode_international(host)
    labels = host.split(".")
    if _NUMBER.fullmatch(labels[-1]):
        return _normalise_ipv4(host)
    return host if all(map(_LABEL.fullmatch, labels)) else ""


def read_pattern(line: str) -> str:
    """Return a line of an admin's list in its normal form: a host, `*.` and a host for all hosts
    below it, or one of these after `@` for the recipients of mail. Raises BadHost."""
    text = line.strip()
    mark = "@" if text.startswith("@") else ""
    host = text.removeprefix("@")
    is_wide = host.startswith("*.")
    host = host.removeprefix("*.")
    if host.startswith("[") and host.endswith("]"):
        found = _normalise_ipv6(host[1:-1])
    else:
        found = _normalise_ipv6(host) if ":" in host else normalise_host(host)
    is_ip = ":" in found or found[-1:].isdigit()
    if not found or (is_ip and (is_wide or mark)):
        raise BadHost(
            _("“%(text)s” is not a host. Enter example.com, *.example.com or @example.com.")
            % {"text": text[:100]}
        )
    if is_wide and "." not in found:
        raise BadHost(
            _(
                "“%(text)s” matches too many hosts. Enter at least two parts of a host name: "
                "*.example.com."
            )
            % {"text": text[:100]}
        )
    return f"{mark}{'*.' if is_wide else ''}{found}"


def read_patterns(text: str) -> tuple[str, ...]:
    """Return the hosts of an admin's list with one a line, sorted. Raises BadHost."""
    lines = [line for line in text.splitlines() if line.strip()]
    if len(lines) > MAX_PATTERNS:
        raise BadHost(_("Enter at most %(count)s hosts.") % {"count": MAX_PATTERNS})
    return tuple(sorted({read_pattern(line) for line in lines}))


def read_stored_patterns(text: str) -> tuple[str, ...]:
    """Return the hosts of a stored list. A list with a line that cannot be read allows nothing."""
    try:
        return read_patterns(text)
    except BadHost:
        return ()


def is_allowed(host: str, patterns: Iterable[str]) -> bool:
    """Return whether a host in its normal form is one of these or below one with `*.`."""
    if not host:
        return False
    mark, name = ("@", host[1:]) if host.startswith("@") else ("", host)
    parents = name.split(".")
    wide = {f"{mark}*.{'.'.join(parents[place:])}" for place in range(1, len(parents))}
    return any(pattern == host or pattern in wide for pattern in patterns)


def _read_authority(text: str) -> str:
    found = _AUTHORITY.fullmatch(text) if len(text) <= _MAX_AUTHORITY else None
    if found is None or int(found[2] or 0) > 65_535:
        return ""
    if found[1].startswith("["):
        return _normalise_ipv6(found[1][1:-1])
    return normalise_host(found[1])


def _encode_international(host: str) -> str:
    """Return the ASCII form of an international name. Characters that a program may first replace
    by others, such as full-width ones, are refused."""
    try:
        return idna.encode(host, strict=True, std3_rules=True).decode().lower()
    except (idna.IDNAError, UnicodeError):
        return ""


def _normalise_ipv4(host: str) -> str:
    """Return an address of four plain decimal numbers; other notations are unclear."""
    try:
        return str(IPv4Address(host))
    except AddressValueError:
        return ""


def _normalise_ipv6(host: str) -> str:
    if "%" in host:
        return ""
    try:
        return IPv6Address(host).compressed
    except AddressValueError:
        return ""
