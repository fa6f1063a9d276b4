"""As much of HTTP/1.1 as a scripted model server needs: requests whole, answers in chunks."""

import asyncio
import json
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    path: str
    headers: dict[str, str]
    body: Any
    query: dict[str, str]


async def read_request(reader: asyncio.StreamReader) -> Request | None:
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.strip().split("\r\n")
    headers = {k.lower(): v.strip() for k, _, v in (line.partition(":") for line in lines)}
    data = await reader.readexactly(int(headers.get("content-length", 0)))
    path, _, query = first.split(" ")[1].partition("?")
    body = json.loads(data) if data else None
    return Request(path=path, headers=headers, body=body, query=dict(parse_qsl(query)))


def head(status: int, headers: dict[str, str]) -> bytes:
    lines = [f"HTTP/1.1 {status} Scripted", "transfer-encoding: chunked", "x-request-id: req_1"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


LAST_CHUNK = chunk(b"")


async def send_document(
    writer: asyncio.StreamWriter, status: int, headers: dict[str, str], text: str
) -> None:
    writer.write(head(status, headers))
    data = text.encode()
    writer.write(chunk(data) + LAST_CHUNK if data else LAST_CHUNK)
    await writer.drain()


def split(data: bytes, write: int | tuple[int, ...]) -> list[bytes]:
    """The data in pieces of this size, or cut at these places."""
    places = range(write, len(data), write) if isinstance(write, int) else sorted(set(write))
    edges = [0, *(place for place in places if 0 < place < len(data)), len(data)]
    return [data[start:end] for start, end in zip(edges, edges[1:], strict=False)]
