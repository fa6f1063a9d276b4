"""Answers that are larger than what is kept. Most are whole; some have no end, or two."""

import json
from collections.abc import Iterator
from typing import Any

from .misdeeds import Misdeed, Writer

Json = dict[str, Any]

_MEGABYTE = 1024 * 1024
_ROW = b'{"name":"a } \\" ] b","of":[1,null,{"isError":true}]},'


def _large(
    before: str,
    filler: bytes,
    after: str,
    *,
    megabytes: int = 6,
    kind: str = "application/json",
    is_cut: bool = False,
) -> Misdeed:
    """Send `before`, so many megabytes of filler, and `after`. ID is replaced by that of the
    request."""

    async def send(writer: Writer, message: Json) -> None:
        number = json.dumps(message.get("id"))
        parts = [before.replace("ID", number).encode()]
        piece = filler * (64 * 1024 // len(filler))
        parts += [piece] * (megabytes * _MEGABYTE // len(piece))
        parts.append(after.replace("ID", number).encode())
        length = sum(map(len, parts)) + is_cut
        head = f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\r\n"
        for part in (head.encode(), *parts):
            writer.write(part)
            await writer.drain()
        if is_cut:
            writer.close()

    return send


_TEXT = '{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text","text":"'
_NOTE = 'data: {"jsonrpc":"2.0","method":"notifications/progress","params":{}}\n\n'
_STREAM = "text/event-stream"


def _endings() -> Iterator[tuple[str, Misdeed]]:
    yield "large_text", _large(_TEXT, b"x", '"}],"resultType":"complete"}}', megabytes=30)
    yield "large_escapes", _large(_TEXT, b'\\"}]\\n', '"}]}}')
    rows = '{"jsonrpc":"2.0","id":ID,"result":{"content":[],"structuredContent":{"rows":['
    yield "large_rows", _large(rows, _ROW, '7]},"isError":false}}')
    yield "large_failed", _large(_TEXT, b"x", '"}],"isError":true}}')
    refusal = '{"jsonrpc":"2.0","id":ID,"error":{"code":-32602,"message":"'
    yield "large_refused", _large(refusal, b"x", '"}}')
    yield "large_asks", _large(_TEXT, b"x", '"}],"resultType":"input_required"}}')
    yield "large_cut", _large(_TEXT, b"x", '"}]}}', is_cut=True)
    yield "large_open", _large(_TEXT, b"x", '"}]}')
    yield "large_two", _large(_TEXT, b"x", '"}]}}{"jsonrpc":"2.0","id":ID,"result":{}}')
    yield "large_other", _large(_TEXT.replace("ID", "7"), b"x", '"}]}}')
    yield "large_beyond", _large(_TEXT, b"x", '"}]}}', megabytes=80)
    yield "large_event", _large(f"{_NOTE}data: {_TEXT}", b"x", '"}]}}\n\n', kind=_STREAM)
    yield (
        "large_event_between",
        _large(f"{_NOTE}data: {_TEXT}", b"x", f'"}}]}}}}\n\n{_NOTE}', megabytes=2, kind=_STREAM),
    )
    yield "large_event_open", _large(f"{_NOTE}data: {_TEXT}", b"x", '"}]}}\n', kind=_STREAM)
    last = f'data: {_TEXT}"}}],"isError":true}}}}\n\n'
    yield "large_notes", _large("", _NOTE.encode(), last, megabytes=1, kind=_STREAM)


LARGE_MISDEEDS: dict[str, Misdeed] = dict(_endings())
