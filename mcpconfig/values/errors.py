"""The ways in which an operation fails, with messages for people, and the translation of the HTTP
library's exceptions. `session/sdk_errors.py` translates those of the MCP SDK, whose import takes
most of a second."""

import socket
import ssl
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Literal

import httpx2

from mcpconfig.values.refusal_words import is_host_check

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
    """A failed operation. `message` and `hint` can be shown to people.

    `was_sent` is false only if it is proven that no byte of a tool call's body left. `is_definite`
    is true if the tool certainly did not run to its end: nothing was sent, the service answered
    with a well-formed JSON-RPC error, or it turned the call away. A call that was sent and is not
    definite has an unknown outcome.
    `contradicts_memory`: the remembered transport or protocol era was wrong and has been dropped.
    `tried`: if several ways were tried, each with its result.
    `bound`: the limit that an answer exceeded, such as "4 MB".
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
    bound: str = ""

    def __str__(self) -> str:
        return self.message


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Status and headers of the last answer, whether a tool call's body was sent, and whether that
    call was turned away before it was processed.

    `said` has the server's message of the last refusal with an HTTP status, and `has_credentials`
    is true if the requests carried some."""

    status: int | None = None
    www_authenticate: str = ""
    retry_after: float | None = None
    was_sent: bool = False
    was_turned_away: bool = False
    said: str = ""
    has_credentials: bool = False


class Refusal(httpx2.TransportError):
    """An exchange that was ended on this side of the connection, with the reason."""

    def __init__(self, error: OperationError) -> None:
        super().__init__(error.message)
        self.error = error


def add_evidence(error: OperationError, evidence: Evidence) -> OperationError:
    """Add status, headers and `was_sent`. A call that was not sent or was turned away is
    definite."""
    error.was_sent = evidence.was_sent
    is_certain = evidence.was_turned_away or not evidence.was_sent
    error.is_definite = error.is_definite or is_certain
    error.status = evidence.status
    error.www_authenticate = evidence.www_authenticate
    error.retry_after = evidence.retry_after
    return error


def translate_transport_error(cause: BaseException) -> OperationError | None:
    """Return the failure for an exception of the HTTP library or a deadline; None for any other
    exception."""
    match cause:
        case Refusal():
            return cause.error
        case TimeoutError() | httpx2.TimeoutException():
            return timeout_error()
        case httpx2.ConnectError():
            return _translate_connect_error(cause)
        case httpx2.UnsupportedProtocol() | httpx2.InvalidURL():
            return OperationError(
                kind="configuration",
                message="The service's URL cannot be used.",
                hint="Give the whole URL, beginning with https://.",
            )
        case httpx2.HTTPStatusError():
            return status_error(cause.response.status_code)
        case httpx2.SSEError() | httpx2.LocalProtocolError():
            return malformed_answer_error()
        case httpx2.RemoteProtocolError() if not _is_disconnect(cause):
            return malformed_answer_error()
        case httpx2.HTTPError():
            return disconnect_error()
    return None


def _is_disconnect(error: httpx2.RemoteProtocolError) -> bool:
    """Only the message of the exception distinguishes an early end from a malformed answer."""
    return any(word in str(error) for word in ("disconnected", "closed", "without sending"))


def timeout_error() -> OperationError:
    return OperationError(
        kind="timeout",
        message="The service did not answer in time.",
        hint="Test the connection; if the service is slow by nature, raise MCP_TOTAL_SECONDS.",
    )


def version_error() -> OperationError:
    return OperationError(
        kind="protocol",
        message="The service and this application share no protocol version.",
        hint="Update the service.",
    )


def disconnect_error() -> OperationError:
    return OperationError(
        kind="server_error",
        message="The service broke the connection before it had answered.",
        hint="Look at the service's own log.",
    )


def malformed_answer_error() -> OperationError:
    return OperationError(
        kind="protocol",
        message="The service answered with something that the protocol does not allow.",
        hint="The trace shows the answer.",
    )


def _translate_connect_error(cause: httpx2.ConnectError) -> OperationError:
    roots = list(_iterate_causes(cause))
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


def _iterate_causes(error: BaseException) -> Iterator[BaseException]:
    """Yield the error and its causes; a chain of causes can be circular."""
    seen: list[BaseException] = []
    current: BaseException | None = error
    while current is not None and current not in seen:
        seen.append(current)
        yield current
        current = current.__cause__ or current.__context__


