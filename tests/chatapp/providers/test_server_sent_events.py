"""Server-sent events, however their bytes are cut."""

from collections.abc import AsyncIterator

import pytest

from chatapp.providers.server_sent_events import EventReader, SentEvent

STREAM = "event: delta\ndata: {\ndata: 1}\n\n: a comment\nid: 7\ndata:é\u2028\n\nevent: ping\n\n"
EVENTS = [("delta", "{\n1}"), ("", "é\u2028"), ("ping", "")]


async def read_all(*pieces: bytes) -> list[list[SentEvent]]:
    async def send() -> AsyncIterator[bytes]:
        for piece in pieces:
            yield piece

    reader, found = EventReader(send()), []
    while events := await reader.next():
        found.append(events)
    return found


@pytest.mark.parametrize("end", ["\n", "\r", "\r\n"])
async def test_bytes_may_be_cut_anywhere(end: str) -> None:
    whole = STREAM.replace("\n", end).encode()
    assert await read_all(whole) == [EVENTS]
    for place in range(1, len(whole)):
        assert sum(await read_all(whole[:place], whole[place:]), []) == EVENTS
    assert sum(await read_all(*(bytes([byte]) for byte in whole)), []) == EVENTS


async def test_each_read_gives_all_that_it_completed() -> None:
    pieces = (b"data: a\n\ndata: b\n\nda", b"ta: c\n", b"\n")
    assert await read_all(*pieces) == [[("", "a"), ("", "b")], [("", "c")]]


async def test_an_event_that_the_end_cuts_off_is_dropped() -> None:
    assert await read_all(b"data: a\n\ndata: b\n") == [[("", "a")]]


async def test_lines_that_are_no_fields_are_kept() -> None:
    async def send() -> AsyncIterator[bytes]:
        yield b': a comment\nid: 7\n{\n  "error": 1\n}\ndata: a\n\n'

    reader = EventReader(send())
    assert await reader.next() == [("", "a")]
    assert reader.others == ["{", '  "error": 1', "}"]


async def test_what_is_not_unicode_is_replaced() -> None:
    assert await read_all(b"data: a\xffb\n\n") == [[("", "a\ufffdb")]]
