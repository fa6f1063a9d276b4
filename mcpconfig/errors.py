"""The few ways an operation on a service fails, in words for people, and the one place that maps
the SDK's and the HTTP library's exceptions to them."""

import socket
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import httpx2
from mcp import MCPError
from pydantic import ValidationError

Kind = Literal[
    "refused",
    "not_found",
    "tls",
    "timeout",
    "sign_in_needed",
    "forbidden",
    "not_mcp",
    "protocol",
    "too_large",
    "server_error",
    "blocked_address",
    "rate_limited",
    "rpc_error",
    "configuration",
]

UNSUPPORTED_VERSION = -32022
MISSING_CAPABILITY = -32021
REQUEST_TIMED_OUT = -32001

# What the SDK writes itself when no JSON-RPC answer came. A server that uses the same words is
# taken for silent, which errs on the safe side: its call's outcome is unknown instead of failed.
_NO_ANSWER = (
    "Server returned an error response",
    "Not Found",
    "Session terminated",
    "Unexpected content type",
    "server answered a request with 202",
    "Redirect to ",
    "Failed to parse ",
    "SSE stream ",
    "Connection closed",
)


@dataclass(slots=True, kw_only=True, eq=False)
class OperationError(Exception):
    """An operation failed. `message` and `hint` are fit to be shown.

    `was_sent` is false only when it is proven that no byte of a tool call's body left.
    `is_definite` is true when the tool certainly did not run to its end: nothing was sent, or the
    service answered with a well-formed error. A call that was sent and is not definite has an
    unknown outcome. `contradicts_memory`: the remembered transport or era was wrong and is gone.
    """

    kind: Kind
    message: str
    hint: str = ""
    was_sent: bool = True
    is_definite: bool = False
    status: int | None = None
    www_authenticate: str = ""
    retry_after: float | None = None
    code: int | None = None
    contradicts_memory: bool = False

    def __str__(self) -> str:
        return self.message


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What the wire saw of the last answer, and whether a tool call's body left."""

    status: int | None = None
    www_authenticate: str = ""
    retry_after: float | None = None
    was_sent: bool = False


class Refusal(httpx2.TransportError):
    """Our own side of the wire ended an exchange, and says why."""

    def __init__(self, error: OperationError) -> None:
        super().__init__(error.message)
        self.error = error


def leaves(error: BaseException) -> Iterator[BaseException]:
    """The exceptions inside nested groups; failures of the SDK's tasks arrive in such groups."""
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from leaves(inner)
    else:
        yield error


def explain(error: BaseException, evidence: Evidence) -> OperationError | None:
    """The failure that an exception means; None if it is not the service's but our own bug."""
    causes = list(leaves(error))
    for cause in causes:
        if isinstance(cause, OperationError):
            return cause
    for cause in causes:
        known = _known(cause, evidence)
        if known is not None:
            return attach(known, evidence)
    return None


def attach(error: OperationError, evidence: Evidence) -> OperationError:
    """Add what the wire saw. What was never sent certainly did not run."""
    error.was_sent = evidence.was_sent
    error.is_definite = error.is_definite or not evidence.was_sent
    error.status = evidence.status
    error.www_authenticate = evidence.www_authenticate
    error.retry_after = evidence.retry_after
    return error


def _known(cause: BaseException, evidence: Evidence) -> OperationError | None:
    match cause:
        case Refusal():
            return cause.error
        case MCPError():
            return _protocol_error(cause, evidence.status)
        case TimeoutError() | httpx2.TimeoutException():
            return timed_out()
        case httpx2.ConnectError():
            return _connection_error(cause)
        case httpx2.UnsupportedProtocol() | httpx2.InvalidURL():
            return OperationError(
                kind="configuration",
                message="The service's URL cannot be used.",
                hint="Give the whole URL, beginning with https://.",
            )
        case httpx2.HTTPStatusError():
            return for_status(cause.response.status_code)
        case httpx2.HTTPError():
            return broken_off()
        case ValidationError() | httpx2.SSEError() | RuntimeError():
            return _malformed(cause)
    return None


def timed_out() -> OperationError:
    return OperationError(
        kind="timeout",
        message="The service did not answer in time.",
        hint="Test the connection; if the service is slow by nature, raise MCP_TOTAL_SECONDS.",
    )


def no_common_version() -> OperationError:
    return OperationError(
        kind="protocol",
        message="The service and this application share no protocol version.",
        hint="Update the service.",
    )


