"""What a test of the connection sees of a service's door: its address, and what it asks of those
who come, at discovery and at the first call after it."""

from collections.abc import Iterable

import anyio
import mcp_types as types
from mcp import MCPError

from . import builtin
from .client import Connection, Manner, connect
from .errors import OperationError
from .limits import LIMITS
from .models import Service
from .network import check_url, is_allowed, vetted_addresses
from .results import Step, storable
from .wire import ExchangeRecord, Wire

STRANGER_SECONDS = 10.0
# Everything before the tools are listed: the SSE transport opens with a request without a body.
_DISCOVERY = ("server/discover", "initialize", "notifications/initialized", "")
_FIRST_CALL = ("tools/list",)


async def address_step(service: Service) -> Step:
    """Where the service's host name leads now."""
    if builtin.is_builtin(service.url):
        return Step(name="Address", detail="This application serves it itself.")
    url = check_url(service.url, allows_private=True)
    port = url.port or (443 if url.scheme == "https" else 80)
    try:
        found = await vetted_addresses(url.host, port, allows_private=True)
    except OperationError as error:
        return Step(name="Address", detail=f"{url.host}: {error.message}")
    is_inside = not all(is_allowed(address, allows_private=False) for address in found)
    places = ", ".join(str(address) for address in found[: LIMITS.addresses_tried])
    where = "in your own network" if is_inside else "on the Internet"
    return Step(name="Address", detail=f"{url.host}, port {port}: {places}, {where}")


async def met_as_stranger(service: Service) -> list[ExchangeRecord]:
    """What the service answers to somebody who shows nothing. It may fail: that is the question."""
    wire = Wire()
    manner = Manner(as_stranger=True, total_seconds=STRANGER_SECONDS, wire=wire)
    try:
        async with connect(service, None, "test_connection", manner) as connection:
            await connection.client.list_tools()
    except OperationError:
        pass
    return wire.exchanges


def sign_in_steps(exchanges: Iterable[ExchangeRecord]) -> tuple[Step, Step]:
    """What a stranger is asked for, at discovery and when the tools are listed."""
    seen = list(exchanges)
    return (
        Step(name="Sign-in at discovery", detail=_asked(seen, _DISCOVERY)),
        Step(name="Sign-in at the first call", detail=_asked(seen, _FIRST_CALL)),
    )


def _asked(exchanges: list[ExchangeRecord], methods: tuple[str, ...]) -> str:
    there = [each for each in exchanges if each.rpc_method in methods and each.method != "DELETE"]
    for exchange in there:
        challenge = exchange.response_headers.get("www-authenticate", "")
        if exchange.status == 401 or (exchange.status == 403 and challenge):
            said = str(storable(challenge[: LIMITS.log_characters]))
            return f"asked for: {said}" if said else "asked for, without saying how"
    return "not asked for" if any(each.status for each in there) else "not reached"


async def ask_for_log(connection: Connection) -> None:
    """A handshake-era service that keeps a log is told what to tell of it; a modern one reads it in
    each request."""
    client, level = connection.client, connection.log.level
    is_handshake = client.session.initialize_result is not None
    if level is None or not is_handshake or client.server_capabilities.logging is None:
        return
    params = types.SetLevelRequestParams(level=level)
    try:
        with anyio.fail_after(STRANGER_SECONDS):
            request = types.SetLevelRequest(params=params)
            await client.session.send_request(request, types.EmptyResult)
    except (MCPError, TimeoutError):
        return  # it says what it likes then
