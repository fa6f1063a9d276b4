"""Sign-in with the name and password of an LDAP directory, on top of django-auth-ldap and
django-allauth.

django-auth-ldap finds the entry, checks the password and reads the groups. Added here: an account
belongs to the lasting id of an entry and not to its name, a directory that fails is not a wrong
password, and the same rules of admission as for other providers. It is imported only where a
provider of this kind is configured.
"""

import logging
import re
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import ldap
from allauth.socialaccount.models import SocialAccount
from allauth.socialaccount.providers.base import Provider, ProviderAccount
from django.conf import settings
from django.contrib.auth.backends import BaseBackend
from django.http import HttpRequest
from django_auth_ldap import backend, config

from chatapp.models import Member
from chatapp.server.database import release_connection
from chatapp.server.ldap_server import GROUP_TYPES, LDAPServer
from chatapp.server.sign_in_providers import SignInProvider, find_ldap_provider

from .openid import NamedProvider

logger = logging.getLogger(__name__)
# Where directories say who a person is, unless the setting `attributes` names another attribute.
ATTRIBUTES = {
    "uid": ("entryUUID", "objectGUID", "ipaUniqueID", "nsUniqueId"),
    "username": ("sAMAccountName", "uid"),
    "email": ("mail",),
    "first_name": ("givenName",),
    "last_name": ("sn",),
}
# What posixGroup compares.
POSIX_ATTRIBUTES = ("uid", "gidNumber")
# What a username here cannot have. For such a name, allauth would take a first name, which may be
# the username of somebody else in the directory.
NOT_IN_NAMES = re.compile(r"[^\w.@+-]")
MAX_NAME = 150
# Answers of a directory about this person and their password. Any other one is a failure.
REFUSALS = (
    ldap.INVALID_CREDENTIALS,
    ldap.INAPPROPRIATE_AUTH,
    ldap.INVALID_DN_SYNTAX,
    ldap.UNWILLING_TO_PERFORM,
    ldap.CONSTRAINT_VIOLATION,
)
# After one of these, the next address is tried.
OUTAGES = (ldap.SERVER_DOWN, ldap.CONNECT_ERROR, ldap.TIMEOUT)


class EntryError(Exception):
    """An entry that signs nobody in. The text is for the log of the server."""


class LDAPRequests(Provider):  # type: ignore[misc]  # django-allauth has no types
    id = "ldap"
    account_class = ProviderAccount

    def __init__(self, request: HttpRequest, app: Any) -> None:
        super().__init__(request, app=app)
        self.name = app.name


class LDAP(NamedProvider, LDAPRequests):
    """Reads claims, which are the attributes of the entry by the names that allauth uses."""

    def extract_uid(self, claims: dict[str, Any]) -> str:
        return str(claims["uid"])

    def extract_common_fields(self, claims: dict[str, Any]) -> dict[str, Any]:
        names = ("username", "email", "first_name", "last_name")
        return {name: claims[name] for name in names if claims.get(name)}


class LDAPBackend(BaseBackend):
    """Checks a name and a password. The member that it returns may be new, and then is not stored:
    `complete_ldap_login` decides whether somebody may come in."""

    def authenticate(
        self,
        request: HttpRequest | None,
        username: str | None = None,
        password: str | None = None,
        **_credentials: Any,
    ) -> Member | None:
        provider = find_ldap_provider(settings.SIGN_IN_PROVIDERS)
        # An empty password binds nobody, and a directory answers it with success (RFC 4513,
        # section 5.1.2). Some directories read a password up to its first zero byte.
        if provider is None or not username or not password or "\0" in username + password:
            return None
        # The directory may take seconds, in which other requests need the connection.
        release_connection()
        try:
            claims = check_password(provider, username, password)
        except (ldap.LDAPError, EntryError, ValueError) as error:  # ValueError: a wrong `ca_file`
            # Not raised: a wrong password for an account of this server has to be counted as well.
            logger.warning("%s could not check a password: %s", provider.id, error)
            if request is not None:
                request.failed_directory = provider.name  # type: ignore[attr-defined]
            return None
        return _find_member(provider, claims) if claims is not None else None


