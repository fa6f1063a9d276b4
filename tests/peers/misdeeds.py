"""Misdeeds in place of an answer: one small coroutine each."""

import asyncio
import gzip
import json
from collections.abc import Awaitable, Callable
from itertools import count
from typing import Any

TOOL = {"name": "act", "description": "Acts.", "inputSchema": {"type": "object"}}
DONE = {"content": [{"type": "text", "text": "done"}], "resultType": "complete"}

Writer = asyncio.StreamWriter
Misdeed = Callable[[Writer, dict[str, Any]], Awaitable[None]]

_page_numbers = count()
_BOMB = gzip.compress(b"x" * 30_000_000, 1)


def listing(tools: list[dict[str, Any]], cursor: str | None = None) -> dict[str, Any]:
    page: dict[str, Any] = {"tools": tools, "ttlMs": 0, "cacheScope": "private"}
    return page | ({"nextCursor": cursor} if cursor else {}) | {"resultType": "complete"}


async def answer(writer: Writer, message: dict[str, Any], result: dict[str, Any]) -> None:
    body = {"jsonrpc": "2.0", "id": message.get("id"), "result": result}
    await respond(writer, body=json.dumps(body).encode())


async def respond(
    writer: Writer,
    *,
    status: int = 200,
    kind: str = "application/json",
    body: bytes = b"",
    extra: str = "",
) -> None:
    head = f"HTTP/1.1 {status} Status\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n"
    writer.write(f"{head}{extra}\r\n".encode() + body)
    await writer.drain()


