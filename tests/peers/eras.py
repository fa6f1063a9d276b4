"""Gates that make an SDK server speak one era only, as real servers of that era do."""

import json
from typing import Any, Literal

from .serving import Application, Message

Era = Literal["both", "modern", "handshake"]

MODERN = "2026-07-28"
# The fields of a service after its discovery. Its requests then do not pass the SDK's transport.
REMEMBERED_AS_MODERN: dict[str, Any] = {
    "known_transport": "streamable-http",
    "known_era": MODERN,
    "discovery": {
        "supportedVersions": [MODERN],
        "capabilities": {"tools": {}},
        "resultType": "complete",
        "ttlMs": 60_000,
        "cacheScope": "private",
    },
}


def speaking(era: Era, application: Application) -> Application:
    """Refuse requests of the other era with HTTP 400, as the SDKs do."""
    if era == "both":
        return application

    async def gate(scope: Message, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and scope["method"] == "POST":
            headers = dict(scope["headers"])
            is_modern = headers.get(b"mcp-protocol-version", b"").decode() == MODERN
            if is_modern != (era == "modern"):
                await _turn_down(era, send)
                return
        await application(scope, receive, send)

    return gate


async def _turn_down(era: Era, send: Any) -> None:
    error: dict[str, Any] = {"code": -32000, "message": "Bad Request: Server not initialized"}
    if era == "modern":
        data = {"supported": [MODERN], "requested": "2025-11-25"}
        error = {"code": -32022, "message": "Unsupported protocol version", "data": data}
    body = json.dumps({"jsonrpc": "2.0", "id": None, "error": error}).encode()
    headers = [(b"content-type", b"application/json")]
    await send({"type": "http.response.start", "status": 400, "headers": headers})
    await send({"type": "http.response.body", "body": body})
