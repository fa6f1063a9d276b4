"""Translation of the SDK's exceptions into the OperationErrors of `values/errors.py`. No other file
knows them."""

from collections.abc import Iterator
from typing import Any

import httpx2
from django.utils.translation import gettext as _
from mcp import MCPError
from pydantic import ValidationError

from mcpconfig.values.errors import (
    HOST_CHECK_HINT,
    Evidence,
    OperationError,
    add_evidence,
    disconnect_error,
    malformed_answer_error,
    missing_capability_error,
    status_error,
    timeout_error,
    translate_transport_error,
    version_error,
)
from mcpconfig.values.refusal_words import is_host_check

UNSUPPORTED_VERSION = -32022
MISSING_CAPABILITY = -32021
REQUEST_TIMED_OUT = -32001

# Messages of the SDK itself when no JSON-RPC answer arrived. A server that uses the same words is
# treated as silent: the outcome of its call is then unknown instead of failed, which is the safe
# side.
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


def flatten_groups(error: BaseException) -> Iterator[BaseException]:
    """Yield the exceptions inside nested groups, in which failures of the SDK's tasks arrive."""
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from flatten_groups(inner)
    else:
        yield error


def translate_error(error: BaseException, evidence: Evidence) -> OperationError | None:
    """Return the failure for an exception; None if the cause is a bug of this project."""
    causes = list(flatten_groups(error))
    for cause in causes:
        if isinstance(cause, OperationError):
            return cause
    for cause in causes:
        known = _translate_cause(cause, evidence)
        if known is not None:
            return add_evidence(known, evidence)
    return None


def _translate_cause(cause: BaseException, evidence: Evidence) -> OperationError | None:
    match cause:
        case MCPError():
            return _translate_mcp_error(cause, evidence)
        case ValidationError():
            return malformed_answer_error()
        case RuntimeError():
            return _translate_runtime_error(cause)
    if isinstance(cause, httpx2.HTTPStatusError):
        return status_error(cause.response.status_code, evidence)
    return translate_transport_error(cause)


def _translate_runtime_error(cause: RuntimeError) -> OperationError | None:
    """The SDK raises plain RuntimeErrors for some bad answers; any other RuntimeError is a bug."""
    if "protocol version" in str(cause):
        return version_error()
    if type(cause) is RuntimeError and not str(cause).startswith("Unexpected input_required"):
        return None
    return malformed_answer_error()


def _translate_mcp_error(error: MCPError, evidence: Evidence) -> OperationError:
    status = evidence.status
    if status == 401:
        return status_error(401, evidence)
    if error.code == REQUEST_TIMED_OUT and "timed out" in error.message:
        return timeout_error()
    if error.message.startswith(_NO_ANSWER):
        return _translate_missing_answer(error, evidence)
    if error.code == UNSUPPORTED_VERSION:
        disagreement = version_error()
        disagreement.is_definite, disagreement.code = True, error.code
        return disagreement
    if error.code == MISSING_CAPABILITY:
        return missing_capability_error(error.code, _list_missing_capabilities(error.data))
    said = " ".join(error.message.split())[:300]
    is_refused = status in (400, 403, 421)
    return OperationError(
        kind="rpc_error",
        message=_("The service refused: %(reason)s") % {"reason": said}
        if said
        else _("The service refused and gave no reason."),
        hint=str(HOST_CHECK_HINT) if is_refused and is_host_check(said, status) else "",
        is_definite=True,
        code=error.code,
    )


def _list_missing_capabilities(data: Any) -> list[str]:
    """Return the names of the capabilities that the service says are missing."""
    named = data.get("requiredCapabilities") if isinstance(data, dict) else None
    return list(named) if isinstance(named, dict) else []


def _translate_missing_answer(error: MCPError, evidence: Evidence) -> OperationError:
    if evidence.status is not None and evidence.status >= 400:
        return status_error(evidence.status, evidence)
    if error.message.startswith(("Unexpected content type", "Failed to parse", "server answered")):
        return OperationError(
            kind="not_mcp" if error.message.startswith("Unexpected") else "protocol",
            message=_("The server at this URL is not an MCP service."),
            hint=_("The URL usually ends in /mcp or /sse. The trace shows the response."),
        )
    if "exceeded" in error.message:
        return OperationError(
            kind="too_large", message=_("The service sent a response that is too large.")
        )
    return disconnect_error()
