"""Server-sent events, all at once that one read of the connection completed."""

from collections.abc import AsyncGenerator, AsyncIterator

# The name, empty if there is none, and the data.
SentEvent = tuple[str, str]
# A comment is a field without a name.
IGNORED = {"", "id", "retry"}


class EventReader:
    """Splits the bytes of a response into events. Comments, ids and waits are ignored.

    `others` has the lines that the format does not know.
    """

    def __init__(self, pieces: AsyncIterator[bytes], *, keeps_last: bool = False) -> None:
        """`keeps_last`: the stream may end without the empty line that ends its last event."""
        self._pieces = pieces
        self._keeps_last = keeps_last
        self._line: list[bytes] = []
        self._name = ""
        self._data: list[str] = []
        self._ends_in_cr = False
        self.others: list[str] = []

    async def next(self) -> list[SentEvent]:
        """Return the events that arrived, none at the end."""
        async for piece in self._pieces:
            if found := self._add(piece):
                return found
        # A second time, there is nothing that this could end.
        return self._add(b"\n\n") if self._keeps_last else []

    async def aclose(self) -> None:
        if isinstance(self._pieces, AsyncGenerator):
            await self._pieces.aclose()

    def _add(self, piece: bytes) -> list[SentEvent]:
        if self._ends_in_cr:
            # A line feed that follows belongs to the end of that line.
            piece = piece.removeprefix(b"\n")
        self._ends_in_cr = piece.endswith(b"\r")
        if b"\r" in piece:
            piece = piece.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        lines, newline, rest = piece.rpartition(b"\n")
        if not newline:
            self._line.append(piece)
            return []
        text = b"".join((*self._line, lines)).decode(errors="replace")
        self._line = [rest] if rest else []
        return [event for line in text.split("\n") if (event := self._add_line(line))]

    def _add_line(self, line: str) -> SentEvent | None:
        """Add a line, and return the event that it ends."""
        if not line:
            event = (self._name, "\n".join(self._data))
            self._name, self._data = "", []
            return event if event != ("", "") else None
        field, _, value = line.partition(":")
        if field == "data":
            self._data.append(value.removeprefix(" "))
        elif field == "event":
            self._name = value.removeprefix(" ")
        elif field not in IGNORED:
            self.others.append(line)
        return None