def broken_off() -> OperationError:
    return OperationError(
        kind="server_error",
        message="The service broke the connection before it had answered.",
        hint="Look at the service's own log.",
    )


def _malformed(cause: BaseException) -> OperationError | None:
    """The SDK raises plain RuntimeErrors for some bad answers; any other RuntimeError is a bug."""
    if isinstance(cause, RuntimeError) and "protocol version" in str(cause):
        return no_common_version()
    if type(cause) is RuntimeError and not str(cause).startswith("Unexpected input_required"):
        return None
    return OperationError(
        kind="protocol",
        message="The service answered with something that the protocol does not allow.",
        hint="The trace shows the answer.",
    )


def _connection_error(cause: httpx2.ConnectError) -> OperationError:
    roots = list(_roots(cause))
    if any(isinstance(root, ssl.SSLError) for root in roots) or "SSL" in str(cause):
        return OperationError(
            kind="tls",
            message="The service's certificate could not be verified, or it does not speak TLS.",
            hint="Check the host name in the URL and the certificate's date and chain.",
        )
    if any(isinstance(root, socket.gaierror) for root in roots):
        return OperationError(
            kind="not_found",
            message="The service's host name was not found.",
            hint="Check the URL for a typing mistake.",
        )
    return OperationError(
        kind="refused",
        message="Nothing answers at the service's address.",
        hint="Check the port, and that the service is running.",
    )


def _roots(error: BaseException) -> Iterator[BaseException]:
    """The error and what it came from; a chain of causes can be a ring."""
    seen: list[BaseException] = []
    current: BaseException | None = error
    while current is not None and current not in seen:
        seen.append(current)
        yield current
        current = current.__cause__ or current.__context__


def _protocol_error(error: MCPError, status: int | None) -> OperationError:
    if status == 401:
        return for_status(401)
    if error.code == REQUEST_TIMED_OUT and "timed out" in error.message:
        return timed_out()
    if error.message.startswith(_NO_ANSWER):
        return _no_answer(error, status)
    if error.code == UNSUPPORTED_VERSION:
        disagreement = no_common_version()
        disagreement.is_definite, disagreement.code = True, error.code
        return disagreement
    if error.code == MISSING_CAPABILITY:
        return asks_a_question(error.code)
    said = " ".join(error.message.split())[:300]
    return OperationError(
        kind="rpc_error",
        message=f"The service refused: {said}" if said else "The service refused without a word.",
        is_definite=True,
        code=error.code,
    )


def asks_a_question(code: int | None = None) -> OperationError:
    return OperationError(
        kind="protocol",
        message="The tool wants to ask a person something first, which is not supported here.",
        hint="Give all values that the tool needs in its arguments.",
        is_definite=True,
        code=code,
    )


def _no_answer(error: MCPError, status: int | None) -> OperationError:
    if status is not None and status >= 400:
        return for_status(status)
    if error.message.startswith(("Unexpected content type", "Failed to parse", "server answered")):
        return OperationError(
            kind="not_mcp" if error.message.startswith("Unexpected") else "protocol",
            message="What answers at this URL does not speak the service protocol.",
            hint="The URL usually ends in /mcp or /sse; the trace shows the answer.",
        )
    if "exceeded" in error.message:
        return OperationError(kind="too_large", message="The service sent more than is accepted.")
    return broken_off()


def for_status(status: int) -> OperationError:
    """The failure that an HTTP status without a JSON-RPC answer means.

    400, 404 and 405 say that the request was not understood, that nothing is there, or that it
    takes no such requests: by HTTP's own words nothing was processed, so they are definite. 401 and
    403 are not: a service may run a tool first and then complain about the credentials.
    """
    if status == 401:
        return OperationError(
            kind="sign_in_needed",
            message="The service wants a sign-in, or does not accept the stored credentials.",
            hint="Check the token or the headers in the service's settings.",
        )
    if status == 403:
        return OperationError(
            kind="forbidden",
            message="The service does not allow this with the stored credentials.",
            hint="Ask whoever runs it for the right.",
        )
    if status == 429:
        return OperationError(
            kind="rate_limited",
            message="The service had too many requests.",
            hint="Wait a little, then try again.",
        )
    if status in (400, 404, 405):
        return OperationError(
            kind="not_mcp",
            message=f"There is no service at this URL (HTTP {status}).",
            hint="The URL usually ends in /mcp or /sse.",
            is_definite=True,
        )
    return OperationError(
        kind="server_error",
        message=f"The service failed (HTTP {status}).",
        hint="Look at the service's own log.",
    )
