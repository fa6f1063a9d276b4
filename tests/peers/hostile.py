"""A raw HTTP server that misbehaves on purpose. The first path segment names how."""

import asyncio
import json
import socket
import threading
from typing import Any, Self

from .misdeeds import DONE, MISDEEDS, TOOL, Writer, answer, listing
from .reading_misdeeds import CAPABILITIES, READING, READING_MISDEEDS

MODERN = "2026-07-28"


class Hostile:
    """`with Hostile() as hostile:` misbehaves at `hostile.url(how)`.

    It discovers and lists properly; the misdeed comes at `tools/call`, after the effect was
    counted. Misdeeds that begin with `listing_` come at `tools/list`, those with `reading_` at
    whatever reads resources or prompts. With `at_once` in the path it comes at the first request.
    """

    def __init__(self) -> None:
        self.effects = 0
        self.requests: list[str] = []
        self.asked = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listening.getsockname()[1])
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._stopped = asyncio.Event()

    def url(self, misdeed: str, *, at_once: bool = False) -> str:
        return f"http://127.0.0.1:{self.port}/{misdeed}{'/at_once' if at_once else ''}"

    def clear(self) -> None:
        self.effects = 0
        self.requests.clear()
        self.asked.clear()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stopped.set)
        self._thread.join(timeout=5)

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        server = await asyncio.start_server(self._connection, sock=self._listening)
        await self._stopped.wait()
        server.close()

    async def _connection(self, reader: asyncio.StreamReader, writer: Writer) -> None:
        try:
            while await self._request(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    async def _request(self, reader: asyncio.StreamReader, writer: Writer) -> bool:
        """Answer one request; false when the connection is over."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        verb, path, _ = head.split("\r\n", 1)[0].split(" ", 2)
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
        self.effects += method == "tools/call"
        if method in self._due(misdeed, at_once=path.endswith("/at_once")):
            await (MISDEEDS | READING_MISDEEDS)[misdeed](writer, message)
            return misdeed.startswith(("listing_", "reading_"))
        await self._behave(writer, message, misdeed)
        return True

    def _due(self, misdeed: str, *, at_once: bool) -> set[str]:
        """The methods at which this misdeed happens."""
        if at_once:
            return {"server/discover", "initialize", "tools/list", "tools/call", "GET"}
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
