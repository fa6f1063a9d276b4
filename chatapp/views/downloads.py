"""Files that a view makes and a browser saves."""

from collections.abc import AsyncIterator
from typing import IO

from asgiref.sync import sync_to_async
from django.http import HttpResponse, StreamingHttpResponse
from django.utils.http import content_disposition_header

CHUNK_BYTES = 256 * 1024


def build_download(body: str | bytes, content_type: str, name: str) -> HttpResponse:
    """Return a file that is saved under this name. Text is sent in UTF-8; a lone surrogate, which
    UTF-8 cannot have, is written as in JSON."""
    if isinstance(body, str):
        body = body.encode("utf-8", "backslashreplace")
    return HttpResponse(body, content_type=content_type, headers=_build_headers(name))


def stream_download(file: IO[bytes], content_type: str, name: str) -> StreamingHttpResponse:
    """Return a file of any size, of which a piece at a time is in memory."""
    return StreamingHttpResponse(
        _read_pieces(file), content_type=content_type, headers=_build_headers(name)
    )


async def _read_pieces(file: IO[bytes]) -> AsyncIterator[bytes]:
    with file:
        while piece := await sync_to_async(file.read)(CHUNK_BYTES):
            yield piece


def _build_headers(name: str) -> dict[str, str]:
    return {
        "Content-Disposition": content_disposition_header(as_attachment=True, filename=name)
        or "attachment",
        "X-Content-Type-Options": "nosniff",
    }
