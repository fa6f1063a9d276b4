"""The providers that people sign in with, read from SIGN_IN_PROVIDERS and checked at the start.

A message of an error names the provider and the field, never a value, which may be a secret.
"""

import importlib.util
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from . import ldap_server
from .environment import Environment, make_error
from .ldap_server import LOOPBACK, LDAPServer, read_field, read_ldap_server

SETTING = "SIGN_IN_PROVIDERS"
KINDS = ("oidc", "github", "saml", "ldap")
ID = re.compile(r"[a-z0-9][a-z0-9-]{0,39}")
DOMAIN = re.compile(r"[a-z0-9-]+(\.[a-z0-9-]+)+")
TEXTS = (
    *("id", "name", "kind", "issuer", "client_id", "client_secret", "client_secret_env"),
    *("sso_url", "certificate", "certificate_env", *ldap_server.TEXTS),
)
LISTS = ("scopes", "allowed_domains", "required_groups", "servers")
SWITCHES = ("creates_accounts", "links_by_email", "emails_are_verified")
MAPS = ("groups", "required_claims", "attributes")
CERTIFICATE = re.compile(r"-----BEGIN CERTIFICATE-----(.+?)-----END CERTIFICATE-----", re.S)
SAML_LIBRARY = "onelogin"
# What django-allauth needs for a kind. Each takes 5 MB and a tenth of a second at every start.
PROVIDER_APPS = {
    "oidc": "allauth.socialaccount.providers.openid_connect",
    "github": "allauth.socialaccount.providers.github",
}
# The backend that checks passwords for the kind ldap.
LDAP_BACKEND = "chatapp.accounts.ldap_sign_in.LDAPBackend"
KNOWN = (*TEXTS, "groups_claim", *LISTS, *SWITCHES, *MAPS, "start_tls", "timeout_seconds")


@dataclass(frozen=True, slots=True, kw_only=True)
class SignInProvider:
    """One provider.

    `groups` maps a value of the claim `groups_claim` to the name of a group here. With
    `links_by_email` a verified address lets a person into the account with the same address.
    `emails_are_verified` is for providers that do not say whether an address is. A provider of the
    kind saml has `sso_url` and `certificates`, and `attributes` names its attributes. One of the
    kind ldap has `ldap`, and is a form instead of a redirect.
    """

    id: str
    name: str
    kind: str
    client_id: str = ""
    client_secret: str = field(default="", repr=False)
    issuer: str = ""
    scopes: tuple[str, ...] = ()
    allowed_domains: tuple[str, ...] = ()
    groups_claim: str = "groups"
    required_groups: tuple[str, ...] = ()
    required_claims: Mapping[str, str] = field(default_factory=dict)
    groups: Mapping[str, str] = field(default_factory=dict)
    sso_url: str = ""
    certificates: tuple[str, ...] = ()
    attributes: Mapping[str, str] = field(default_factory=dict)
    creates_accounts: bool = False
    links_by_email: bool = False
    emails_are_verified: bool = False
    ldap: LDAPServer | None = None


def read_providers(env: Environment) -> tuple[SignInProvider, ...]:
    """Read the setting. Raises ImproperlyConfigured with the field that is wrong."""
    found = env.json_list(SETTING)
    providers = tuple(_read_provider(entry, number) for number, entry in enumerate(found, 1))
    ids = [provider.id for provider in providers]
    if len(set(ids)) != len(ids):
        raise make_error(SETTING, "a list in which each id is used once")
    for kind in ("github", "ldap"):
        if sum(provider.kind == kind for provider in providers) > 1:
            raise make_error(SETTING, f"a list with at most one provider of the kind {kind}")
    return providers


def find_ldap_provider(providers: tuple[SignInProvider, ...]) -> SignInProvider | None:
    """Return the provider whose names and passwords the sign-in form takes."""
    return next((provider for provider in providers if provider.kind == "ldap"), None)


def list_provider_backends(providers: tuple[SignInProvider, ...]) -> list[str]:
    """Return the backends that check passwords for these providers."""
    return [LDAP_BACKEND] if find_ldap_provider(providers) else []


def list_provider_apps(providers: tuple[SignInProvider, ...]) -> list[str]:
    """Return the apps of django-allauth for these providers."""
    kinds = {provider.kind for provider in providers}
    return [app for kind, app in PROVIDER_APPS.items() if kind in kinds]


def build_allauth_settings(providers: tuple[SignInProvider, ...]) -> dict[str, Any]:
    """Return what django-allauth reads as SOCIALACCOUNT_PROVIDERS."""
    apps: dict[str, list[dict[str, Any]]] = {
        kind: [] for kind in ("openid_connect", "github", "saml", "ldap")
    }
    for provider in providers:
        if provider.kind in ("saml", "ldap"):
            apps[provider.kind].append(_build_own_app(provider))
            continue
        is_github = provider.kind == "github"
        settings: dict[str, Any] = {"oauth_pkce_enabled": True}
        if provider.scopes:
            settings["scope"] = list(provider.scopes)
        if not is_github:
            settings["server_url"] = provider.issuer
        apps["github" if is_github else "openid_connect"].append(
            {
                "provider_id": provider.id,
                "name": provider.name,
                "client_id": provider.client_id,
                "secret": provider.client_secret,
                "settings": settings,
            }
        )
    return {kind: {"APPS": found} for kind, found in apps.items()}


