"""The uploaded file: kept in the database in pieces, so that a worker in any process can read
it."""

import io
from typing import IO

from chatapp.models import ChatImport, ImportPiece

PIECE_BYTES = 1_000_000
# The text of the chats and the pictures beside it are read in turns.
PIECES_HELD = 4


def store_file(chat_import: ChatImport, file: IO[bytes]) -> None:
    """Store the file, each piece in a transaction of its own: SQLite has one writer, which would
    keep all others waiting for seconds."""
    number = 0
    while data := file.read(PIECE_BYTES):
        ImportPiece.objects.create(chat_import=chat_import, number=number, data=data)
        number += 1


def open_file(chat_import: ChatImport) -> IO[bytes]:
    """Return the file, to be read at any place."""
    return io.BufferedReader(_StoredFile(chat_import), PIECE_BYTES)


def delete_file(chat_import: ChatImport) -> None:
    """Delete the pieces one by one, for the same reason."""
    for piece in list(chat_import.pieces.order_by("-number").values_list("pk", flat=True)):
        ImportPiece.objects.filter(pk=piece).delete()


class _StoredFile(io.RawIOBase):
    """The pieces as one file. The last ones that were read are in memory."""

    def __init__(self, chat_import: ChatImport) -> None:
        self._pieces = ImportPiece.objects.filter(chat_import=chat_import)
        self._size = chat_import.size
        self._place = 0
        self._held: dict[int, bytes] = {}

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._place

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._place, io.SEEK_END: self._size}[whence]
        if start + offset < 0:
            raise OSError("Before the beginning of the file.")
        self._place = start + offset
        return self._place

    def readinto(self, buffer) -> int:  # type: ignore[no-untyped-def]  # Buffer is new in Python 3.12
        number, offset = divmod(self._place, PIECE_BYTES)
        data = self._load(number)[offset : offset + len(buffer)]
        buffer[: len(data)] = data
        self._place += len(data)
        return len(data)

    def _load(self, number: int) -> bytes:
        if number not in self._held:
            found = self._pieces.filter(number=number).values_list("data", flat=True).first()
            while len(self._held) >= PIECES_HELD:
                del self._held[next(iter(self._held))]
            self._held[number] = bytes(found or b"")
        return self._held[number]
