"""The fields of SIGN_IN_PROVIDERS that only the kind ldap has."""

import importlib.util
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

LIBRARY = "django_auth_ldap"
LOOPBACK = ("localhost", "127.0.0.1", "::1")
SCHEMES = ("ldap", "ldaps")
TEXTS = (
    *("ca_file", "bind_dn", "bind_password", "bind_password_env", "user_dn", "user_base"),
    *("user_filter", "group_base", "group_type"),
)
FIELDS = (*TEXTS, "servers", "start_tls", "timeout_seconds")
# Fields of other kinds that have no meaning for this one.
OTHERS = (
    *("issuer", "client_id", "client_secret", "client_secret_env", "scopes", "sso_url"),
    *("certificate", "certificate_env", "groups_claim", "required_claims"),
)
# How a directory lists the members of a group: classes of django-auth-ldap.
GROUP_TYPES = {
    "groupOfNames": "GroupOfNamesType",
    "groupOfUniqueNames": "GroupOfUniqueNamesType",
    "posixGroup": "PosixGroupType",
    "activeDirectory": "ActiveDirectoryGroupType",
    "nestedGroupOfNames": "NestedGroupOfNamesType",
    "nestedActiveDirectory": "NestedActiveDirectoryGroupType",
}
MAX_SECONDS = 30
Refuse = Callable[[str], Exception]


@dataclass(frozen=True, slots=True, kw_only=True)
class LDAPServer:
    """A directory and where it has people and groups.

    A person is found by `user_filter` below `user_base`, or has the name `user_dn`. Both contain
    `%(user)s` for the name that was typed.
    """

    addresses: tuple[str, ...]
    uses_start_tls: bool = False
    ca_file: str = ""
    bind_dn: str = ""
    bind_password: str = field(default="", repr=False)
    user_dn: str = ""
    user_base: str = ""
    user_filter: str = "(uid=%(user)s)"
    group_base: str = ""
    group_type: str = "groupOfNames"
    timeout_seconds: float = 5.0


def read_ldap_server(entry: Mapping[str, Any], refuse: Refuse) -> LDAPServer:
    """Read the fields of this kind. Raises what `refuse` returns for a wrong one."""

    def require(is_right: bool, wanted: str) -> None:
        if not is_right:
            raise refuse(wanted)

    for name in OTHERS:
        require(name not in entry, f"there is no “{name}”, as the kind ldap has none")
    addresses = tuple(entry.get("servers", ()))
    uses_start_tls = entry.get("start_tls", False)
    _check_addresses(addresses, uses_start_tls, require)
    password = read_field(entry, "bind_password")
    has_dn = bool(entry.get("bind_dn"))
    wanted = "“bind_dn” and “bind_password” (or the variable “bind_password_env”) are set together"
    require(has_dn == bool(password), wanted)
    ca_file = entry.get("ca_file", "")
    require(not ca_file or Path(ca_file).is_file(), "“ca_file” is the path of a file")
    template, base = entry.get("user_dn", ""), entry.get("user_base", "")
    require(bool(template) != bool(base), "either “user_base” or “user_dn” is set")
    require(not template or _is_template(template), "“user_dn” contains %(user)s")
    search = entry.get("user_filter") or "(uid=%(user)s)"
    wanted = "“user_filter” is in parentheses and contains %(user)s"
    require(_is_template(search) and search[0] == "(" and search[-1] == ")", wanted)
    has_groups = bool(entry.get("groups") or entry.get("required_groups"))
    require(bool(entry.get("group_base")) or not has_groups, "“group_base” is set, as groups are")
    group_type = entry.get("group_type") or "groupOfNames"
    require(group_type in GROUP_TYPES, f"“group_type” is {' or '.join(GROUP_TYPES)}")
    seconds = entry.get("timeout_seconds", 5)
    is_number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    wanted = f"“timeout_seconds” is a number from 1 to {MAX_SECONDS}"
    require(is_number and 1 <= seconds <= MAX_SECONDS, wanted)
    wanted = "the kind ldap needs the extra of that name (uv sync --extra ldap)"
    require(importlib.util.find_spec(LIBRARY) is not None, wanted)
    return LDAPServer(
        addresses=addresses,
        uses_start_tls=uses_start_tls,
        ca_file=ca_file,
        bind_dn=entry.get("bind_dn", ""),
        bind_password=password,
        user_dn=template,
        user_base=base,
        user_filter=search,
        group_base=entry.get("group_base", ""),
        group_type=group_type,
        timeout_seconds=float(seconds),
    )


def _check_addresses(
    addresses: tuple[str, ...], uses_start_tls: Any, require: Callable[[bool, str], None]
) -> None:
    """Passwords travel encrypted, except on this machine."""
    require(isinstance(uses_start_tls, bool), "“start_tls” is true or false")
    require(bool(addresses), "“servers” has at least one address")
    for address in addresses:
        require(_is_address(address), "“servers” has addresses such as ldaps://ldap.example.com")
        parts = urlsplit(address)
        wanted = "“start_tls” is true, or “servers” has ldaps:// addresses"
        is_encrypted = parts.scheme == "ldaps" or uses_start_tls
        require(is_encrypted or parts.hostname in LOOPBACK, wanted)
        wanted = "“start_tls” is false, as ldaps:// is encrypted from the start"
        require(not (uses_start_tls and parts.scheme == "ldaps"), wanted)


def _is_address(address: str) -> bool:
    """Whether this is a scheme, a host and perhaps a port. libldap reads more from an address, and
    several of them where there is a space."""
    try:
        parts = urlsplit(address)
        has_port = parts.port is None or parts.port > 0
    except ValueError:
        return False
    has_more = any((parts.username, parts.password, parts.path, parts.query, parts.fragment))
    is_one = not any(each.isspace() or each == "," for each in address)
    has_host = parts.scheme in SCHEMES and bool(parts.hostname)
    return has_host and has_port and is_one and not has_more


def _is_template(text: str) -> bool:
    """Whether a name can be put into this text, and only there."""
    try:
        return "%(user)s" in text and bool(text % {"user": "x"})
    except (KeyError, ValueError, TypeError):
        return False


def read_field(entry: Mapping[str, Any], name: str) -> str:
    """Return this field, or the variable that the field `<name>_env` names."""
    variable = entry.get(f"{name}_env", "")
    return str(os.environ.get(variable, "") if variable else entry.get(name, ""))