def _build_own_app(provider: SignInProvider) -> dict[str, Any]:
    names = ("issuer", "sso_url", "certificates")
    return {
        "provider_id": provider.id,
        "name": provider.name,
        "client_id": provider.id,
        "settings": {name: getattr(provider, name) for name in names},
    }


def _read_provider(entry: Any, number: int) -> SignInProvider:
    if not isinstance(entry, dict):
        raise make_error(SETTING, "a JSON list of objects")
    label = entry.get("id") if isinstance(entry.get("id"), str) else f"number {number}"

    def refuse(wanted: str) -> Exception:
        return make_error(SETTING, f"a list in which, for provider {label}, {wanted}")

    if unknown := sorted(set(entry) - set(KNOWN)):
        raise refuse(f"there is no field “{unknown[0]}” (known: {', '.join(KNOWN)})")
    for name in (*TEXTS, "groups_claim"):
        if not isinstance(entry.get(name, ""), str):
            raise refuse(f"“{name}” is text")
    for name in SWITCHES:
        if not isinstance(entry.get(name, False), bool):
            raise refuse(f"“{name}” is true or false")
    for name in LISTS:
        _require(_is_list_of_text(entry.get(name, [])), refuse(f"“{name}” is a list of texts"))
    for name in MAPS:
        _require(_is_map_of_text(entry.get(name, {})), refuse(f"“{name}” maps texts to texts"))
    _require(
        bool(ID.fullmatch(entry.get("id", ""))), refuse("“id” is lower-case letters, digits and -")
    )
    _require(entry.get("kind", "oidc") in KINDS, refuse(f"“kind” is {' or '.join(KINDS)}"))
    is_saml = entry.get("kind") == "saml"
    is_ldap = entry.get("kind") == "ldap"
    has_client = not (is_saml or is_ldap)
    _require(not has_client or bool(entry.get("client_id")), refuse("“client_id” is set"))
    if foreign := [name for name in ldap_server.FIELDS if name in entry and not is_ldap]:
        raise refuse(f"there is no “{foreign[0]}”, which is for the kind ldap")
    for domain in entry.get("allowed_domains", []):
        _require(bool(DOMAIN.fullmatch(domain.lower())), refuse("“allowed_domains” has host names"))
    if entry.get("kind", "oidc") == "oidc":
        _require(_is_issuer(entry.get("issuer", "")), refuse("“issuer” is an https address"))
    elif is_saml:
        _check_saml(entry, refuse)
    elif not is_ldap:
        has_claims = any(entry.get(name) for name in ("groups", "required_groups", "issuer"))
        _require(not has_claims, refuse("there is no issuer and are no groups, as GitHub has none"))
    return SignInProvider(
        id=entry["id"],
        name=entry.get("name") or entry["id"],
        kind=entry.get("kind", "oidc"),
        client_id=entry.get("client_id", ""),
        client_secret=_read_secret(entry, refuse) if has_client else "",
        issuer=entry.get("issuer", "") if is_saml else entry.get("issuer", "").rstrip("/"),
        sso_url=entry.get("sso_url", ""),
        certificates=_read_certificates(entry),
        attributes=entry.get("attributes", {}),
        scopes=tuple(entry.get("scopes", ())),
        allowed_domains=tuple(domain.lower() for domain in entry.get("allowed_domains", ())),
        groups_claim=entry.get("groups_claim") or "groups",
        required_groups=tuple(entry.get("required_groups", ())),
        required_claims=entry.get("required_claims", {}),
        groups=entry.get("groups", {}),
        ldap=read_ldap_server(entry, refuse) if is_ldap else None,
        **{name: entry.get(name, False) for name in SWITCHES},
    )


def _check_saml(entry: Mapping[str, Any], refuse: Any) -> None:
    _require(bool(entry.get("issuer")), refuse("“issuer” is the entity id of the provider"))
    _require(_is_safe(entry.get("sso_url", "")), refuse("“sso_url” is an https address"))
    wanted = "“certificate” or the variable “certificate_env” has certificates as PEM"
    _require(bool(_read_certificates(entry)), refuse(wanted))
    _require(
        importlib.util.find_spec(SAML_LIBRARY) is not None,
        refuse("the kind saml needs the extra of that name (uv sync --extra saml)"),
    )


def _read_certificates(entry: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the certificates without the lines around them. A provider that changes its key has
    two for a while."""
    found = CERTIFICATE.findall(read_field(entry, "certificate"))
    return tuple("".join(each.split()) for each in found)


def _read_secret(entry: Mapping[str, Any], refuse: Any) -> str:
    secret = read_field(entry, "client_secret")
    _require(bool(secret), refuse("“client_secret” or the variable “client_secret_env” is set"))
    return secret


def _require(is_right: bool, error: Exception) -> None:
    if not is_right:
        raise error


def _is_list_of_text(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) and each for each in value)


def _is_map_of_text(value: Any) -> bool:
    return isinstance(value, dict) and all(
        isinstance(each, str) and each for each in value.values()
    )


def _is_issuer(address: str) -> bool:
    parts = urlsplit(address)
    return _is_safe(address) and not parts.query and not parts.fragment


def _is_safe(address: str) -> bool:
    """Whether this is an https address, or an http address of this machine, for trials."""
    parts = urlsplit(address)
    is_safe = parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in LOOPBACK)
    return is_safe and bool(parts.hostname)
