"""Files in pieces: a browser gets the whole file, and no connection is held meanwhile."""

import io
from collections.abc import Callable, Iterator

import pytest
from django.db import connection
from django.http import StreamingHttpResponse
from django.middleware.gzip import GZipMiddleware
from django.test import RequestFactory

from chatapp.models import Member
from chatapp.views.downloads import CHUNK_BYTES, stream_file, stream_pieces

CONTENT = b"0123456789abcdef" * (CHUNK_BYTES // 8)


def build_from_file() -> StreamingHttpResponse:
    return stream_file(io.BytesIO(CONTENT), "text/plain", "long.txt")


def build_from_pieces() -> StreamingHttpResponse:
    half = len(CONTENT) // 2
    pieces = iter((CONTENT[:half].decode(), CONTENT[half:].decode()))
    return stream_pieces(pieces, "text/plain", "long.txt")


@pytest.mark.parametrize("build", [build_from_file, build_from_pieces])
async def test_pieces_are_not_compressed_one_by_one(
    build: Callable[[], StreamingHttpResponse],
) -> None:
    """Browsers read only the first member of a gzip file."""
    built, request = build(), RequestFactory().get("/", headers={"Accept-Encoding": "gzip"})
    response = GZipMiddleware(lambda _request: built)(request)
    assert isinstance(response, StreamingHttpResponse)
    assert response["Content-Encoding"] == "identity"
    assert b"".join([piece async for piece in response]) == CONTENT


@pytest.mark.django_db(transaction=True)
async def test_no_connection_is_held_between_pieces() -> None:
    held: list[bool] = []

    def make_pieces() -> Iterator[str]:
        for number in range(3):
            held.append(connection.connection is not None)
            yield f"{number} {Member.objects.count()} "

    response = stream_pieces(make_pieces(), "text/plain", "counts.txt")
    assert b"".join([piece async for piece in response]) == b"0 0 1 0 2 0 "
    assert held[1:] == [False, False]
