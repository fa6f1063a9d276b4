"""The report of a connection test: address, sign-in, protocol, lists and log of a service."""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import anyio
import mcp_types as types
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from mcp import MCPError

from mcpconfig.models import Service
from mcpconfig.net.addresses import check_url, is_allowed, resolve_vetted_addresses
from mcpconfig.net.wire import ExchangeRecord, Wire
from mcpconfig.session.client import Connection, ConnectionOptions, connect
from mcpconfig.session.sdk_errors import translate_error
from mcpconfig.values import builtin
from mcpconfig.values.errors import OperationError
from mcpconfig.values.limits import LIMITS
from mcpconfig.values.results import ConnectionReport, Listing, Step, make_storable
from mcpconfig.values.tool_tokens import estimate_tool_tokens

from .paging import fetch_prompts, fetch_resources, fetch_templates

PROBE_SECONDS = 10.0
# The methods before the tools are listed. The SSE transport opens with a request without a body.
_DISCOVERY = ("server/discover", "initialize", "notifications/initialized", "")
_FIRST_CALL = ("tools/list",)


@dataclass(frozen=True, slots=True, kw_only=True)
class ListCount:
    """The number of entries of a list, or why it is unknown; empty if the service declares no such
    list."""

    count: int | None = None
    said: str = ""


def format_listed(count: int) -> str:
    return _("%(count)s listed") % {"count": count}


def format_templates(count: int) -> str:
    return ngettext("%(count)s template", "%(count)s templates", count) % {"count": count}


async def count_entries(
    connection: Connection,
    listed: Callable[[Connection], Awaitable[Sequence[object]]],
    describe: Callable[[int], str],
) -> ListCount:
    """Count a list other than the tools. If it fails with a well-formed error, the rest of the
    service can still be tested."""
    try:
        count = len(await listed(connection))
    except (MCPError, OperationError) as error:
        failure = translate_error(error, connection.wire.evidence)
        if failure is None or failure.kind not in ("rpc_error", "too_large"):
            raise
        return ListCount(said=failure.message)
    return ListCount(count=count, said=describe(count))


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """The lists of a service."""

    listing: Listing
    resources: ListCount
    templates: ListCount
    prompts: ListCount


async def collect_findings(connection: Connection, listing: Listing) -> Findings:
    declared = connection.capabilities
    resources = templates = prompts = ListCount()
    if declared.resources is not None:
        resources = await count_entries(connection, fetch_resources, format_listed)
        templates = await count_entries(connection, fetch_templates, format_templates)
    if declared.prompts is not None:
        prompts = await count_entries(connection, fetch_prompts, format_listed)
    return Findings(listing=listing, resources=resources, templates=templates, prompts=prompts)


def build_report(connection: Connection, found: Findings) -> ConnectionReport:
    """Build the report while the connection is open. Cost, address and sign-in are added later."""
    server = connection.session.server_info
    return ConnectionReport(
        steps=_build_steps(connection, found),
        server_name=server.name if server else "",
        era=connection.era,
        transport=connection.transport,
        capabilities=_dump_capabilities(connection),
        tool_count=len(found.listing.tools),
        tool_tokens=estimate_tool_tokens(found.listing.tools),
        resource_count=found.resources.count,
        template_count=found.templates.count,
        prompt_count=found.prompts.count,
        instructions=shorten_instructions(connection),
        left_out=tuple(found.listing.left_out),
        log=tuple(connection.log.messages),
        requests=0,
        duration_ms=0,
    )


def _build_steps(connection: Connection, found: Findings) -> tuple[Step, ...]:
    """Describe the test in the order of its steps."""
    info = connection.session.server_info
    who = (
        f"{info.name} {info.version}".strip() if info else _("The service does not give its name.")
    )
    taken = [
        Step(name=_("Connect"), detail=str(Service.Transport(connection.transport).label)),
        Step(name=_("Agree on a protocol version"), detail=connection.era),
        Step(
            name=_("Identify the service"), detail=str(make_storable(who[: LIMITS.log_characters]))
        ),
    ]
    if text := shorten_instructions(connection):
        taken.append(Step(name=_("Read its instructions"), detail=text))
    taken.append(
        Step(
            name=_("List its capabilities"),
            detail=_describe_capabilities(_dump_capabilities(connection)),
        )
    )
    taken.append(Step(name=_("List tools"), detail=_describe_tools(found.listing)))
    if found.resources.said:
        said = f"{found.resources.said}, {found.templates.said}"
        taken.append(Step(name=_("List resources"), detail=said))
    if found.prompts.said:
        taken.append(Step(name=_("List prompts"), detail=found.prompts.said))
    taken += [
        Step(name=_("Log message (%(level)s)") % {"level": entry.level}, detail=entry.text)
        for entry in connection.log.messages
    ]
    return tuple(taken)


