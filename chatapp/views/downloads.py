"""Files that a view makes and a browser saves."""

from collections.abc import AsyncIterator, Iterator
from typing import IO

from asgiref.sync import sync_to_async
from django.http import HttpResponse, StreamingHttpResponse
from django.utils.http import content_disposition_header

from chatapp.server.database import release_connection

CHUNK_BYTES = 256 * 1024
# Of an answer in pieces. Compressed pieces would be separate gzip members, of which clients read
# only the first. A proxy must not collect them either.
STREAM_HEADERS = {"Content-Encoding": "identity", "X-Accel-Buffering": "no"}


def build_download(body: str | bytes, content_type: str, name: str) -> HttpResponse:
    """Return a file that is saved under this name. Text is sent in UTF-8; a lone surrogate, which
    UTF-8 cannot have, is written as in JSON."""
    if isinstance(body, str):
        body = body.encode("utf-8", "backslashreplace")
    return HttpResponse(body, content_type=content_type, headers=_build_headers(name))


def stream_file(file: IO[bytes], content_type: str, name: str) -> StreamingHttpResponse:
    """Return a file of any size, of which a piece at a time is in memory."""
    return _stream(_read_pieces(file), content_type, name)


def stream_pieces(pieces: Iterator[str], content_type: str, name: str) -> StreamingHttpResponse:
    """Return a file of pieces that are made when they are sent, each with the database."""
    return _stream(_make_pieces(pieces), content_type, name)


def _stream(
    content: AsyncIterator[str | bytes], content_type: str, name: str
) -> StreamingHttpResponse:
    headers = _build_headers(name) | STREAM_HEADERS
    return StreamingHttpResponse(content, content_type=content_type, headers=headers)


async def _read_pieces(file: IO[bytes]) -> AsyncIterator[bytes]:
    with file:
        while piece := await sync_to_async(file.read)(CHUNK_BYTES):
            yield piece


async def _make_pieces(pieces: Iterator[str]) -> AsyncIterator[str]:
    while piece := await sync_to_async(_make_piece)(pieces):
        yield piece


def _make_piece(pieces: Iterator[str]) -> str:
    try:
        return next(pieces, "")
    finally:
        # Otherwise a slow browser would keep it until the end of the file.
        release_connection()


def _build_headers(name: str) -> dict[str, str]:
    return {
        "Content-Disposition": content_disposition_header(as_attachment=True, filename=name)
        or "attachment",
        "X-Content-Type-Options": "nosniff",
    }
