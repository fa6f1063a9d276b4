"""What the exceptions of an operation mean: the one place that maps the SDK's to our own few, which
`errors.py` has in words."""

from collections.abc import Iterator
from typing import Any

from mcp import MCPError
from pydantic import ValidationError

from .errors import (
    Evidence,
    OperationError,
    attach,
    broken_off,
    for_status,
    lacks_a_capability,
    malformed,
    no_common_version,
    of_transport,
    timed_out,
)

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


def _known(cause: BaseException, evidence: Evidence) -> OperationError | None:
    match cause:
        case MCPError():
            return _protocol_error(cause, evidence.status)
        case ValidationError():
            return malformed()
        case RuntimeError():
            return _of_runtime_error(cause)
    return of_transport(cause)


def _of_runtime_error(cause: RuntimeError) -> OperationError | None:
    """The SDK raises plain RuntimeErrors for some bad answers; any other RuntimeError is a bug."""
    if "protocol version" in str(cause):
        return no_common_version()
    if type(cause) is RuntimeError and not str(cause).startswith("Unexpected input_required"):
        return None
    return malformed()


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
        return lacks_a_capability(error.code, _wanted(error.data))
    said = " ".join(error.message.split())[:300]
    return OperationError(
        kind="rpc_error",
        message=f"The service refused: {said}" if said else "The service refused without a word.",
        is_definite=True,
        code=error.code,
    )


def _wanted(data: Any) -> list[str]:
    """The names of the capabilities that a service says are missing here."""
    named = data.get("requiredCapabilities") if isinstance(data, dict) else None
    return list(named) if isinstance(named, dict) else []


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
