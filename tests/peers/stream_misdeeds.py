"""Misdeeds on an event stream and with sessions."""

import asyncio
import json
from collections.abc import Iterable
from typing import Any

from .misdeeds import DONE, TOOL, Misdeed, Writer, respond

Json = dict[str, Any]

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
HANDSHAKE = {
    "protocolVersion": "2025-11-25",
    "capabilities": {"tools": {}},
    "serverInfo": {"name": "hostile", "version": "1"},
}


def event(message: Json, *, end: str = "\n", before: str = "") -> bytes:
    return f"{before}data: {json.dumps(message)}{end}{end}".encode()


def reply(message: Json, result: Json = DONE) -> Json:
    return {"jsonrpc": "2.0", "id": message.get("id"), "result": result}


def _stream(*parts: bytes, count: int = 1, ends: bool = False) -> Misdeed:
    """Send the parts so often, then wait, or end the stream."""

    async def send(writer: Writer, message: Json) -> None:
        writer.write(HEAD)
        for _unused in range(count):
            for part in parts:
                writer.write(part)
            await writer.drain()
        await asyncio.sleep(0 if ends else 30)

    return send


def _then_answer(parts: Iterable[bytes]) -> Misdeed:
    """Send an odd message first, and the right answer after it."""
    oddities = b"".join(parts)

    async def send(writer: Writer, message: Json) -> None:
        writer.write(HEAD + oddities + event(reply(message)))
        await writer.drain()

    return send


def _note(method: str, params: Any) -> Json:
    return {"jsonrpc": "2.0", "method": method, "params": params}


async def answer_twice(writer: Writer, message: Json) -> None:
    other = reply(message, DONE | {"content": [{"type": "text", "text": "changed"}]})
    writer.write(HEAD + event(reply(message)) + event(other))
    await writer.drain()


PROGRESS = _note("notifications/progress", {"progressToken": 0, "progress": 1})
_PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
LIST_CHANGED = _note("notifications/tools/list_changed", {})


async def _list_and_change(writer: Writer, message: Json) -> None:
    """List the tools as valid for long, and say that they have changed."""
    listed = {"tools": [TOOL], "ttlMs": 3_600_000, "cacheScope": "private"}
    writer.write(HEAD + event(LIST_CHANGED) + event(reply(message, listed)))
    await writer.drain()


STREAM_MISDEEDS: dict[str, Misdeed] = {
    "listing_changes": _list_and_change,
    "stream_comments": _stream(b": still here\n" * 1_000, count=2_000),
    "stream_blank": _stream(b"\n" * 10_000, count=2_000),
    "stream_returns": _stream(event(PROGRESS, end="\r") * 100, count=100),
    "stream_progress": _stream(event(PROGRESS) * 100, count=100),
    "stream_changes": _stream(event(LIST_CHANGED) * 100, count=100),
    "stream_pings": _stream(event(_PING) * 50, count=100),
    "stream_names": _stream(b"event: x\ndata\n\n" * 1_000, count=100),
    "stream_event_heavy": _stream(b"data: " + b"x" * 1_500_000 + b"\n\n"),
    "stream_event_endless": _stream(b"data: x\n" * 400, count=100),
    "stream_line_endless": _stream(b"x" * 60_000, count=1_000),
    "stream_not_utf8": _stream(b"data: \xff\xfe\n\n", ends=True),
    "stream_not_json": _stream(b"data: {]\n\n", ends=True),
    "stream_dust": _stream(b"data: [" + b"{}," * 300_000 + b"{}]\n\n"),
    "stream_empty": _stream(ends=True),
    "stream_storm": _stream(b"id: 7\nretry: 0\ndata:\n\n", ends=True),
    "stream_retry_far": _stream(b"id: 7\nretry: 999999999\ndata:\n\n", ends=True),
    "stream_retry_absurd": _stream(b"id: 7\nretry: " + b"9" * 400 + b"\ndata:\n\n", ends=True),
    "stream_id_heavy": _stream(b"id: " + b"x" * 60_000 + b"\ndata:\n\n", ends=True),
    "stream_odd_notes": _then_answer(
        (
            event(_note("notifications/message", {"level": 7})),
            event(_note("notifications/progress", {"progress": "far"})),
            event(_note("notifications/unheard", {})),
            event({"jsonrpc": "2.0", "id": "x", "method": "sampling/createMessage"}),
            b': a comment with a " in it\n\n',
        )
    ),
    "answer_twice": answer_twice,
}


def _session(extra: str) -> Misdeed:
    """Speak the handshake era, with this header in place of a session id."""

    async def speak(writer: Writer, message: Json) -> None:
        if message.get("method") == "initialize":
            body = json.dumps(reply(message, HANDSHAKE)).encode()
            await respond(writer, body=body, extra=extra)
        elif message.get("method") == "server/discover":
            await respond(writer, status=404, kind="text/plain", body=b"no")
        elif "id" in message:
            await respond(writer, body=json.dumps(reply(message)).encode())
        else:
            await respond(writer, status=202)

    return speak


def _initialized_as(result: Any) -> Misdeed:
    async def speak(writer: Writer, message: Json) -> None:
        if message.get("method") == "initialize":
            await respond(writer, body=json.dumps(reply(message, result)).encode())
        else:
            await respond(writer, status=404, kind="text/plain", body=b"no")

    return speak


SESSION_MISDEEDS: dict[str, Misdeed] = {
    "session_good": _session("Mcp-Session-Id: abc\r\n"),
    "session_letters": _session("Mcp-Session-Id: \u00ff\u20ac\r\n"),
    "session_long": _session(f"Mcp-Session-Id: {'x' * 60_000}\r\n"),
    "session_twice": _session("Mcp-Session-Id: a\r\nMcp-Session-Id: b\r\n"),
    "session_version": _initialized_as(HANDSHAKE | {"protocolVersion": "1999-01-01"}),
    "session_shape": _initialized_as({"protocolVersion": ["2025-11-25"]}),
}
