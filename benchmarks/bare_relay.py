"""The least that a relay can cost under our server: an ASGI application without Django, accounts or
storage. It reads the stream of the model server raw and sends the text of each chunk as it is.

uvicorn loads it with `--app-dir benchmarks`, so that nothing else of the project is imported.
"""

import asyncio
import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any
from urllib.parse import urlsplit

MODEL = urlsplit(os.environ.get("BENCH_MODEL_URL", "http://127.0.0.1:1/v1"))
END = "bench-end"
Message = dict[str, Any]


async def app(
    scope: Message,
    receive: Callable[[], Awaitable[Message]],
    send: Callable[[Message], Awaitable[None]],
) -> None:
    if scope["type"] != "websocket":
        return
    await receive()
    await send({"type": "websocket.accept"})
    while (message := await receive())["type"] == "websocket.receive":
        async for text in read_answer(message["text"]):
            await send({"type": "websocket.send", "text": text})
        await send({"type": "websocket.send", "text": END})


async def read_answer(question: str) -> AsyncIterator[str]:
    """Yield the text of each chunk of the answer."""
    reader, writer = await asyncio.open_connection(MODEL.hostname, MODEL.port)
    messages = [{"role": "user", "content": question}]
    body = json.dumps({"model": "bench", "messages": messages, "stream": True}).encode()
    head = f"POST {MODEL.path}/chat/completions HTTP/1.1\r\nhost: {MODEL.netloc}\r\n"
    writer.write(head.encode() + b"content-length: %d\r\n\r\n" % len(body) + body)
    try:
        while (line := await reader.readline()) and line != b"data: [DONE]\n":
            if line.startswith(b"data: "):
                for choice in json.loads(line[6:])["choices"]:
                    if text := choice["delta"].get("content"):
                        yield text
    finally:
        writer.close()
