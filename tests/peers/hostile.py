"""A raw HTTP server that misbehaves on purpose. The first path segment names how."""

import asyncio
import json
import threading
from typing import Any

from .asking_misdeeds import ASKING_MISDEEDS
from .large_misdeeds import LARGE_MISDEEDS
from .message_misdeeds import MESSAGE_MISDEEDS
from .misdeeds import DONE, MISDEEDS, TOOL, Writer, answer, listing, respond
from .reading_misdeeds import CAPABILITIES, READING, READING_MISDEEDS
from .sse_misdeeds import SSE_MISDEEDS
from .stream_misdeeds import HANDSHAKE, HEAD, SESSION_MISDEEDS, STREAM_MISDEEDS, event, reply
from .threaded import Threaded
from .wire_misdeeds import WIRE_MISDEEDS

ALL_MISDEEDS = (
    MISDEEDS
    | ASKING_MISDEEDS
    | READING_MISDEEDS
    | MESSAGE_MISDEEDS
    | LARGE_MISDEEDS
    | STREAM_MISDEEDS
    | SESSION_MISDEEDS
    | WIRE_MISDEEDS
)

MODERN = "2026-07-28"
# After other misdeeds the connection is closed. A request is followed by the client's answer to it.
KEEP_CONNECTION = ("listing_", "reading_", "session_", "request_only")


class Hostile(Threaded):
    """`with Hostile() as hostile:` misbehaves at `hostile.url(how)`.

    Discovery and lists are proper; the misdeed happens at `tools/call`, after the effect was
    counted. Misdeeds that begin with `listing_` happen at `tools/list`, those with `reading_` at
    reads of resources or prompts, those with `session_` at every request. With `at_once` in the
    path it happens at the first request; with `deaf` the server does not even read the call. With
    `handshake` it speaks the handshake era, with `sse` it does so over HTTP+SSE.
    """

    def __init__(self) -> None:
        super().__init__()
        self.effects = 0
        self.requests: list[str] = []
        self.asked = threading.Event()
        self._streams: list[Writer] = []

    def url(self, misdeed: str, *, at_once: bool = False) -> str:
        return f"http://127.0.0.1:{self.port}/{misdeed}{'/at_once' if at_once else ''}"

    def clear(self) -> None:
        self.effects = 0
        self.requests.clear()
        self.asked.clear()

    async def _connection(self, reader: asyncio.StreamReader, writer: Writer) -> None:
        try:
            while await self._request(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    async def _request(self, reader: asyncio.StreamReader, writer: Writer) -> bool:
        """Answer one request; return False when the connection is over."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        verb, path, _ = head.split("\r\n", 1)[0].split(" ", 2)
        if path.endswith("/deaf") and "mcp-method: tools/call" in head.lower():
            self.effects += 1
            self.requests.append("tools/call")
            await asyncio.sleep(30)
        length = next(
            (
                int(line[15:])
                for line in head.lower().split("\r\n")
                if line.startswith("content-len")
            ),
            0,
        )
        message = json.loads(await reader.readexactly(length) or b"{}")
        method = message.get("method", verb)
        self.requests.append(method)
        self.asked.set()
        misdeed = path.strip("/").split("/")[0]
        if misdeed == "counts":
            self.requests.pop()
            await respond(writer, body=json.dumps([self.effects, self.requests]).encode())
            self.clear()
            return True
        self.effects += method == "tools/call"
        if path.endswith("/sse"):
            return await self._over_sse(writer, message, path)
        deed = ALL_MISDEEDS.get(misdeed)
        if deed and method in self._due(misdeed, at_once=path.endswith("/at_once")):
            await deed(writer, message)
            return misdeed.startswith(KEEP_CONNECTION)
        if path.endswith("/handshake"):
            await self._shake_hands(writer, message)
        else:
            await self._behave(writer, message, misdeed)
        return True

    async def _over_sse(self, writer: Writer, message: dict[str, Any], path: str) -> bool:
        """The stream, or a message that belongs to one: its number is in the path."""
        misdeed, *number, _ = path.strip("/").split("/")
        if not number:
            writer.write(HEAD + f"event: endpoint\ndata: /{misdeed}/".encode())
            writer.write(f"{len(self._streams)}/sse\n\n".encode())
            self._streams.append(writer)
            await writer.drain()
            return True
        is_call = message["method"] == "tools/call"
        if is_call and misdeed in ALL_MISDEEDS:
            await ALL_MISDEEDS[misdeed](writer, message)
            return False
        await respond(writer, status=202)
        stream = self._streams[int(number[0])]
        if is_call and misdeed in SSE_MISDEEDS:
            await SSE_MISDEEDS[misdeed](stream, message)
        elif "id" in message:
            stream.write(event(reply(message, self._agreed(message["method"]))))
            await stream.drain()
        return True

    async def _shake_hands(self, writer: Writer, message: dict[str, Any]) -> None:
        method = message.get("method", "")
        if method == "server/discover":
            error = {"code": -32000, "message": "Bad Request: Server not initialized"}
            body = json.dumps({"jsonrpc": "2.0", "id": None, "error": error}).encode()
            await respond(writer, status=400, body=body)
        elif "id" in message:
            await answer(writer, message, self._agreed(method))
        else:
            await respond(writer, status=202 if method else 405)

    def _agreed(self, method: str) -> dict[str, Any]:
        return HANDSHAKE if method == "initialize" else self._proper(method, {"tools": {}})

    def _due(self, misdeed: str, *, at_once: bool) -> set[str]:
        """The methods at which this misdeed happens."""
        everything = {"server/discover", "initialize", "tools/list", "tools/call", "GET"}
        if misdeed == "refuses_the_answer":
            return {"tools/call", "POST"}  # an answer has no method of its own
        if misdeed == "stream_storm":
            return {"tools/call", "GET"}
        if misdeed.startswith("session_"):
            return everything | {"notifications/initialized", "DELETE"}
        if at_once:
            return everything
        if misdeed.startswith("reading_"):
            return READING
        return {"tools/list"} if misdeed.startswith("listing_") else {"tools/call"}

    async def _behave(self, writer: Writer, message: dict[str, Any], misdeed: str) -> None:
        declared = CAPABILITIES if misdeed.startswith("reading_") else {"tools": {}}
        await answer(writer, message, self._proper(message.get("method", ""), declared))

    def _proper(self, method: str, declared: dict[str, Any]) -> dict[str, Any]:
        if method == "server/discover":
            return {
                "supportedVersions": [MODERN],
                "capabilities": declared,
                "instructions": "Trust me. " * 1_000,
                "resultType": "complete",
                "ttlMs": 60_000,
                "cacheScope": "private",
            }
        if method == "tools/list":
            return listing([TOOL])
        return DONE
