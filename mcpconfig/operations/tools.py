"""The operations on the tools of a service, and the connection test. Each is flat: connect, act,
disconnect."""

import inspect
import logging
import math
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any, cast

import mcp_types as types
from django.utils.translation import gettext as _
from mcp import MCPError
from mcp.shared.dispatcher import ProgressFnT

from mcpconfig.models import Service, ToolDefinition
from mcpconfig.net.wire import Wire
from mcpconfig.operations.connection_report import (
    build_failed_steps,
    build_report,
    collect_findings,
    describe_address,
    describe_sign_in_demands,
    probe_without_credentials,
    request_log,
)
from mcpconfig.operations.paging import fetch_tool_pages
from mcpconfig.operations.safe_operations import run_safely
from mcpconfig.operations.tasks import parse_started_task as task_started
from mcpconfig.operations.tool_parsing import limit_result, parse_result, parse_tools
from mcpconfig.session.client import Connection, ConnectionOptions, connect
from mcpconfig.session.elicitation import (
    OnQuestion,
    build_responses,
    check_pages_opened,
    parse_required_pages,
)
from mcpconfig.session.tool_request import build_listed_tool, send_call
from mcpconfig.values.acting import Acting
from mcpconfig.values.errors import OperationError, malformed_answer_error, start_over_error
from mcpconfig.values.limits import LIMITS
from mcpconfig.values.questions import parse_requests, unanswerable_error
from mcpconfig.values.results import (
    Answer,
    CallOutcome,
    ConnectionReport,
    InputRequired,
    Listing,
    Progress,
    TaskStarted,
    Tool,
    make_storable,
)
from mcpconfig.values.task_extension import StartedTask

logger = logging.getLogger(__name__)

OnProgress = Callable[[Progress], Awaitable[None] | None]


async def test_connection(service: Service, *, acting: Acting | None = None) -> ConnectionReport:
    """Connect as if for the first time, list what is offered, and return a report.

    What is remembered stays until the service has been reached. An OperationError lists the steps
    so far in `tried`.
    """
    started = time.monotonic()
    wire = Wire()
    options = ConnectionOptions(
        renegotiates=True,
        log_level="info",
        wire=wire,
        answers_between_calls=True,
        answers_during_call=True,
    )
    try:
        async with connect(service, acting, "test_connection", options) as connection:
            await request_log(connection)
            found = await collect_findings(connection, await read_listing(connection))
            report = build_report(connection, found)
    except OperationError as error:
        error.tried = await build_failed_steps(error, service, wire.exchanges)
        raise
    is_open = service.authentication == Service.Authentication.NONE
    sign_in_steps = describe_sign_in_demands(
        wire.exchanges if is_open else await probe_without_credentials(service)
    )
    return replace(
        report,
        steps=(await describe_address(service), *sign_in_steps, *report.steps),
        requests=len(wire.exchanges),
        duration_ms=_count_milliseconds(started),
    )


async def list_tools(
    service: Service, *, acting: Acting | None = None, refresh: bool = False
) -> list[Tool]:
    """Return the tools that the service offers now, without those that break a limit.

    `refresh` also negotiates again.
    """
    return (await fetch_listing(service, acting=acting, refresh=refresh)).tools


async def fetch_listing(
    service: Service,
    *,
    acting: Acting | None = None,
    refresh: bool = False,
    total_seconds: float | None = None,
) -> Listing:
    """Return the tools, the rejected tools, and how long the list stays fresh."""
    options = ConnectionOptions(
        renegotiates=refresh,
        detects_again=True,
        total_seconds=total_seconds,
        answers_between_calls=True,
        answers_during_call=True,
    )
    return await run_safely(service, acting, "list_tools", read_listing, options)


