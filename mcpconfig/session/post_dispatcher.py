"""Requests to a service that is known to speak version 2026-07-28 over Streamable HTTP
(specification 2026-07-28, Base Protocol, Transports, "Streamable HTTP"). There a request is one
POST, and all messages about it come in the answer to that POST: JSON, or an event stream with
notifications before the result. Nothing runs beside it, so no task is started here.

`PostDispatcher` takes the place of the SDK's transport and dispatcher below its `ClientSession`.
They take as much time as the request itself, and stay for negotiation, the handshake era, HTTP+SSE
and arguments in headers. Failures have their codes and messages, which `sdk_errors.py` translates.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import anyio
import httpx2
import mcp_types as types
from anyio.abc import TaskStatus
from mcp import MCPError
from mcp.shared.dispatcher import (
    CallOptions,
    OnNotify,
    OnNotifyIntercept,
    OnRequest,
    ProgressFnT,
    coerce_request_id,
)
from mcp.shared.inbound import MCP_PROTOCOL_VERSION_HEADER
from pydantic import ValidationError

from mcpconfig.net.operation_client import OperationClient
from mcpconfig.net.response_limits import EVENT_STREAM
from mcpconfig.net.wire import Wire
from mcpconfig.values.errors import Refusal, malformed_answer_error
from mcpconfig.values.hooks import current_hooks
from mcpconfig.values.limits import LIMITS

from .message_checks import MessageCheck
from .message_streams import choose_first_id
from .server_log import ServerLog

logger = logging.getLogger(__name__)

Answer = types.JSONRPCResponse | types.JSONRPCError

_HEADERS = {
    "accept": f"application/json, {EVENT_STREAM}",
    "content-type": "application/json",
}
_MOST_FAILED_RESUMPTIONS = 2
_RESUMPTION_WAIT_SECONDS = 1.0


@dataclass(slots=True, kw_only=True)
class _Request:
    """A request on its way. `last_event_id` and `wait_seconds` say how its stream is resumed."""

    id: int
    headers: dict[str, str]
    on_progress: ProgressFnT | None
    last_event_id: str = ""
    wait_seconds: float = _RESUMPTION_WAIT_SECONDS

    @property
    def version_header(self) -> dict[str, str]:
        """For messages that are about the request but are not the request."""
        return {MCP_PROTOCOL_VERSION_HEADER: self.headers.get(MCP_PROTOCOL_VERSION_HEADER, "")}


class PostDispatcher:
    """The SDK's `Dispatcher` for one connection. Requests are sent one after another."""

    def __init__(self, http: OperationClient, wire: Wire, log: ServerLog) -> None:
        self._http = http
        self._wire = wire
        self._log = log
        self._message_check = MessageCheck(wire)
        self._last_id = choose_first_id()

    async def run(
        self,
        on_request: OnRequest,
        on_notify: OnNotify,
        on_notify_intercept: OnNotifyIntercept | None = None,
        *,
        task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
    ) -> None:
        """Return at once: nothing arrives but answers to requests. A session that is entered calls
        this in a task; it works without."""
        task_status.started()

    async def notify(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> None:
        """Send nothing: this version has no notifications to a service."""

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> dict[str, Any]:
        """Return the result. Cancelling this closes the connection, which is how this version
        cancels a request."""
        opts = opts or {}
        self._last_id += 1
        request = _Request(
            id=self._last_id,
            headers=opts.get("headers", {}),
            on_progress=opts.get("on_progress"),
        )
        message = {
            "jsonrpc": "2.0",
            "id": request.id,
            "method": method,
            "params": _add_meta(params or {}, request),
        }
        try:
            with anyio.fail_after(opts.get("timeout")):
                answer = await self._post(message, request)
        except TimeoutError:
            text = f"Request {method!r} timed out"
            raise MCPError(code=types.REQUEST_TIMEOUT, message=text) from None
        except (MCPError, httpx2.HTTPError):
            raise
        except Exception as error:
            failure = self._wire.classify_unknown_error()
            raise (self._wire.end(failure) if failure else error) from error
        if isinstance(answer, types.JSONRPCError):
            raise MCPError.from_error_data(answer.error)
        return answer.result

    async def _post(self, message: dict[str, Any], request: _Request) -> Answer:
        headers = {**_HEADERS, **request.headers}
        async with self._http.stream("POST", headers, message) as response:
            kind = response.headers.get("content-type", "").lower()
            if response.status_code >= 400:
                return await self._read_refusal(response, kind, request)
            if response.status_code == 202:
                raise _build_error(
                    "server answered a request with 202 Accepted", types.INVALID_REQUEST
                )
            if kind.startswith("application/json"):
                return await self._read_json(response, request)
            if not kind.startswith(EVENT_STREAM):
                raise _build_error(f"Unexpected content type: {kind}", types.INVALID_REQUEST)
            answer = await self._read_events(response, request)
        return answer or await self._resume(request)

    async def _read_refusal(
        self, response: httpx2.Response, kind: str, request: _Request
    ) -> Answer:
        """Return the JSON-RPC error in the body of an error status. Its id does not count: a server
        may have refused the request before it read that."""
        if kind.startswith("application/json"):
            try:
                error = _parse_message(await response.aread())
            except ValidationError:
                error = None
            if isinstance(error, types.JSONRPCError):
                error.id = request.id
                self._message_check.check(error)
                return error
        if response.status_code == 404:
            raise _build_error("Not Found", types.METHOD_NOT_FOUND)
        raise _build_error("Server returned an error response", types.INTERNAL_ERROR)

    async def _read_json(self, response: httpx2.Response, request: _Request) -> Answer:
        try:
            message = _parse_message(await response.aread())
        except ValidationError as error:
            raise _build_error("Failed to parse JSON response", types.PARSE_ERROR) from error
        match self._message_check.check(message):
            case types.JSONRPCResponse() | types.JSONRPCError() as answer:
                if str(answer.id) == str(request.id):
                    return answer
        raise self._wire.end(malformed_answer_error())

    async def _read_events(self, response: httpx2.Response, request: _Request) -> Answer | None:
        """Return the answer in an event stream; None if the stream breaks off before it."""
        source = httpx2.EventSource(response, max_event_size=LIMITS.event_bytes)
        try:
            async for event in source:
                request.last_event_id = event.id or request.last_event_id
                if event.retry is not None:
                    request.wait_seconds = event.retry / 1000
                if event.event == "message" and event.data:
                    answer = await self._read_message(event.data, request)
                    if answer is not None:
                        return answer
        except httpx2.SSEError as error:
            raise _build_error(f"SSE stream failed: {error}") from error
        except Refusal:
            raise
        except httpx2.TransportError:
            logger.debug("An event stream broke off.", exc_info=True)
        return None

    async def _resume(self, request: _Request) -> Answer:
        """Return the answer to a request whose stream broke off, if its events had ids. Servers
        that have learned this in the handshake era may still do it."""
        failures = 0
        while request.last_event_id and failures < _MOST_FAILED_RESUMPTIONS:
            await anyio.sleep(request.wait_seconds)
            headers = {
                **_HEADERS,
                **request.version_header,
                "cache-control": "no-store",
                "last-event-id": request.last_event_id,
            }
            try:
                async with self._http.stream("GET", headers) as response:
                    response.raise_for_status()
                    _check_event_stream(response)
                    answer = await self._read_events(response, request)
            except Refusal:
                raise
            except httpx2.HTTPError:
                failures += 1
                continue
            if answer is not None:
                return answer
            failures = 0
        raise _build_error("SSE stream ended without a response")

    async def _read_message(self, text: str, request: _Request) -> Answer | None:
        """Return the message if it is the answer. The stream belongs to the request, so the id of
        an answer does not count."""
        try:
            message = _parse_message(text)
        except ValidationError as error:
            raise _build_error("Failed to parse SSE message", types.PARSE_ERROR) from error
        if isinstance(message, types.JSONRPCResponse | types.JSONRPCError):
            message.id = request.id
        match self._message_check.check(message):
            case types.JSONRPCResponse() | types.JSONRPCError() as answer:
                return answer
            case types.JSONRPCNotification() as notification:
                await self._note(notification, request)
            case types.JSONRPCRequest() as question:
                await self._refuse(question, request)
        return None

    async def _note(self, said: types.JSONRPCNotification, request: _Request) -> None:
        params = said.params or {}
        match said.method:
            case "notifications/progress" if request.on_progress is not None:
                await _report_progress(params, request.id, request.on_progress)
            case "notifications/message":
                await self._log.note_params(params)

    async def _refuse(self, question: types.JSONRPCRequest, request: _Request) -> None:
        """Answer a request of the service, which this version does not have: a service that waits
        for the answer would not end the call before."""
        error = {"code": types.METHOD_NOT_FOUND, "message": "Method not found"}
        message = {"jsonrpc": "2.0", "id": question.id, "error": error}
        headers = {**_HEADERS, **request.version_header}
        async with self._http.stream("POST", headers, message):
            pass


def _add_meta(params: Mapping[str, Any], request: _Request) -> dict[str, Any]:
    """Return the parameters with the trace context, and with the token of progress messages."""
    meta = {**current_hooks().trace_context(), **(params.get("_meta") or {})}
    if request.on_progress is not None:
        meta["progressToken"] = request.id
    return {**params, "_meta": meta}


def _check_event_stream(response: httpx2.Response) -> None:
    """Raise if this is not an event stream: a proxy may answer with a page for a while."""
    kind = response.headers.get("content-type", "").lower()
    if not kind.startswith(EVENT_STREAM):
        raise httpx2.RemoteProtocolError(f"Unexpected content type: {kind}")


def _parse_message(text: str | bytes) -> types.JSONRPCMessage:
    return types.jsonrpc_message_adapter.validate_json(text, by_name=False)


async def _report_progress(
    params: Mapping[str, Any], request_id: int, on_progress: ProgressFnT
) -> None:
    match params:
        case {"progressToken": int() | str() as token, "progress": int() | float() as progress} if (
            coerce_request_id(token) == request_id
        ):
            total, message = params.get("total"), params.get("message")
            try:
                await on_progress(
                    float(progress),
                    float(total) if isinstance(total, int | float) else None,
                    message if isinstance(message, str) else None,
                )
            except Exception:
                # Progress is only shown: what fails there must not lose the result of the call.
                logger.exception("A progress message was not passed on.")


def _build_error(message: str, code: int = types.CONNECTION_CLOSED) -> MCPError:
    return MCPError(code=code, message=message)
