"""Misdeeds below HTTP: headers, framing, encodings and connections."""

import asyncio
import gzip
import json
import zlib
from typing import Any

from .misdeeds import DONE, Misdeed, Writer, respond

Json = dict[str, Any]

OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"


def _answer(message: Json) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": message.get("id"), "result": DONE}).encode()


def _raw(*parts: bytes, forever: bytes = b"", pause: float = 0.0) -> Misdeed:
    """Send these bytes, then `forever` again and again, with a pause between."""

    async def send(writer: Writer, message: Json) -> None:
        for part in parts:
            writer.write(part)
        await writer.drain()
        while forever:
            writer.write(forever)
            await writer.drain()
            await asyncio.sleep(pause)

    return send


def _drop_by_drop(head: bytes, pause: float) -> Misdeed:
    async def send(writer: Writer, message: Json) -> None:
        for byte in head + _answer(message):
            writer.write(bytes((byte,)))
            await writer.drain()
            await asyncio.sleep(pause)

    return send


def _encoded(encoding: str, body: bytes) -> Misdeed:
    async def send(writer: Writer, message: Json) -> None:
        await respond(writer, body=body, extra=f"Content-Encoding: {encoding}\r\n")

    return send


def _with_length(length: str) -> Misdeed:
    async def send(writer: Writer, message: Json) -> None:
        writer.write(OK + f"Content-Length: {length}\r\n\r\n".encode() + _answer(message))
        await writer.drain()
        await asyncio.sleep(30)

    return send


async def trailing_junk(writer: Writer, message: Json) -> None:
    """A whole answer, and then a second one that was not requested."""
    await respond(writer, body=_answer(message))
    await respond(writer, status=200, body=b'{"jsonrpc":"2.0","id":99,"result":{}}')


async def half_closed(writer: Writer, message: Json) -> None:
    writer.write(OK + b"Content-Length: 99\r\n\r\n{")
    await writer.drain()
    writer.write_eof()
    await asyncio.sleep(30)


async def closed_before_headers(writer: Writer, message: Json) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Ty")
    await writer.drain()
    writer.close()


def _cut_after(count: int) -> Misdeed:
    """The connection breaks after so many bytes of a good answer."""

    async def send(writer: Writer, message: Json) -> None:
        body = _answer(message)
        whole = OK + f"Content-Length: {len(body)}\r\n\r\n".encode() + body
        writer.write(whole[:count] if count >= 0 else whole[: len(whole) + count])
        await writer.drain()
        writer.close()

    return send


_ZEROS = b"x" * 30_000_000
_CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
_LONG_HEADERS = b"X-Padding: " + b"x" * 60_000 + b"\r\n"

WIRE_MISDEEDS: dict[str, Misdeed] = {
    "headers_endless": _raw(OK, forever=_LONG_HEADERS),
    "headers_many": _raw(OK, forever=b"A: b\r\n" * 1_000),
    "header_endless": _raw(OK + b"X: ", forever=b"x" * 60_000),
    "headers_slow": _drop_by_drop(OK, 0.25),
    "headers_folded": _raw(OK + b"X: a\r\n" + b" b\r\n" * 9_000 + b"\r\n{"),
    "header_nul": _raw(OK + b"X: a\x00b\r\n\r\n{}"),
    "interim_flood": _raw(forever=b"HTTP/1.1 100 Continue\r\n\r\n" * 1_000),
    "hints_flood": _raw(forever=b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n" * 500),
    "upgrade": _raw(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\nhello"),
    "not_http": _raw(b"SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n"),
    "binary": _raw(bytes(range(256)) * 40),
    "status_999": _raw(b"HTTP/1.1 999 Odd\r\nContent-Length: 0\r\n\r\n"),
    "status_text": _raw(b"HTTP/1.1 two hundred\r\n\r\n"),
    "chunk_dust": _raw(_CHUNKED, forever=b"1\r\nx\r\n" * 2_000),
    "chunk_names": _raw(_CHUNKED, forever=b"1;" + b"x" * 60_000),
    "chunk_size_wrong": _raw(_CHUNKED + b"ZZ\r\nx\r\n"),
    "chunk_size_huge": _raw(_CHUNKED + b"f" * 17 + b"\r\n", forever=b"x" * 60_000),
    "trailers_endless": _raw(_CHUNKED + b"2\r\n{}\r\n0\r\n", forever=_LONG_HEADERS),
    "trailing_junk": trailing_junk,
    "length_huge": _with_length("9" * 19),
    "length_absurd": _with_length("9" * 5_000),
    "length_negative": _with_length("-1"),
    "length_twice": _with_length("5\r\nContent-Length: 6"),
    "length_short": _with_length("5"),
    "length_and_chunked": _with_length("5\r\nTransfer-Encoding: chunked"),
    "transfer_gzip": _raw(OK + b"Transfer-Encoding: gzip, chunked\r\n\r\n"),
    "body_slow": _drop_by_drop(OK + b"Content-Length: 99\r\n\r\n", 0.25),
    "half_closed": half_closed,
    "closed_before_headers": closed_before_headers,
    "cut_at_the_first_byte": _cut_after(1),
    "cut_in_the_headers": _cut_after(40),
    "cut_in_the_body": _cut_after(-20),
    "cut_before_the_last_byte": _cut_after(-1),
    "bomb_deflate": _encoded("deflate", zlib.compress(_ZEROS, 1)),
    "bomb_br": _encoded("br", b"\x00" * 100_000),
    "bomb_zstd": _encoded("zstd", b"\x28\xb5\x2f\xfd" + b"\x00" * 100_000),
    "bomb_twice": _encoded("gzip, gzip", gzip.compress(gzip.compress(_ZEROS, 1), 1)),
    "bomb_hidden": _encoded("identity, gzip", gzip.compress(_ZEROS, 1)),
    "bomb_unnamed": _raw(OK + b"Content-Length: 100\r\n\r\n" + gzip.compress(_ZEROS)[:100]),
}