def _find_member(provider: SignInProvider, claims: dict[str, Any]) -> Member:
    accounts = SocialAccount.objects.filter(provider=provider.id, uid=claims["uid"])
    account = accounts.select_related("user").first()
    member: Member = account.user if account else Member(username=claims["username"])
    member.ldap_claims = claims  # type: ignore[attr-defined]  # for this request only
    return member


def check_password(provider: SignInProvider, name: str, password: str) -> dict[str, Any] | None:
    """Return what the directory says about this person, or None if name and password do not fit.
    Raises LDAPError or EntryError if they could not be checked."""
    problem: Any = None
    for address in provider.ldap.addresses if provider.ldap else ():
        attempt = Attempt()
        person = EntryReader(provider, address).authenticate(attempt, name, password)
        problem = attempt.problem
        if problem is None:
            claims: dict[str, Any] | None = person and person.claims
            return claims
        if not isinstance(problem, OUTAGES):
            break
    raise problem or EntryError("There is no address.")


@dataclass(slots=True)
class Attempt:
    """One check of a password. django-auth-ldap takes it for the request, and hands it to
    `_note_problem`."""

    problem: Any = None


def _note_problem(context: str, request: Attempt, exception: Any, **_facts: Any) -> None:
    """Tell a failure from a wrong password, which django-auth-ldap answers alike."""
    if context != "authenticate" or not isinstance(exception, REFUSALS):
        request.problem = exception


class Person:
    """Whom django-auth-ldap takes for its user. It adds attributes of its own."""

    def __init__(self, claims: dict[str, Any]) -> None:
        self.claims = claims


class EntryReader(backend.LDAPBackend):  # type: ignore[misc]  # django-auth-ldap has no types
    """Reads the entry of a person whose password is right, and makes no account."""

    def __init__(self, provider: SignInProvider, address: str) -> None:
        self.provider = provider
        self.settings = config.LDAPSettings(defaults=_build_settings(provider, address))

    def authenticate_ldap_user(self, ldap_user: Any, password: str) -> Any:
        try:
            return super().authenticate_ldap_user(ldap_user, password)
        finally:
            # The objects of the library refer to each other, so that the connection would stay
            # open until garbage is collected.
            if ldap_user._connection is not None:
                with suppress(ldap.LDAPError):
                    ldap_user._connection.unbind_s()

    def get_or_build_user(self, username: str, ldap_user: Any) -> tuple[Person, bool]:
        try:
            return Person(_read_claims(self.provider, username, ldap_user)), False
        except REFUSALS as error:
            # The password was right, so this refuses the account of this server.
            raise EntryError(_describe(error)) from error


backend.ldap_error.connect(_note_problem, sender=EntryReader, dispatch_uid="note-ldap-problem")


def _read_claims(provider: SignInProvider, typed_name: str, ldap_user: Any) -> dict[str, Any]:
    """Return the attributes of the entry by the names that allauth uses, and the groups."""
    attributes = ldap_user.attrs or {}
    claims: dict[str, Any] = {"login": typed_name}
    for name in ATTRIBUTES:
        if name != "uid":
            values = _find_values(provider, attributes, name)[1]
            claims[name] = next((each for each in values if isinstance(each, str)), "")
    claims["uid"] = _read_id(*_find_values(provider, attributes, "uid"))
    claims["username"] = NOT_IN_NAMES.sub("_", claims["username"] or typed_name)[:MAX_NAME]
    has_groups = provider.ldap is not None and provider.ldap.group_base
    claims["groups"] = sorted(filter(None, ldap_user.group_names)) if has_groups else []
    return claims


def _find_values(provider: SignInProvider, attributes: Any, name: str) -> tuple[str, list[Any]]:
    """Return the attribute that has this, and its values."""
    sources = _list_sources(provider, name)
    return next(((each, attributes[each]) for each in sources if attributes.get(each)), ("", []))


def _list_sources(provider: SignInProvider, name: str) -> tuple[str, ...]:
    return (provider.attributes[name],) if name in provider.attributes else ATTRIBUTES[name]


def _read_id(attribute: str, values: list[Any]) -> str:
    """Return the directory's id of the entry, which outlives its name. Several values have no
    order, so that one of them would not be an id."""
    if len(values) != 1:
        raise EntryError("The entry has no readable id, or several.")
    with suppress(ValueError):
        raw = values[0] if isinstance(values[0], bytes) else values[0].encode()
        is_binary = attribute.lower() == "objectguid"
        return str(UUID(bytes_le=raw)) if is_binary else str(raw.decode())
    raise EntryError("The id of the entry cannot be read.")


