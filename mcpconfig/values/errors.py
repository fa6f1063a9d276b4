"""The few ways an operation on a service fails, in words for people, and what the HTTP library's
exceptions mean. What the SDK's mean is in `explain.py`: loading the SDK takes most of a second."""

import socket
import ssl
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Literal

import httpx2

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
    "start_over",
    "configuration",
]


@dataclass(slots=True, kw_only=True, eq=False)
class OperationError(Exception):
    """An operation failed. `message` and `hint` are fit to be shown.

    `was_sent` is false only when it is proven that no byte of a tool call's body left.
    `is_definite` is true when the tool certainly did not run to its end: nothing was sent, or the
    service answered with a well-formed error. A call that was sent and is not definite has an
    unknown outcome. `contradicts_memory`: the remembered transport or era was wrong and is gone.
    `tried`: where several ways were tried, each with what came of it.
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
    tried: tuple[tuple[str, str], ...] = ()

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


def attach(error: OperationError, evidence: Evidence) -> OperationError:
    """Add what the wire saw. What was never sent certainly did not run."""
    error.was_sent = evidence.was_sent
    error.is_definite = error.is_definite or not evidence.was_sent
    error.status = evidence.status
    error.www_authenticate = evidence.www_authenticate
    error.retry_after = evidence.retry_after
    return error


def of_transport(cause: BaseException) -> OperationError | None:
    """The failure that an exception of the HTTP library, or a deadline, means."""
    match cause:
        case Refusal():
            return cause.error
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
        case httpx2.SSEError() | httpx2.LocalProtocolError():
            return malformed()
        case httpx2.RemoteProtocolError() if not _has_hung_up(cause):
            return malformed()
        case httpx2.HTTPError():
            return broken_off()
    return None


def _has_hung_up(error: httpx2.RemoteProtocolError) -> bool:
    """The HTTP library tells an early end from a broken answer by its words alone."""
    return any(word in str(error) for word in ("disconnected", "closed", "without sending"))


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


def malformed() -> OperationError:
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


def switched_off() -> OperationError:
    return OperationError(
        kind="configuration",
        message="The service is switched off.",
        hint="Enable it in its settings first.",
        was_sent=False,
        is_definite=True,
    )


def lacks_a_capability(code: int, wanted: Collection[str]) -> OperationError:
    """`wanted` are the protocol's names of what the service says it cannot do without."""
    if "elicitation" in wanted:
        return asks_a_question(code)
    hint = "Ask whoever runs the service whether it can do without."
    if not wanted or {"sampling", "roots"} & set(wanted):
        hint = "Models and folders of this application are not lent to services."
    return OperationError(
        kind="protocol",
        message="The service demands something of this application that it does not offer.",
        hint=hint,
        is_definite=True,
        code=code,
    )


def asks_a_question(code: int | None = None) -> OperationError:
    return OperationError(
        kind="protocol",
        message="The service wants to ask a person something first, which is not supported here.",
        hint="A question is answered while a tool is called, and not while a resource or a prompt "
        "is read. Give all values that it needs at once, or use a tool of the service.",
        is_definite=True,
        code=code,
    )


def start_over(cause: OperationError) -> OperationError:
    """The service does not take an answer any more: its question is too old, or not known."""
    return OperationError(
        kind="start_over",
        message="The service no longer knows the question that was answered.",
        hint="Run the tool again; it then asks anew.",
        was_sent=cause.was_sent,
        is_definite=cause.is_definite,
        status=cause.status,
        code=cause.code,
    )


def unusable_headers() -> OperationError:
    """The SDK dropped the tool from the list, and would ask the service again after the call."""
    return OperationError(
        kind="protocol",
        message="The tool asks for arguments in HTTP headers in a way the protocol does not allow.",
        hint="Tell whoever runs the service: an x-mcp-header annotation is invalid.",
    )


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
