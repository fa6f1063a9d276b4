"""Answers that end an operation as soon as their headers are read."""

import re

import httpx2

from .body import EVENT_STREAM, too_large
from .errors import OperationError, for_status, malformed
from .wire import ExchangeRecord

# What the protocol allows as one, and we must be able to send back.
_SESSION_ID = re.compile(r"[\x21-\x7e]{1,4096}")


def refusal(
    exchange: ExchangeRecord,
    response: httpx2.Response,
    *,
    is_sse: bool,
    is_named: bool,
    most_bytes: int,
) -> OperationError | None:
    """Why this answer ends the operation at once, if it does.

    Redirects are never followed: 307 and 308 would send a tool call a second time. 401 and 429 end
    it because the SDK would go on with a second request; and the SSE transport would wait for an
    answer to a POST that the service has just turned down. A URL that a server named is asked by
    our own code, which reads every other status itself.
    """
    status = response.status_code
    if exchange.method == "DELETE" and not is_named:
        return None
    if 300 <= status < 400:
        return _redirected(response)
    if response.headers.get("content-encoding", "identity").lower() not in ("", "identity"):
        return _compressed()
    # Ten digits are more than any bound; int() itself refuses a number of thousands of digits.
    length = response.headers.get("content-length", "0")
    if not length.isdecimal() or len(length.lstrip("0")) > 10 or int(length[-10:]) > most_bytes:
        return too_large(most_bytes)
    if is_named:
        return None
    if not _SESSION_ID.fullmatch(response.headers.get("mcp-session-id", "none")):
        return malformed()
    if status in (401, 429) or (is_sse and status >= 400):
        return for_status(status)
    if is_sse and exchange.method == "GET":
        return _not_an_event_stream(response)
    return None


def _compressed() -> OperationError:
    return OperationError(
        kind="protocol",
        message="The service sent a compressed answer, although none is accepted.",
        hint="Turn off compression for this URL at the service or its proxy.",
    )


def _not_an_event_stream(response: httpx2.Response) -> OperationError | None:
    if EVENT_STREAM in response.headers.get("content-type", ""):
        return None
    return OperationError(
        kind="not_mcp",
        message="What answers at this URL does not speak the service protocol.",
        hint="The URL usually ends in /mcp or /sse; the trace shows the answer.",
    )


def _redirected(response: httpx2.Response) -> OperationError:
    try:
        target = httpx2.URL(response.headers.get("location", ""))
        place = str(target.copy_with(userinfo=b"", query=None, fragment=None))[:200]
    except (httpx2.InvalidURL, TypeError):
        place = ""
    return OperationError(
        kind="configuration",
        message=f"The service redirects to {place or 'another place'}, which is not followed.",
        hint="If that is the intended server, use it as the service's URL.",
    )
