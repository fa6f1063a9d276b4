"""Misdeeds of an HTTP+SSE server on its stream after it has accepted a call with 202."""

import asyncio

from .misdeeds import Misdeed, Writer
from .stream_misdeeds import LIST_CHANGED, PROGRESS, Json, event, reply


async def says_nothing(writer: Writer, message: Json) -> None:
    pass


async def closes(writer: Writer, message: Json) -> None:
    writer.close()


async def aborts(writer: Writer, message: Json) -> None:
    writer.transport.abort()


async def breaks_off(writer: Writer, message: Json) -> None:
    writer.write(event(reply(message))[:30])
    await writer.drain()
    writer.transport.abort()


def _flood(part: bytes) -> Misdeed:
    async def send(writer: Writer, message: Json) -> None:
        for _unused in range(100):
            writer.write(part * 100)
            await writer.drain()
        await asyncio.sleep(30)

    return send


def _once(part: bytes) -> Misdeed:
    async def send(writer: Writer, message: Json) -> None:
        writer.write(part)
        await writer.drain()

    return send


async def wrong_id(writer: Writer, message: Json) -> None:
    writer.write(event(reply({"id": "somebody-else"})))
    await writer.drain()


SSE_MISDEEDS: dict[str, Misdeed] = {
    "says_nothing": says_nothing,
    "closes": closes,
    "aborts": aborts,
    "breaks_off": breaks_off,
    "floods_progress": _flood(event(PROGRESS)),
    "floods_changes": _flood(event(LIST_CHANGED)),
    "floods_comments": _flood(b": still here\n" * 200),
    "heavy_event": _once(b"data: " + b"x" * 1_500_000 + b"\n\n"),
    "endless_line": _flood(b"x" * 60_000),
    "other_id": wrong_id,
    "no_json": _once(b"data: {]\n\n"),
}
