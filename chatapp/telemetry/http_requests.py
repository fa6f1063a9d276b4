"""Each HTTP request and socket gets an id, and each answer is counted."""

import re

from asgi_correlation_id import CorrelationIdMiddleware, correlation_id
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from . import log_ids, metrics

HEADER = "X-Request-ID"
# An id of a proxy is used as it is. It goes into the log, so it has no other letters.
ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{7,99}")


def is_request_id(text: str) -> bool:
    return ID.fullmatch(text) is not None


def watch_requests(application: ASGIApp) -> ASGIApp:
    """Return the application with an id for each request, taken from `X-Request-ID` or made, and
    returned in the answer."""

    async def watched(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            return await application(scope, receive, send)
        log_ids.begin_request(correlation_id.get() or "")
        if scope["type"] != "http":
            return await application(scope, receive, send)
        method = scope["method"] if scope["method"] in metrics.METHODS else metrics.OTHER

        async def count(message: Message) -> None:
            if message["type"] == "http.response.start":
                metrics.HTTP_RESPONSES.labels(method, str(message["status"])).inc()
            await send(message)

        await application(scope, receive, count)

    return CorrelationIdMiddleware(watched, header_name=HEADER, validator=is_request_id)
