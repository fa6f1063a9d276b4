"""A stream around one of a transport's own: opened and closed with it."""

from types import TracebackType
from typing import Any, Self


class StreamAround:
    """What passes is for those who inherit."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def __aenter__(self) -> Self:
        await self._stream.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool | None:
        ended: bool | None = await self._stream.__aexit__(kind, error, traceback)
        return ended