def disabled_error() -> OperationError:
    return OperationError(
        kind="configuration",
        message="The service is switched off.",
        hint="Enable it in its settings first.",
        was_sent=False,
        is_definite=True,
    )


def missing_capability_error(code: int, wanted: Collection[str]) -> OperationError:
    """`wanted` holds the protocol's names of the capabilities that the service requires."""
    if "elicitation" in wanted:
        return unsupported_question_error(code)
    hint = "Ask the operator of the service whether it can do without."
    if not wanted or {"sampling", "roots"} & set(wanted):
        hint = "Models and folders of this application are not lent to services."
    return OperationError(
        kind="protocol",
        message="The service demands something of this application that it does not offer.",
        hint=hint,
        is_definite=True,
        code=code,
    )


def unsupported_question_error(code: int | None = None) -> OperationError:
    return OperationError(
        kind="protocol",
        message="The service wants to ask a person something first, which is not supported here.",
        hint="A question is answered while a tool is called, and not while a resource or a prompt "
        "is read. Give all values that it needs at once, or use a tool of the service.",
        is_definite=True,
        code=code,
    )


def start_over_error(cause: OperationError) -> OperationError:
    """The service no longer accepts the answer: its question is too old or unknown."""
    return OperationError(
        kind="start_over",
        message="The service no longer knows the question that was answered.",
        hint="Run the tool again; it then asks anew.",
        was_sent=cause.was_sent,
        is_definite=cause.is_definite,
        status=cause.status,
        code=cause.code,
    )


def header_annotation_error() -> OperationError:
    """The SDK drops such a tool from its list, and would list the tools again after the call."""
    return OperationError(
        kind="protocol",
        message="The tool asks for arguments in HTTP headers in a way the protocol does not allow.",
        hint="Tell the operator of the service: an x-mcp-header annotation is invalid.",
    )


def status_error(
    status: int, evidence: Evidence | None = None, *, said: str | None = None
) -> OperationError:
    """Return the failure for an HTTP status without a JSON-RPC answer, with the server's message.
    Credentials are mentioned only if some were sent.

    The status alone is never definite: a proxy or a broken handler may answer 404 after the tool
    ran. `Evidence.was_turned_away` tells which statuses with which headers are.
    """
    known = evidence or Evidence()
    words = known.said if said is None else said
    error = _describe_status(status, has_credentials=known.has_credentials)
    if status != 401 and is_host_check(words, status):
        error.kind, error.hint = "forbidden", HOST_CHECK_HINT
        error.message = f"The service refused the request (HTTP {status})."
    if words:
        error.message += f" The service said: “{words.rstrip('.')}”."
    return error


HOST_CHECK_HINT = (
    "The service does not accept the host name in its URL, or the origin of the request. Add the "
    "host name to its allowed hosts (protection against DNS rebinding), or use the URL that it "
    "expects."
)


def _describe_status(status: int, *, has_credentials: bool) -> OperationError:
    match status:
        case 401 if has_credentials:
            return OperationError(
                kind="sign_in_needed",
                message="The service does not accept the stored credentials.",
                hint="Check the token or the headers in the service's settings.",
            )
        case 401:
            return OperationError(
                kind="sign_in_needed",
                message="The service requires sign-in, and no credentials are stored for it.",
                hint="Choose how to sign in, or enter a token, in the service's settings.",
            )
        case 403 if has_credentials:
            return OperationError(
                kind="forbidden",
                message="The service does not allow this with the stored credentials.",
                hint="Ask its operator for the right.",
            )
        case 400 | 403 | 421:
            return OperationError(
                kind="not_mcp" if status == 400 else "forbidden",
                message=f"The service refused the request (HTTP {status}).",
                hint="Check the URL: it usually ends in /mcp or /sse. The service's own log may "
                "say more."
                if status == 400
                else "Ask its operator why; the service's own log may say more.",
            )
        case 404 | 405:
            return OperationError(
                kind="not_mcp",
                message=f"There is no service at this URL (HTTP {status}).",
                hint="The URL usually ends in /mcp or /sse.",
            )
        case 429:
            return OperationError(
                kind="rate_limited",
                message="The service had too many requests.",
                hint="Wait a little, then try again.",
            )
    return OperationError(
        kind="server_error",
        message=f"The service failed (HTTP {status}).",
        hint="Look at the service's own log.",
    )