async def _stream_head(writer: Writer, kind: str = "text/event-stream") -> None:
    writer.write(f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\n\r\n".encode())
    await writer.drain()


async def html(writer: Writer, message: dict[str, Any]) -> None:
    await respond(writer, kind="text/html", body=b"<html><h1>Welcome</h1></html>")


async def garbage(writer: Writer, message: dict[str, Any]) -> None:
    await respond(writer, body=b"{]")


def _status(status: int, extra: str = "") -> Misdeed:
    async def refuse(writer: Writer, message: dict[str, Any]) -> None:
        await respond(writer, status=status, kind="text/plain", body=b"no", extra=extra)

    return refuse


def _rpc_error(status: int, code: int, text: str) -> Misdeed:
    async def refuse(writer: Writer, message: dict[str, Any]) -> None:
        error = {"code": code, "message": text}
        body = {"jsonrpc": "2.0", "id": message.get("id"), "error": error}
        await respond(writer, status=status, body=json.dumps(body).encode())

    return refuse


async def accepted(writer: Writer, message: dict[str, Any]) -> None:
    await respond(writer, status=202)


async def hang(writer: Writer, message: dict[str, Any]) -> None:
    await asyncio.sleep(30)


async def ask_and_turn_the_answer_away(writer: Writer, message: dict[str, Any]) -> None:
    """Ask during a call, and answer the POST with the answer as if it came too soon."""
    if message.get("method") != "tools/call":
        return await respond(writer, status=429, extra="Retry-After: 7\r\n")
    schema = {"type": "object", "properties": {"name": {"type": "string"}}}
    params = {"mode": "form", "message": "Well?", "requestedSchema": schema}
    asked = {"jsonrpc": "2.0", "id": 1, "method": "elicitation/create", "params": params}
    await _stream_head(writer)
    writer.write(f"data: {json.dumps(asked)}\n\n".encode())
    await writer.drain()
    await asyncio.sleep(30)


async def drip(writer: Writer, message: dict[str, Any]) -> None:
    await _stream_head(writer)
    for _unused in range(1000):
        writer.write(b": still here\n\n")
        await writer.drain()
        await asyncio.sleep(0.05)


async def drop_at_once(writer: Writer, message: dict[str, Any]) -> None:
    writer.transport.abort()


async def drop_in_body(writer: Writer, message: dict[str, Any]) -> None:
    writer.write(
        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{"
    )
    await writer.drain()


async def drop_in_stream(writer: Writer, message: dict[str, Any]) -> None:
    await _stream_head(writer)
    writer.write(b"event: message\ndata: {\n")
    await writer.drain()


async def giant(writer: Writer, message: dict[str, Any]) -> None:
    await _stream_head(writer, "application/json")
    writer.write(b'{"jsonrpc":"2.0","id":1,"result":{"x":"')
    for _unused in range(2000):
        writer.write(b"x" * 100_000)
        await writer.drain()


async def giant_announced(writer: Writer, message: dict[str, Any]) -> None:
    writer.write(
        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 999999999\r\n\r\n{"
    )
    await writer.drain()
    await asyncio.sleep(30)


async def bomb(writer: Writer, message: dict[str, Any]) -> None:
    await respond(writer, body=_BOMB, extra="Content-Encoding: gzip\r\n")


async def wrong_id(writer: Writer, message: dict[str, Any]) -> None:
    await answer(writer, {"id": "somebody-else"}, DONE)


async def notifications(writer: Writer, message: dict[str, Any]) -> None:
    note = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"data": "x"}}
    note["params"] = {"level": "info", "data": "x"}
    await _stream_head(writer)
    for _unused in range(100_000):
        writer.write(f"event: message\ndata: {json.dumps(note)}\n\n".encode())
        await writer.drain()


async def deep(writer: Writer, message: dict[str, Any]) -> None:
    await respond(writer, body=b'{"jsonrpc":"2.0","id":1,"result":' + b"[" * 100_000)


async def asks(writer: Writer, message: dict[str, Any]) -> None:
    wanted = {"type": "object", "properties": {"name": {"type": "string"}}}
    question = {"message": "Who?", "mode": "form", "requestedSchema": wanted}
    request = {"method": "elicitation/create", "params": question}
    result = {"resultType": "input_required", "inputRequests": {"who": request}}
    await answer(writer, message, result)


async def listing_endless(writer: Writer, message: dict[str, Any]) -> None:
    await answer(writer, message, listing([TOOL], f"page-{next(_page_numbers)}"))


async def listing_cycle(writer: Writer, message: dict[str, Any]) -> None:
    await answer(writer, message, listing([TOOL], "again"))


async def listing_flood(writer: Writer, message: dict[str, Any]) -> None:
    tools = [TOOL | {"name": f"act_{number}"} for number in range(1_200)]
    await answer(writer, message, listing(tools))


async def listing_bombs(writer: Writer, message: dict[str, Any]) -> None:
    nested: dict[str, Any] = {}
    for _unused in range(60):
        nested = {"type": "object", "properties": {"x": nested}}
    tools = [
        TOOL,
        TOOL | {"description": "A second tool of the same name."},
        TOOL | {"name": "deep", "inputSchema": {"type": "object", "properties": {"x": nested}}},
        TOOL | {"name": "wide", "inputSchema": {"type": "object", "enum": list(range(9_000))}},
        TOOL | {"name": "wordy", "description": "x" * 20_000},
        TOOL | {"name": "tasked", "execution": {"taskSupport": "required"}},
    ]
    await answer(writer, message, listing(tools))


async def sse_mute(writer: Writer, message: dict[str, Any]) -> None:
    """No endpoint event ever comes."""
    await _stream_head(writer)
    await asyncio.sleep(30)


async def sse_elsewhere(writer: Writer, message: dict[str, Any]) -> None:
    await _stream_head(writer)
    writer.write(b"event: endpoint\ndata: http://127.0.0.1:1/elsewhere\n\n")
    await writer.drain()
    await asyncio.sleep(30)


def _sse_towards(endpoint: str) -> Misdeed:
    async def stream(writer: Writer, message: dict[str, Any]) -> None:
        """A proper stream whose messages must go to a place that misbehaves."""
        await _stream_head(writer)
        writer.write(f"event: endpoint\ndata: {endpoint}\n\n".encode())
        await writer.drain()
        await asyncio.sleep(30)

    return stream


MISDEEDS: dict[str, Misdeed] = {
    "html": html,
    "garbage": garbage,
    "h400": _status(400),
    "h401": _status(401, 'WWW-Authenticate: Bearer realm="x"\r\n'),
    "h403": _status(403),
    "h404": _status(404),
    "h405": _status(405),
    "h429": _status(429, "Retry-After: 7\r\n"),
    "h401_bare": _status(401),
    "h403_challenge": _status(403, 'WWW-Authenticate: Bearer error="insufficient_scope"\r\n'),
    "h429_bare": _status(429),
    "h503": _status(503),
    "h503_wait": _status(503, "Retry-After: 7\r\n"),
    "h500": _status(500),
    "h502": _status(502),
    "h204": _status(204),
    "redirect": _status(307, "Location: http://127.0.0.1:1/elsewhere?token=x\r\n"),
    "redirect_here": _status(308, "Location: /well_behaved\r\n"),
    "header_mismatch": _rpc_error(400, -32020, "Header mismatch"),
    "no_such_tool": _rpc_error(200, -32602, "Unknown tool"),
    "version": _rpc_error(400, -32022, "Unsupported protocol version"),
    "accepted": accepted,
    "hang": hang,
    "refuses_the_answer": ask_and_turn_the_answer_away,
    "drip": drip,
    "drop_at_once": drop_at_once,
    "drop_in_body": drop_in_body,
    "drop_in_stream": drop_in_stream,
    "giant": giant,
    "giant_announced": giant_announced,
    "bomb": bomb,
    "wrong_id": wrong_id,
    "notifications": notifications,
    "deep": deep,
    "asks": asks,
    "listing_endless": listing_endless,
    "listing_cycle": listing_cycle,
    "listing_flood": listing_flood,
    "listing_bombs": listing_bombs,
    "listing_h500": _status(500),
    "sse_to_drop": _sse_towards("/drop_at_once/at_once"),
    "sse_to_h500": _sse_towards("/h500/at_once"),
    "sse_to_h401": _sse_towards("/h401/at_once"),
    "sse_mute": sse_mute,
    "sse_elsewhere": sse_elsewhere,
}