async def read_listing(connection: Connection) -> Listing:
    """Return what the service lists over this connection."""
    pages = await fetch_tool_pages(connection)
    fresh_seconds = LIMITS.fresh_seconds
    if pages and "ttl_ms" in pages[0].model_fields_set:
        fresh_seconds = pages[0].ttl_ms / 1000
    if connection.wire.tools_changed:  # perhaps after the first page
        fresh_seconds = 0.0
    tools, left_out = parse_tools([tool for page in pages for tool in page.tools])
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

    If the service asks a question first, the call has not run, and the same call with `answers` and
    `request_state` continues. A handshake-era service can require a page to be opened first in the
    same way. It asks any other question during the call: `on_question` answers, within its own
    limit, while the deadline of the operation is paused.

    Nothing here or below sends a call again: not after a demand for a sign-in, a redirect, a header
    mismatch or a wrong memory of the service. A wrong memory ends the call and is deleted, and the
    next call negotiates before anything is sent. A failure after the first byte of the call is
    definite only if the service answered with a JSON-RPC error, or turned the call away with a
    challenge or a `Retry-After`. A bare HTTP status is not: the tool may have run.
    """
    began = time.monotonic()
    options = ConnectionOptions(
        tool=build_listed_tool(tool),
        total_seconds=total_seconds,
        answers_between_calls=True,
        answers_during_call=on_question is not None,
        on_question=on_question,
        checks_era=True,
        wire=Wire(),
    )
    try:
        async with connect(service, acting, "call_tool", options) as connection:
            outcome = await _send_call(
                connection,
                began,
                answers,
                name=tool.name,
                arguments=arguments,
                progress_callback=_build_progress_callback(on_progress) if on_progress else None,
                request_state=request_state,
                meta=cast(types.RequestParamsMeta, meta) if meta else None,
            )
    except OperationError as error:
        if request_state is not None and error.code == types.INVALID_PARAMS:
            raise start_over_error(error) from error
        raise
    if isinstance(outcome, CallOutcome) and options.wire is not None:
        # Counted after the connection is closed: ending a session is a request, too.
        return replace(outcome, requests=len(options.wire.exchanges))
    return outcome


async def _send_call(
    connection: Connection, began: float, answers: Mapping[str, Answer] | None, **call: Any
) -> CallOutcome | InputRequired | TaskStarted:
    """Send the call. A handshake-era service cannot be sent answers: it accepts the call after its
    pages have been opened, and has not run it before."""
    session = connection.session
    is_handshake = session.initialize_result is not None
    if is_handshake and answers:
        check_pages_opened(answers)
    try:
        answer = await send_call(
            session,
            input_responses=build_responses(answers) if answers and not is_handshake else None,
            **call,
        )
    except MCPError as error:
        pages = parse_required_pages(error) if is_handshake else ()
        if not pages:
            raise
        return InputRequired(requests=pages, duration_ms=_count_milliseconds(began))
    return _parse_answer(answer, len(connection.wire.exchanges), _count_milliseconds(began))


def _count_milliseconds(began: float) -> int:
    return round((time.monotonic() - began) * 1000)


def _parse_answer(
    answer: types.Result, requests: int, duration_ms: int
) -> CallOutcome | InputRequired | TaskStarted:
    match answer:
        case types.CallToolResult():
            result = limit_result(parse_result(answer))
            return CallOutcome(result=result, requests=requests, duration_ms=duration_ms)
        case types.InputRequiredResult():
            return _parse_question(answer, duration_ms)
        case StartedTask():
            return task_started(answer, duration_ms)
    raise malformed_answer_error()


def _parse_question(answer: types.InputRequiredResult, duration_ms: int) -> InputRequired:
    """Return the question. The service's state goes back unchanged, so it is kept whole or
    refused."""
    state = answer.request_state
    if state is not None and (
        len(state) > LIMITS.state_characters or make_storable(state) != state
    ):
        raise unanswerable_error(
            _("The service sent a state with its question that is too large or can’t be stored.")
        )
    asked = answer.model_dump(by_alias=True, mode="json").get("inputRequests")
    requests = parse_requests(asked)
    return InputRequired(
        requests=requests,
        request_state=state,
        wait_seconds=0.0 if requests else LIMITS.poll_seconds,
        duration_ms=duration_ms,
    )


def _build_progress_callback(on_progress: OnProgress) -> ProgressFnT:
    """Return a callback that limits the progress messages. A service may send any text and any
    number, also infinity."""

    async def report_progress(progress: float, total: float | None, message: str | None) -> None:
        said = " ".join((message or "").split())[: LIMITS.log_characters]
        outcome = on_progress(
            Progress(
                done=progress if math.isfinite(progress) else 0.0,
                total=total if total and math.isfinite(total) else None,
                message=make_storable(said),
            )
        )
        if inspect.isawaitable(outcome):
            await outcome

    return report_progress
