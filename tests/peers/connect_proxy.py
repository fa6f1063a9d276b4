"""A forward proxy that speaks CONNECT, records its requests, and can refuse."""

import asyncio
from contextlib import suppress

from .threaded import Threaded


class ConnectProxy(Threaded):
    """`with ConnectProxy() as proxy:` it tunnels at `proxy.url`."""

    def __init__(self, refusal: bytes = b"") -> None:
        super().__init__()
        self.heads: list[str] = []
        self.url = f"http://127.0.0.1:{self.port}"
        self._refusal = refusal

    @property
    def places(self) -> list[str]:
        return [head.split(" ")[1] for head in self.heads]

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            self.heads.append(head)
            if self._refusal:
                writer.write(self._refusal)
                await writer.drain()
            else:
                await self._join(head.split(" ")[1], reader, writer)
        writer.close()

    async def _join(
        self, place: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        host, _, port = place.rpartition(":")
        inner_reader, inner_writer = await asyncio.open_connection(host, int(port))
        writer.write(b"HTTP/1.1 200 Connection established\r\nX: y\r\n\r\n")
        back = asyncio.create_task(_copy(inner_reader, writer))
        await _copy(reader, inner_writer)
        await back


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
        writer.close()