def build_login(
    request: Any, provider: LDAP, claims: dict[str, Any], process: str, target: str
) -> Any:
    """Return the sign-in, or the connection to an account, that these claims are for."""
    request.provider_claims = claims
    login = provider.sociallogin_from_response(request, claims)
    login.state = {"process": process, "next": target}
    return login


def find_problem(server: LDAPServer, address: str) -> str:
    """Connect to this address, sign in and look for the places of people and groups. Return what
    fails, if anything does."""
    connection = ldap.initialize(address)
    try:
        for option, value in _list_options(server):
            connection.set_option(option, value)
        if server.uses_start_tls:
            connection.start_tls_s()
        if server.bind_dn or server.user_base:
            connection.simple_bind_s(server.bind_dn, server.bind_password)
            for base in filter(None, (server.user_base, server.group_base)):
                connection.search_s(base, ldap.SCOPE_BASE, attrlist=["objectClass"])
        else:
            # It answers, and may let in nobody without a name.
            with suppress(*REFUSALS):
                connection.simple_bind_s()
    except (ldap.LDAPError, ValueError) as error:
        return _describe(error)
    finally:
        with suppress(ldap.LDAPError):
            connection.unbind_s()
    return ""


def _describe(error: Exception) -> str:
    """Return the kind of error, and what libldap says about it."""
    facts = error.args[0] if error.args and isinstance(error.args[0], dict) else {}
    said = (str(facts[name]) for name in ("desc", "info") if facts.get(name))
    return ": ".join((type(error).__name__, *said))


def _build_settings(provider: SignInProvider, address: str) -> dict[str, Any]:
    """Return the settings of django-auth-ldap, without its prefix."""
    server = provider.ldap
    if server is None:
        raise ValueError("The provider is of another kind.")
    wanted = [source for name in ATTRIBUTES for source in _list_sources(provider, name)]
    wanted += [each for each in POSIX_ATTRIBUTES if each not in wanted]
    found: dict[str, Any] = {
        "SERVER_URI": address,
        "START_TLS": server.uses_start_tls,
        "CONNECTION_OPTIONS": dict(_list_options(server)),
        "BIND_DN": server.bind_dn,
        "BIND_PASSWORD": server.bind_password,
        # Without a name for this server, a person reads their own entry and groups.
        "BIND_AS_AUTHENTICATING_USER": not server.bind_dn,
        "USER_ATTRLIST": wanted,
        "ALWAYS_UPDATE_USER": False,
    }
    if server.user_dn:
        found["USER_DN_TEMPLATE"] = server.user_dn
    else:
        found["USER_SEARCH"] = config.LDAPSearch(
            server.user_base, ldap.SCOPE_SUBTREE, server.user_filter, wanted
        )
    if server.group_base:
        found["GROUP_SEARCH"] = config.LDAPSearch(server.group_base, ldap.SCOPE_SUBTREE)
        found["GROUP_TYPE"] = getattr(config, GROUP_TYPES[server.group_type])()
    return found


def _list_options(server: LDAPServer) -> list[tuple[int, Any]]:
    """Return the options of a connection, which go before those of `ldap.conf` and the
    environment."""
    return [
        (ldap.OPT_NETWORK_TIMEOUT, server.timeout_seconds),
        (ldap.OPT_TIMEOUT, server.timeout_seconds),
        # Without it, libldap waits for ever, and with a whole core, for a server that is silent in
        # the TLS handshake. With it, libldap tries only one address.
        (ldap.OPT_CONNECT_ASYNC, 1),
        # A referral would send the password to a server that nobody named.
        (ldap.OPT_REFERRALS, 0),
        (ldap.OPT_X_TLS_REQUIRE_CERT, ldap.OPT_X_TLS_DEMAND),
        *([(ldap.OPT_X_TLS_CACERTFILE, server.ca_file)] if server.ca_file else []),
        # Only a new context reads the options above.
        (ldap.OPT_X_TLS_NEWCTX, 0),
    ]
