"""The ways in which an operation fails, with messages for people, and the translation of the HTTP
library's exceptions. `session/sdk_errors.py` translates those of the MCP SDK, whose import takes
most of a second."""

import socket
import ssl
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Literal

import httpx2
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

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
                message=_("The service’s URL can’t be used."),
                hint=_("Enter the whole URL, beginning with https://."),
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
        message=_("The service did not answer in time."),
        hint=_("Test the connection. If the service is slow, raise MCP_TOTAL_SECONDS."),
    )


def version_error() -> OperationError:
    return OperationError(
        kind="protocol",
        message=_("The service and Countersign have no protocol version in common."),
        hint=_("Update the service."),
    )


def disconnect_error() -> OperationError:
    return OperationError(
        kind="server_error",
        message=_("The service closed the connection before it answered."),
        hint=_("Check the service’s own log."),
    )


def malformed_answer_error() -> OperationError:
    return OperationError(
        kind="protocol",
        message=_("The service sent a response that the protocol does not allow."),
        hint=_("The trace shows the response."),
    )


def _translate_connect_error(cause: httpx2.ConnectError) -> OperationError:
    roots = list(_iterate_causes(cause))
    if any(isinstance(root, ssl.SSLError) for root in roots) or "SSL" in str(cause):
        return OperationError(
            kind="tls",
            message=_("The service’s certificate could not be verified, or it does not use TLS."),
            hint=_("Check the host name in the URL and the certificate’s date and chain."),
        )
    if any(isinstance(root, socket.gaierror) for root in roots):
        return OperationError(
            kind="not_found",
            message=_("The service’s host name was not found."),
            hint=_("Check the URL for typos."),
        )
    return OperationError(
        kind="refused",
        message=_("Nothing answers at the service’s address."),
        hint=_("Check the port, and that the service is running."),
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
        message=_("The service is off."),
        hint=_("Enable it in its settings first."),
        was_sent=False,
        is_definite=True,
    )


def missing_capability_error(code: int, wanted: Collection[str]) -> OperationError:
    """`wanted` holds the protocol's names of the capabilities that the service requires."""
    if "elicitation" in wanted:
        return unsupported_question_error(code)
    hint = _("Ask the service’s operator whether it can work without this.")
    if not wanted or {"sampling", "roots"} & set(wanted):
        hint = _("Countersign does not share its models and folders with services.")
    return OperationError(
        kind="protocol",
        message=_("The service requires something that Countersign does not offer."),
        hint=hint,
        is_definite=True,
        code=code,
    )


def unsupported_question_error(code: int | None = None) -> OperationError:
    return OperationError(
        kind="protocol",
        message=_("The service needs to ask a question first, which is not supported here."),
        hint=_(
            "Services can ask questions during tool calls, but not for resources and "
            "prompts. Give all values at once, or use one of the service’s tools."
        ),
        is_definite=True,
        code=code,
    )


def start_over_error(cause: OperationError) -> OperationError:
    """The service no longer accepts the answer: its question is too old or unknown."""
    return OperationError(
        kind="start_over",
        message=_("The service no longer knows the question that was answered."),
        hint=_("Run the tool again. It then asks again."),
        was_sent=cause.was_sent,
        is_definite=cause.is_definite,
        status=cause.status,
        code=cause.code,
    )


def header_annotation_error() -> OperationError:
    """The SDK drops such a tool from its list, and would list the tools again after the call."""
    return OperationError(
        kind="protocol",
        message=_("The tool asks for arguments in HTTP headers in an invalid way."),
        hint=_("Report it to the service’s operator: an x-mcp-header annotation is invalid."),
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
        error.kind, error.hint = "forbidden", str(HOST_CHECK_HINT)
        error.message = _("The service refused the request (HTTP %(status)s).") % {"status": status}
    if words:
        error.message += " " + _("The service said: “%(words)s”.") % {"words": words.rstrip(".")}
    return error


HOST_CHECK_HINT = gettext_lazy(
    "The service does not accept the host name in its URL, or the request’s "
    "origin. Add the host name to its allowed hosts (protection against DNS "
    "rebinding). Or use the URL that it expects."
)


def _describe_status(status: int, *, has_credentials: bool) -> OperationError:
    match status:
        case 401 if has_credentials:
            return OperationError(
                kind="sign_in_needed",
                message=_("The service does not accept the stored credentials."),
                hint=_("Check the token or the headers in the service’s settings."),
            )
        case 401:
            return OperationError(
                kind="sign_in_needed",
                message=_("The service requires sign-in, and no credentials are stored for it."),
                hint=_("Choose how to sign in, or enter a token, in the service’s settings."),
            )
        case 403 if has_credentials:
            return OperationError(
                kind="forbidden",
                message=_("The service does not allow this with the stored credentials."),
                hint=_("Ask its operator for access."),
            )
        case 400 | 403 | 421:
            return OperationError(
                kind="not_mcp" if status == 400 else "forbidden",
                message=_("The service refused the request (HTTP %(status)s).")
                % {"status": status},
                hint=_(
                    "Check the URL: it usually ends in /mcp or /sse. The service’s own log may "
                    "say more."
                )
                if status == 400
                else _("Ask its operator why. The service’s own log may say more."),
            )
        case 404 | 405:
            return OperationError(
                kind="not_mcp",
                message=_("There is no service at this URL (HTTP %(status)s).")
                % {"status": status},
                hint=_("The URL usually ends in /mcp or /sse."),
            )
        case 429:
            return OperationError(
                kind="rate_limited",
                message=_("The service received too many requests."),
                hint=_("Wait a moment, then try again."),
            )
    return OperationError(
        kind="server_error",
        message=_("The service returned an error (HTTP %(status)s).") % {"status": status},
        hint=_("Check the service’s own log."),
    )
