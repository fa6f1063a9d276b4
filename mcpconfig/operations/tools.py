"""The operations on a service. Each is flat: connect, act, disconnect."""

import inspect
import logging
import math
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any, cast

import mcp_types as types
from mcp import MCPError
from mcp.shared.dispatcher import ProgressFnT

from .acting import Acting
from .asking import ask
from .client import Connection, Manner, connect
from .doorstep import address_step, ask_for_log, met_as_stranger, sign_in_steps
from .elicitation import OnQuestion, demand_visits, pages_first, responses
from .errors import OperationError, malformed, start_over
from .intake import cut_result, sort_out, tool_result
from .limits import LIMITS
from .models import Service, ToolDefinition
from .paging import tool_pages
from .questions import requests_of, unanswerable
from .report import findings, report_of, steps_until
from .results import (
    Answer,
    CallOutcome,
    ConnectionReport,
    InputRequired,
    Listing,
    Progress,
    TaskStarted,
    Tool,
    storable,
)
from .task_extension import StartedTask
from .tasks import started as task_started
from .tool_request import listed, send_call
from .wire import Wire

logger = logging.getLogger(__name__)

OnProgress = Callable[[Progress], Awaitable[None] | None]


async def test_connection(service: Service, *, acting: Acting | None = None) -> ConnectionReport:
    """Connect as if for the first time, list what is offered, and report what was found.

    What is remembered stays until the service was reached anew. An OperationError names in `tried`
    the steps that were taken.
    """
    started = time.monotonic()
    wire = Wire()
    manner = Manner(is_first=True, log_level="info", wire=wire, asks_later=True, asks_now=True)
    try:
        async with connect(service, acting, "test_connection", manner) as connection:
            await ask_for_log(connection)
            found = await findings(connection, await _listing(connection))
            report = report_of(connection, found)
    except OperationError as error:
        error.tried = await steps_until(error, service, wire.exchanges)
        raise
    is_open = service.authentication == Service.Authentication.NONE
    door = sign_in_steps(wire.exchanges if is_open else await met_as_stranger(service))
    return replace(
        report,
        steps=(await address_step(service), *door, *report.steps),
        requests=len(wire.exchanges),
        duration_ms=_since(started),
    )


async def list_tools(
    service: Service, *, acting: Acting | None = None, refresh: bool = False
) -> list[Tool]:
    """The tools that the service offers now, without those that break a limit.

    `refresh` also finds out anew how the service is reached.
    """
    return (await fetch_listing(service, acting=acting, refresh=refresh)).tools


async def fetch_listing(
    service: Service,
    *,
    acting: Acting | None = None,
    refresh: bool = False,
    total_seconds: float | None = None,
) -> Listing:
    """As `list_tools`, with what was left out and how long the list stays fresh."""
    manner = Manner(is_first=refresh, total_seconds=total_seconds, asks_later=True, asks_now=True)
    return await ask(service, acting, "list_tools", _listing, manner)


async def _listing(connection: Connection) -> Listing:
    pages = await tool_pages(connection)
    fresh_seconds = LIMITS.fresh_seconds
    if pages and "ttl_ms" in pages[0].model_fields_set:
        fresh_seconds = pages[0].ttl_ms / 1000
    tools, left_out = sort_out([tool for page in pages for tool in page.tools])
    return Listing(tools=tools, left_out=left_out, fresh_seconds=fresh_seconds)


async def call_tool(
    service: Service,
    tool: ToolDefinition,
    arguments: dict[str, Any],
    *,
    acting: Acting | None = None,
    answers: Mapping[str, Answer] | None = None,
    request_state: str | None = None,
    on_progress: OnProgress | None = None,
    on_question: OnQuestion | None = None,
    meta: dict[str, Any] | None = None,
    total_seconds: float | None = None,
) -> CallOutcome | InputRequired | TaskStarted:
    """Run a tool once. It is sent at most once, whatever happens.

    Where the service asks something first, the call has not run, and the same one with `answers`
    and `request_state` goes on. A handshake-era service can want a page opened first in the same
    way; all else it asks while it runs: `on_question` answers, within its own bound, while the
    operation's deadline stands still.

    Nothing here or below sends a call again: not after a sign-in demand, a redirect, a header
    mismatch or a wrong memory of how the service is reached. The last one ends the call; the
    memory is dropped, and the next call negotiates before anything is sent. Where the service
    answered 400, 404, 405 or “unsupported version”, HTTP and the protocol say that the call was not
    processed, so that failure is definite and a person can run it again without a doubt.
    """
    began = time.monotonic()
    manner = Manner(
        tool=listed(tool),
        total_seconds=total_seconds,
        asks_later=True,
        asks_now=on_question is not None,
        on_question=on_question,
    )
    try:
        async with connect(service, acting, "call_tool", manner) as connection:
            outcome = await _call(
                connection,
                began,
                answers,
                name=tool.name,
                arguments=arguments,
                progress_callback=_told(on_progress) if on_progress else None,
                request_state=request_state,
                meta=cast(types.RequestParamsMeta, meta) if meta else None,
            )
    except OperationError as error:
        if request_state is not None and error.code == types.INVALID_PARAMS:
            raise start_over(error) from error
        raise
    return outcome


async def _call(
    connection: Connection, began: float, answers: Mapping[str, Answer] | None, **call: Any
) -> CallOutcome | InputRequired | TaskStarted:
    """A handshake-era service cannot be told what was answered: it takes the call once its pages
    have been opened, and has not run it before."""
    session = connection.client.session
    is_handshake = session.initialize_result is not None
    if is_handshake and answers:
        demand_visits(answers)
    try:
        answer = await send_call(
            session,
            input_responses=responses(answers) if answers and not is_handshake else None,
            **call,
        )
    except MCPError as error:
        pages = pages_first(error) if is_handshake else ()
        if not pages:
            raise
        return InputRequired(requests=pages, duration_ms=_since(began))
    return _outcome(answer, len(connection.wire.exchanges), _since(began))


def _since(began: float) -> int:
    return round((time.monotonic() - began) * 1000)


def _outcome(
    answer: types.Result, requests: int, duration_ms: int
) -> CallOutcome | InputRequired | TaskStarted:
    match answer:
        case types.CallToolResult():
            result = cut_result(tool_result(answer))
            return CallOutcome(result=result, requests=requests, duration_ms=duration_ms)
        case types.InputRequiredResult():
            return _question(answer, duration_ms)
        case StartedTask():
            return task_started(answer, duration_ms)
    raise malformed()


def _question(answer: types.InputRequiredResult, duration_ms: int) -> InputRequired:
    """The service's state goes back as it came, so it is kept whole or not at all."""
    state = answer.request_state
    if state is not None and (len(state) > LIMITS.state_characters or storable(state) != state):
        raise unanswerable("What it wants back with the answer cannot be kept.")
    asked = answer.model_dump(by_alias=True, mode="json").get("inputRequests")
    requests = requests_of(asked)
    return InputRequired(
        requests=requests,
        request_state=state,
        wait_seconds=0.0 if requests else LIMITS.poll_seconds,
        duration_ms=duration_ms,
    )


def _told(on_progress: OnProgress) -> ProgressFnT:
    """Progress within bounds: a service may say anything, and as a number also infinity."""

    async def tell(progress: float, total: float | None, message: str | None) -> None:
        said = " ".join((message or "").split())[: LIMITS.log_characters]
        told = on_progress(
            Progress(
                done=progress if math.isfinite(progress) else 0.0,
                total=total if total and math.isfinite(total) else None,
                message=storable(said),
            )
        )
        if inspect.isawaitable(told):
            await told

    return tell
