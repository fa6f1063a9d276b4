"""The check of an address before a service is added. Each step uses a connection of its own through
the guarded network code, and nothing is stored."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import anyio
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from mcp.shared.auth import OAuthClientInformationFull

from mcpconfig.models import Service
from mcpconfig.net.addresses import check_url, is_allowed, resolve_vetted_addresses
from mcpconfig.net.wire import ExchangeRecord, Wire
from mcpconfig.oauth.servers.client_metadata import build_redirect_uri, get_document_url
from mcpconfig.oauth.servers.client_registration import request_registration
from mcpconfig.oauth.servers.discovery import Authority, discover, fetch_resource, require_pkce
from mcpconfig.oauth.servers.http import OAuthHttp, open_oauth_http
from mcpconfig.oauth.servers.scopes import choose_scope
from mcpconfig.secrets.credentials import RequestCredentials
from mcpconfig.services.service_names import propose_name
from mcpconfig.session.client import ConnectionOptions, connect
from mcpconfig.values import builtin
from mcpconfig.values.challenge import Challenge
from mcpconfig.values.errors import HOST_CHECK_HINT, OperationError, timeout_error
from mcpconfig.values.limits import LIMITS
from mcpconfig.values.masking import list_secret_forms, mask_secrets
from mcpconfig.values.probe import ProbeReport, ProbeStep, Registration, StepName
from mcpconfig.values.results import Listing, make_storable
from mcpconfig.values.tool_tokens import estimate_tool_tokens

from .tools import read_listing

Authentication = Service.Authentication

# The longest time of one connection, and of the whole check.
CONNECTION_SECONDS = 12.0
PROBE_SECONDS = 45.0
MAX_RAW_CHARACTERS = 1_000
# The name under which operations on a service that is not stored are counted.
METRIC_NAME = "draft"


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """The report, and the client that was registered, if one was."""

    report: ProbeReport
    registration: Registration | None = None


@dataclass(slots=True, kw_only=True)
class _Visit:
    """One connection and what it found, as far as it came."""

    wire: Wire = field(default_factory=Wire)
    transport: str = ""
    era: str = ""
    has_handshake: bool = False
    name: str = ""
    version: str = ""
    listing: Listing | None = None
    error: OperationError | None = None
    milliseconds: int = 0

    @property
    def is_refused(self) -> bool:
        """Whether the service asked for a sign-in."""
        return self.challenged is not None

    @property
    def challenged(self) -> ExchangeRecord | None:
        return next((each for each in self.wire.exchanges if _asks_for_sign_in(each)), None)

    @property
    def challenge(self) -> Challenge:
        found = self.challenged
        header = found.response_headers.get("www-authenticate", "") if found else ""
        return Challenge.read([header])


@dataclass(frozen=True, slots=True, kw_only=True)
class _SignIn:
    """What the service asks for, and the steps that found it."""

    steps: tuple[ProbeStep, ...]
    authentication: str = ""
    scopes: str = ""
    registration: Registration | None = None


async def probe_service(
    service: Service,
    credentials: RequestCredentials | None,
    *,
    base_url: str,
    taken_names: frozenset[str] = frozenset(),
    known: Registration | None = None,
) -> Probe:
    """Check the address of an unsaved service.

    The first connection sends no credentials, so that the report says what the service asks for.
    If `credentials` are given, a second one sends them. `known` is a client that an earlier check
    registered; it is used again.
    """
    began = time.monotonic()
    address = await _check_address(service)
    if address.state == "failed":
        rest: tuple[StepName, ...] = ("transport", "era", "challenge", "name", "tools", "tokens")
        return Probe(
            report=ProbeReport(
                steps=(address, *(_postpone(name) for name in rest)),
                name=service.name or propose_name(service.url, "", taken_names),
                milliseconds=_count_milliseconds(began),
            )
        )
    with anyio.move_on_after(PROBE_SECONDS) as deadline:
        without = await _visit(service, None)
        best = await _visit(service, credentials) if credentials else without
        name = service.name or propose_name(service.url, best.name or without.name, taken_names)
        redirect = build_redirect_uri(Service(name=name), base_url)
        sign_in = await _check_sign_in(service, without, redirect, known)
        steps = (
            address,
            *_describe_connection(without, best),
            *sign_in.steps,
            _describe_name(name, best if best.name else without),
            *_describe_tools(without, best, has_credentials=credentials is not None),
        )
    if deadline.cancelled_caught:
        late = timeout_error()
        steps = (address, _fail("transport", late, _count_milliseconds(began)))
        return Probe(
            report=ProbeReport(
                steps=steps, name=service.name, milliseconds=_count_milliseconds(began)
            )
        )
    listing = best.listing
    return Probe(
        report=ProbeReport(
            steps=steps,
            name=name,
            title=str(make_storable((best.name or without.name)[:100])),
            authentication=sign_in.authentication,
            scopes=sign_in.scopes,
            redirect_uri=redirect,
            tools=tuple(listing.tools) if listing else None,
            left_out=tuple(listing.left_out) if listing else (),
            fresh_seconds=listing.fresh_seconds if listing else 0.0,
            milliseconds=_count_milliseconds(began),
        ),
        registration=sign_in.registration,
    )


async def list_tools_of_draft(service: Service, credentials: RequestCredentials | None) -> Listing:
    """Return the tools of an unsaved service, over a connection of its own."""
    visit = await _visit(service, credentials)
    if visit.listing is None:
        raise visit.error or timeout_error()
    return visit.listing


async def _visit(service: Service, credentials: RequestCredentials | None) -> _Visit:
    """Connect once and list the tools. A failure is a part of the result."""
    visit, began = _Visit(), time.monotonic()
    options = ConnectionOptions(
        renegotiates=True,
        without_credentials=credentials is None,
        credentials=credentials,
        total_seconds=CONNECTION_SECONDS,
        answers_between_calls=True,
        answers_during_call=True,
        wire=visit.wire,
    )
    try:
        async with connect(_copy(service), None, "test_connection", options) as connection:
            visit.transport, visit.era = connection.transport, connection.era
            visit.has_handshake = connection.session.initialize_result is not None
            if (server := connection.session.server_info) is not None:
                visit.name, visit.version = server.title or server.name, server.version
            visit.listing = await read_listing(connection)
    except OperationError as error:
        visit.error = error
    visit.milliseconds = _count_milliseconds(began)
    return visit


def _copy(service: Service) -> Service:
    """Return the service as it is before its sign-in is chosen. What a connection remembers stays
    in the copy."""
    return Service(
        name=METRIC_NAME,
        url=service.url,
        transport=service.transport,
        authentication=Authentication.NONE,
        allows_private_addresses=service.allows_private_addresses,
        owner=service.owner,
    )


# --- address -------------------------------------------------------------------------------------
async def _check_address(service: Service) -> ProbeStep:
    began = time.monotonic()
    if builtin.is_builtin(service.url):
        return ProbeStep(name="address", state="passed", detail=_("Built into Countersign."))
    allows_private = service.allows_private_addresses and not service.is_personal
    try:
        url = check_url(service.url, allows_private=allows_private)
        port = url.port or (443 if url.scheme == "https" else 80)
        found = await resolve_vetted_addresses(url.host, port, allows_private=allows_private)
    except OperationError as error:
        return _fail("address", error, _count_milliseconds(began))
    is_public = all(is_allowed(address, allows_private=False) for address in found)
    addresses = ", ".join(str(each) for each in found[: LIMITS.addresses_tried])
    values = {"host": url.host if addresses == url.host else f"{url.host} ({addresses})"}
    text = (
        _("%(host)s is a public address.") if is_public else _("%(host)s is in your own network.")
    )
    return ProbeStep(
        name="address",
        state="passed",
        detail=text % values,
        milliseconds=_count_milliseconds(began),
    )


# --- connection ----------------------------------------------------------------------------------
def _describe_connection(without: _Visit, best: _Visit) -> tuple[ProbeStep, ProbeStep]:
    """Describe the transport and the protocol version, from the connection that came further."""
    visit = best if best.transport else without
    if visit.transport:
        version = {"version": visit.era}
        era = (
            _("Protocol %(version)s, with a handshake.")
            if visit.has_handshake
            else _("Protocol %(version)s, without a handshake.")
        )
        return (
            ProbeStep(
                name="transport",
                state="passed",
                detail=f"{Service.Transport(visit.transport).label}.",
                milliseconds=visit.milliseconds,
            ),
            ProbeStep(name="era", state="passed", detail=era % version),
        )
    if without.is_refused and best.is_refused:
        detail = _("The service answers and asks for a sign-in.")
        return (
            ProbeStep(
                name="transport", state="passed", detail=detail, milliseconds=visit.milliseconds
            ),
            _postpone("era", _("Known after the first sign-in.")),
        )
    error = visit.error or timeout_error()
    return _fail("transport", error, visit.milliseconds, visit.wire), _postpone("era")


def _describe_name(name: str, visit: _Visit) -> ProbeStep:
    values = {
        "server": str(make_storable(f"{visit.name} {visit.version}".strip()[:200])),
        "prefix": f"{name}_",
    }
    text = (
        _("%(server)s. Tool names start with %(prefix)s")
        if visit.name
        else _("The service has not given its name. Tool names start with %(prefix)s")
    )
    return ProbeStep(name="name", state="passed" if visit.name else "later", detail=text % values)


def _describe_tools(
    without: _Visit, best: _Visit, *, has_credentials: bool
) -> tuple[ProbeStep, ProbeStep]:
    listing = best.listing
    if listing is None:
        if best.is_refused and not has_credentials:
            detail = _("Listed after the first sign-in. Confirm them then.")
            known_later = _postpone("tokens", _("Known after the first sign-in."))
            return _postpone("tools", detail), known_later
        if not best.transport and not best.is_refused:
            return _postpone("tools"), _postpone("tokens")
        error = best.error or timeout_error()
        failed = _fail("tools", error, best.milliseconds, best.wire)
        return failed, _postpone("tokens")
    count = len(listing.tools)
    text = ngettext("%(count)s tool", "%(count)s tools", count) % {"count": count}
    how = _("listed without sign-in") if without.listing else _("listed with these credentials")
    skipped = ""
    if listing.left_out:
        names = ", ".join(tool.name for tool in listing.left_out[:5])
        skipped = " " + _("Left out: %(name)s. %(reason)s") % {
            "name": names,
            "reason": listing.left_out[0].reason,
        }
    tokens = estimate_tool_tokens(listing.tools)
    return (
        ProbeStep(
            name="tools",
            state="passed",
            detail=f"{text}, {how}.{skipped}",
            milliseconds=best.milliseconds,
        ),
        ProbeStep(
            name="tokens",
            state="passed",
            detail=_("About %(tokens)s tokens in each request with all of its tools.")
            % {"tokens": tokens},
        ),
    )


# --- sign-in -------------------------------------------------------------------------------------
async def _check_sign_in(
    service: Service, visit: _Visit, redirect: str, known: Registration | None
) -> _SignIn:
    """Describe what the service asks for, and register at its authorization server if it has
    one."""
    began = time.monotonic()
    if not visit.is_refused and not visit.transport:
        return _SignIn(steps=(_postpone("challenge"),))
    try:
        async with open_oauth_http(_copy(service), "discover_sign_in") as http:
            if not visit.is_refused and not await _has_metadata(http):
                return _describe_open(visit, began)
            authority = await discover(http, visit.challenge, set())
            require_pkce(authority)
    except OperationError as error:
        if not visit.is_refused:
            return _describe_open(visit, began)
        return _SignIn(steps=(_fail("challenge", error, _count_milliseconds(began)),))
    if not authority.is_announced:
        return _describe_token(visit, began)
    scope = choose_scope(service, visit.challenge, authority, None)
    when = (
        _("asked for when connecting")
        if visit.is_refused and not visit.transport
        else _("asked for when the tools are listed")
        if visit.is_refused
        else _("not needed to list the tools")
    )
    step = ProbeStep(
        name="challenge",
        state="passed",
        detail=_("OAuth, %(when)s. The authorization server is %(server)s.")
        % {"when": when, "server": authority.issuer},
        raw=_quote_challenge(visit),
        milliseconds=_count_milliseconds(began),
    )
    registered, registration = await _check_registration(service, authority, redirect, scope, known)
    return _SignIn(
        steps=(step, registered),
        authentication=Authentication.OAUTH_USER,
        scopes=scope,
        registration=registration,
    )


async def _has_metadata(http: OAuthHttp) -> bool:
    """Whether the service says where to sign in, although it listed its tools for anyone."""
    return await fetch_resource(http, Challenge()) is not None


def _describe_open(visit: _Visit, began: float) -> _SignIn:
    detail = _("The service asks for no sign-in to list its tools.")
    step = ProbeStep(
        name="challenge",
        state="passed",
        detail=detail,
        milliseconds=_count_milliseconds(began),
    )
    return _SignIn(steps=(step,), authentication=Authentication.NONE)


def _describe_token(visit: _Visit, began: float) -> _SignIn:
    step = ProbeStep(
        name="challenge",
        state="passed",
        detail=_("The service asks for a token and names no authorization server."),
        raw=_quote_challenge(visit),
        fix=_("Choose a bearer token or headers below, enter them, and check again."),
        milliseconds=_count_milliseconds(began),
    )
    return _SignIn(steps=(step,), authentication=Authentication.BEARER)


async def _check_registration(
    service: Service, authority: Authority, redirect: str, scope: str, known: Registration | None
) -> tuple[ProbeStep, Registration | None]:
    """Find out which client Countersign is at this authorization server, in the order in which a
    sign-in does."""
    began = time.monotonic()
    metadata = authority.metadata
    if service.client_id:
        detail = _("By hand, with the client ID %(client)s.") % {"client": service.client_id}
        return _pass_registration(detail, began), None
    if metadata.client_id_metadata_document_supported and get_document_url():
        detail = _("By the client metadata document %(url)s.") % {"url": get_document_url()}
        return _pass_registration(detail, began), None
    if known is not None and (known.issuer, known.redirect_uri) == (authority.issuer, redirect):
        detail = _("Registered as %(client)s.") % {"client": known.answer.get("client_id", "")}
        return _pass_registration(detail, began), known
    by_hand = _(
        "Register Countersign there with the redirect URL below. Then enter its client ID and "
        "secret, and check again."
    )
    if metadata.registration_endpoint is None:
        step = ProbeStep(
            name="registration",
            state="failed",
            detail=_("The authorization server doesn’t let Countersign register itself."),
            raw=_("Its metadata has no registration_endpoint."),
            fix=by_hand,
            milliseconds=_count_milliseconds(began),
        )
        return step, None
    try:
        async with open_oauth_http(_copy(service), "register_client") as http:
            answer = await request_registration(http, authority, redirect, scope)
    except OperationError as error:
        error.hint = by_hand
        return _fail("registration", error, _count_milliseconds(began)), None
    detail = _("Registered as %(client)s.") % {"client": answer.client_id}
    registration = Registration(
        issuer=authority.issuer,
        redirect_uri=redirect,
        scope=scope,
        answer=_dump(answer),
    )
    return _pass_registration(detail, began), registration


def _dump(answer: OAuthClientInformationFull) -> dict[str, Any]:
    dumped: dict[str, Any] = answer.model_dump(by_alias=True, mode="json", exclude_none=True)
    return dumped


def _pass_registration(detail: str, began: float) -> ProbeStep:
    return ProbeStep(
        name="registration",
        state="passed",
        detail=str(make_storable(detail)),
        milliseconds=_count_milliseconds(began),
    )


# --- failures ------------------------------------------------------------------------------------
def _fail(
    name: StepName,
    error: OperationError,
    milliseconds: int,
    wire: Wire | None = None,
) -> ProbeStep:
    """Describe a failed step: its reason, the raw answers, and what to do."""
    raw = [f"{way}: {said}" for way, said in error.tried]
    if wire is not None:
        failed = (each for each in wire.exchanges if each.status is None or each.is_refusal)
        raw += [_quote_exchange(each, wire.secrets) for each in failed]
    fix = str(error.hint)
    if error.status == 403 and str(HOST_CHECK_HINT) not in fix:
        fix = f"{fix} {HOST_CHECK_HINT}"
    return ProbeStep(
        name=name,
        state="failed",
        detail=error.message,
        raw=str(make_storable("\n".join(dict.fromkeys(raw))[:MAX_RAW_CHARACTERS])),
        fix=fix.strip(),
        milliseconds=milliseconds,
    )


def _quote_exchange(exchange: ExchangeRecord, secrets: Sequence[str]) -> str:
    """Return the request and its answer, without these secrets, which a server may repeat."""
    asked = f"{exchange.method} {exchange.url}"
    if exchange.status is None:
        return f"{asked}\n{_('no answer')}"
    said = exchange.describe_refusal(secrets)
    challenge = exchange.response_headers.get("www-authenticate", "")
    challenge = mask_secrets(challenge, list_secret_forms(secrets))
    parts = [str(exchange.status), said, challenge and f"WWW-Authenticate: {challenge}"]
    return f"{asked}\n{' '.join(part for part in parts if part)}"


def _quote_challenge(visit: _Visit) -> str:
    found = visit.challenged
    return str(make_storable(_quote_exchange(found, ())[:MAX_RAW_CHARACTERS])) if found else ""


def _asks_for_sign_in(exchange: ExchangeRecord) -> bool:
    if exchange.method == "DELETE":
        return False
    challenge = exchange.response_headers.get("www-authenticate", "")
    return exchange.status == 401 or (exchange.status == 403 and bool(challenge))


def _postpone(name: StepName, detail: str = "") -> ProbeStep:
    return ProbeStep(
        name=name, state="later", detail=detail or _("Not checked, because an earlier step failed.")
    )


def _count_milliseconds(began: float) -> int:
    return round((time.monotonic() - began) * 1000)