async def build_failed_steps(
    error: OperationError, service: Service, exchanges: Sequence[ExchangeRecord]
) -> tuple[tuple[str, str], ...]:
    """Describe a failed test: its steps so far, and the result of each way that was tried."""
    where = await describe_address(service)
    taken = [(where.name, where.detail)]
    if exchanges:
        taken += [(step.name, step.detail) for step in describe_sign_in_demands(exchanges)]
    answered = {each.rpc_method: each.status for each in exchanges if each.rpc_method}
    taken += [
        (_("Request %(method)s") % {"method": method}, _describe_answer(status))
        for method, status in answered.items()
    ]
    return (*taken, *(error.tried or ((_("Problem"), error.message),)))


def _describe_answer(status: int | None) -> str:
    return _("answered with HTTP %(status)s") % {"status": status} if status else _("no answer")


def _dump_capabilities(connection: Connection) -> dict[str, Any]:
    declared = connection.capabilities
    return declared.model_dump(by_alias=True, mode="json", exclude_none=True)


def _describe_capabilities(capabilities: dict[str, Any]) -> str:
    """Return the names of the declared capabilities, each with its parts."""
    said = []
    for name, how in capabilities.items():
        parts = sorted(part for part, is_there in how.items() if is_there)
        said.append(f"{name} ({', '.join(parts)})" if parts else name)
    text = ", ".join(said)[: LIMITS.log_characters]
    return str(make_storable(text)) or _("None.")


def shorten_instructions(connection: Connection) -> str:
    """Return the beginning of the service's instructions for models, on one line."""
    text = " ".join((connection.session.instructions or "").split())
    most = LIMITS.instructions_characters
    return str(make_storable(text if len(text) <= most else f"{text[: most - 1]}…"))


def _describe_tools(listing: Listing) -> str:
    tokens = estimate_tool_tokens(listing.tools)
    return _("%(listed)s listed, %(left_out)s left out, about %(tokens)s tokens") % {
        "listed": len(listing.tools),
        "left_out": len(listing.left_out),
        "tokens": tokens,
    }


async def describe_address(service: Service) -> Step:
    """Return the addresses of the host, as a step."""
    if builtin.is_builtin(service.url):
        return Step(name=_("Address"), detail=_("Built into Countersign."))
    url = check_url(service.url, allows_private=True)
    port = url.port or (443 if url.scheme == "https" else 80)
    try:
        found = await resolve_vetted_addresses(url.host, port, allows_private=True)
    except OperationError as error:
        return Step(name=_("Address"), detail=f"{url.host}: {error.message}")
    is_inside = not all(is_allowed(address, allows_private=False) for address in found)
    places = ", ".join(str(address) for address in found[: LIMITS.addresses_tried])
    where = _("in your own network") if is_inside else _("on the Internet")
    return Step(
        name=_("Address"),
        detail=_("%(host)s, port %(port)s: %(addresses)s, %(place)s")
        % {"host": url.host, "port": port, "addresses": places, "place": where},
    )


async def probe_without_credentials(service: Service) -> list[ExchangeRecord]:
    """Return the exchanges of a connection without credentials. It may fail; the failure is part of
    the result."""
    wire = Wire()
    options = ConnectionOptions(without_credentials=True, total_seconds=PROBE_SECONDS, wire=wire)
    try:
        async with connect(service, None, "test_connection", options) as connection:
            await connection.session.list_tools()
    except OperationError:
        pass
    return wire.exchanges


def describe_sign_in_demands(exchanges: Iterable[ExchangeRecord]) -> tuple[Step, Step]:
    """Return whether the service asks for a sign-in, at discovery and when the tools are listed."""
    seen = list(exchanges)
    return (
        Step(name=_("Sign-in when connecting"), detail=_describe_demand(seen, _DISCOVERY)),
        Step(name=_("Sign-in at the first call"), detail=_describe_demand(seen, _FIRST_CALL)),
    )


def _describe_demand(exchanges: list[ExchangeRecord], methods: tuple[str, ...]) -> str:
    there = [each for each in exchanges if each.rpc_method in methods and each.method != "DELETE"]
    for exchange in there:
        challenge = exchange.response_headers.get("www-authenticate", "")
        if exchange.status == 401 or (exchange.status == 403 and challenge):
            said = str(make_storable(challenge[: LIMITS.log_characters]))
            return (
                _("requested: %(challenge)s") % {"challenge": said}
                if said
                else _("requested, without details")
            )
    return _("not requested") if any(each.status for each in there) else _("not reached")


async def request_log(connection: Connection) -> None:
    """Set the log level at a handshake-era service that has a log. A modern service gets it with
    each request."""
    session, level = connection.session, connection.log.level
    is_handshake = session.initialize_result is not None
    if level is None or not is_handshake or connection.capabilities.logging is None:
        return
    params = types.SetLevelRequestParams(level=level)
    try:
        with anyio.fail_after(PROBE_SECONDS):
            request = types.SetLevelRequest(params=params)
            await session.send_request(request, types.EmptyResult)
    except (MCPError, TimeoutError):
        return  # the service then sends its default level
