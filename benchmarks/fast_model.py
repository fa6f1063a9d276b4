"""A model server that costs little: each event of OpenAI Chat Completions is encoded once, and each
chunk is one write.

`python benchmarks/fast_model.py` prints its address. The last message decides the answer: `Bench
KEY START CHUNKS RATE LOST`, so many chunks from START on, so many a second, without the chunk LOST
if it is not negative. `GET /times/KEY` returns when the request came and when the first and the
last chunk were written, in seconds of the monotonic clock, which all processes of a machine share.

Each chunk has one word that no other chunk has, so a reader can tell which ones came.
"""

import asyncio
import json
import re
from string import ascii_lowercase
from typing import cast

import uvloop

MAX_CHUNKS = 5_000  # and one more, which no measured answer has
FIRST_CHUNK_SECONDS = 0.05
WANTED = re.compile(rb"Bench (\w+) (\d+) (\d+) (\d+) (-?\d+)")
LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)
HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n"
    b"x-request-id: bench\r\n\r\n"
)
NOT_FOUND = b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n"
# A section of Markdown has this many chunks; what is before and after the words of some of them.
SECTION = 40
MARKS = {
    0: ("\n\n## ", "\n\n"),
    5: ("**", "** "),
    9: ("`", "` "),
    12: ("\n\n- ", " "),
    15: ("\n- ", " "),
    18: ("\n\n| ", " "),
    19: ("| ", " |\n|---|---|\n"),
    20: ("| ", " "),
    21: ("| ", " |\n\n"),
    24: ("\n\n```python\n", " = "),
    27: ("", "\n"),
    31: ("", "\n```\n\n"),
}


def make_word(number: int) -> str:
    """The word of one chunk."""
    high, low = divmod(number, 26)
    return "z" + ascii_lowercase[high // 26] + ascii_lowercase[high % 26] + ascii_lowercase[low]


def make_chunk(number: int) -> str:
    before, after = MARKS.get(number % SECTION, ("", " "))
    return before + make_word(number) + after


def encode_event(delta: dict[str, str], finish: str | None = None, *, usage: bool = False) -> bytes:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
    event: dict[str, object] = {
        "id": "chatcmpl-bench",
        "object": "chat.completion.chunk",
        "created": 1_700_000_000,
        "model": "bench",
        "choices": [] if usage else [choice],
    }
    if usage:
        event["usage"] = {"prompt_tokens": 10, "completion_tokens": 10, "total_tokens": 20}
    return encode_part(b"data: " + json.dumps(event, separators=(",", ":")).encode() + b"\n\n")


def encode_part(data: bytes) -> bytes:
    """One part of a body whose length is not known before."""
    return b"%x\r\n%b\r\n" % (len(data), data)


CHUNKS = [encode_event({"content": make_chunk(number)}) for number in range(MAX_CHUNKS + 1)]
BEGIN = encode_event({"role": "assistant", "content": ""})
END = (
    encode_event({}, "stop")
    + encode_event({}, usage=True)
    + encode_part(b"data: [DONE]\n\n")
    + b"0\r\n\r\n"
)
times: dict[str, list[float]] = {}


class Answering(asyncio.Protocol):
    """One connection, which may carry several requests one after the other."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._unread = b""
        self._next: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, error: Exception | None) -> None:
        if self._next is not None:
            self._next.cancel()

    def data_received(self, data: bytes) -> None:
        self._unread += data
        head, complete, body = self._unread.partition(b"\r\n\r\n")
        length = LENGTH.search(head)
        if not complete or len(body) < (int(length[1]) if length else 0):
            return
        self._unread = b""
        if head.startswith(b"GET /times/"):
            self._tell_times(head.split()[1].rpartition(b"/")[2].decode())
            return
        wanted = WANTED.findall(body)
        if not wanted:  # such as the list of models
            self._transport.write(NOT_FOUND)
            return
        key, start, chunks, rate, lost = wanted[-1]
        self._times = times[key.decode()] = [self._loop.time(), 0.0, 0.0]
        self._start, self._chunks, self._rate = int(start), int(chunks), int(rate)
        self._lost = int(lost)
        self._transport.write(HEAD + BEGIN)
        self._number = 0
        self._due = self._loop.time() + FIRST_CHUNK_SECONDS
        self._next = self._loop.call_at(self._due, self._write_chunk)

    def _write_chunk(self) -> None:
        number = self._number
        self._number += 1
        is_last = self._number == self._chunks
        data = b"" if number == self._lost else CHUNKS[self._start + number]
        now = self._loop.time()
        if number == 0:
            self._times[1] = now
        if is_last:
            self._times[2] = now
            data += END
        else:
            due = self._due + self._number / self._rate
            self._next = self._loop.call_at(due, self._write_chunk)
        self._transport.write(data)

    def _tell_times(self, key: str) -> None:
        body = json.dumps(times.pop(key, None)).encode()
        head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
        self._transport.write(head % len(body) + body)


async def serve() -> None:
    server = await asyncio.get_running_loop().create_server(Answering, "127.0.0.1", 0)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(serve())
