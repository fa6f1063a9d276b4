"""Reads the chats of an uploaded file, a ZIP archive or JSON, one after another.

No size that a file claims is believed: what is unpacked is counted while it is read, and no more of
the file is in memory than one chat.
"""

import codecs
import io
import json
import re
import struct
import zipfile
import zlib
from collections.abc import Iterator
from typing import IO, Any

from django.utils.translation import gettext as _

from .packed_files import PackedFiles

# Of all JSON in a file, unpacked, and of one chat.
MAX_UNPACKED_BYTES = 500_000_000
MAX_CHAT_CHARACTERS = 64_000_000
# Brackets and commas of one chat: its values in memory need a hundred times the bytes of a bracket.
MAX_CHAT_VALUES = 4_000_000
# Values of all files, chats or not.
MAX_VALUES = 200_000
# What is read at once: the longest is the list of contents at the end of an archive.
MAX_CONTENTS_BYTES = 16_000_000
MAX_JSON_FILES = 10_000
BLOCK_BYTES = 1_000_000
CHATS = re.compile(r"conversations(-\d+)?\.json", re.IGNORECASE)
_BLANK = re.compile(r"[\s,]*")


class UnreadableFile(Exception):
    """The file cannot be read, with a sentence for its person."""


def iterate_chats(file: IO[bytes], files: PackedFiles) -> Iterator[dict[str, Any]]:
    """Yield the objects that may be chats. Meanwhile `files` reads the files beside them. Raises
    UnreadableFile, also after some of them."""
    file.seek(0)
    beginning = file.read(4)
    file.seek(0)
    if beginning[:2] != b"PK":
        yield from _iterate_objects(_Bounded(file))
        return
    try:
        yield from _iterate_archive(file, files)
    except (zipfile.BadZipFile, zlib.error, EOFError, struct.error, OSError):
        raise UnreadableFile(_("This ZIP file is damaged. Download it again.")) from None
    except RuntimeError:  # it is encrypted, or compressed in a way that zipfile does not know
        sentence = _("This ZIP file cannot be unpacked here. Unpack it, then choose its JSON file.")
        raise UnreadableFile(sentence) from None


def _iterate_archive(file: IO[bytes], files: PackedFiles) -> Iterator[dict[str, Any]]:
    with zipfile.ZipFile(_ShortReads(file)) as archive:
        files.use(archive)
        names = _choose_names(archive.namelist())
        if not names:
            sentence = _("This ZIP file has no chats in JSON. Choose the file that you exported.")
            raise UnreadableFile(sentence)
        bounded = _Bounded(None)
        for name in names:
            with archive.open(name) as packed:
                bounded.continue_with(packed)
                yield from _iterate_objects(bounded)


class _ShortReads(io.RawIOBase):
    """The file of an archive, for a reader that believes the lengths in it. One that reads a huge
    list of contents at once gets UnreadableFile."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._file.tell()

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return self._file.seek(offset, whence)

    def read(self, size: int = -1) -> bytes:
        most = MAX_CONTENTS_BYTES + 1
        data = self._file.read(most if size < 0 else min(size, most))
        if len(data) == most:
            sentence = _("This ZIP file has too many files. Choose only the one with chats.")
            raise UnreadableFile(sentence)
        return data


def _choose_names(names: list[str]) -> list[str]:
    """Return the files with chats: those that programs name so, otherwise all JSON."""
    listed = [(name.rpartition("/")[2], name) for name in names if not name.startswith("__MACOSX")]
    chats = [name for last, name in listed if CHATS.fullmatch(last)]
    others = [name for last, name in listed if last.lower().endswith(".json") and last[:1] != "."]
    return sorted(chats)[:MAX_JSON_FILES] or others[:MAX_JSON_FILES]


class _Bounded:
    """Counts what is read of all files together."""

    def __init__(self, file: IO[bytes] | None) -> None:
        self._file = file
        self._read = 0
        self._values = 0

    def continue_with(self, file: IO[bytes]) -> None:
        self._file = file

    def read(self) -> bytes:
        block = self._file.read(BLOCK_BYTES) if self._file else b""
        self._read += len(block)
        if self._read > MAX_UNPACKED_BYTES:
            raise UnreadableFile(_("This file has more than 500 MB of text. Export fewer chats."))
        return block

    def count_value(self) -> None:
        self._values += 1
        if self._values > MAX_VALUES:
            raise UnreadableFile(_("This file has too many entries. Export fewer chats."))


def _iterate_objects(file: _Bounded) -> Iterator[dict[str, Any]]:
    """Yield the objects of a list, or the one object of a file."""
    text = _Text(file)
    is_list = text.begins_list()
    if not is_list and text.has_more(is_list=False) and not text.begins_object():
        raise UnreadableFile(_say_no_json())
    count = 0
    while text.has_more(is_list=is_list):
        file.count_value()
        value = text.read_value()
        count += 1
        if isinstance(value, dict):
            yield value
        if not is_list:
            return
    if not count and not is_list:
        raise UnreadableFile(_("This file is empty."))


class _Text:
    """The text of a JSON file, of which only a piece is in memory."""

    def __init__(self, file: _Bounded) -> None:
        self._file = file
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")()
        self._json = json.JSONDecoder()
        self._held = ""
        self._place = 0
        # What is held was checked up to here.
        self._checked_to = 0
        self._is_over = False

    def begins_list(self) -> bool:
        self._skip_blank()
        if self._held[self._place : self._place + 1] != "[":
            return False
        self._place += 1
        return True

    def begins_object(self) -> bool:
        return self._held.startswith("{", self._place)

    def has_more(self, *, is_list: bool) -> bool:
        """Whether another value follows. Raises UnreadableFile if a list has no end."""
        self._skip_blank()
        following = self._held[self._place : self._place + 1]
        if is_list and not following:
            raise UnreadableFile(_say_cut_off())
        return following not in ("", "]")

    def read_value(self) -> Any:
        """Return the value that begins here. What is held doubles until it is whole."""
        while True:
            self._check_values()
            try:
                value, end = self._json.raw_decode(self._held, self._place)
            except json.JSONDecodeError:
                self._hold_more()
            except RecursionError:
                sentence = _(
                    "A chat in this file is nested too deeply. "
                    "If it is from LibreChat, export it without the option “Recursive”."
                )
                raise UnreadableFile(sentence) from None
            except ValueError:
                raise UnreadableFile(_say_no_json()) from None
            else:
                self._place = end
                return value

    def _check_values(self) -> None:
        """Raise UnreadableFile if what is held has too many values to be in memory."""
        if self._place < self._checked_to:
            return
        self._checked_to = len(self._held)
        count = sum(self._held.count(mark, self._place) for mark in "[{,")
        if count > MAX_CHAT_VALUES:
            sentence = _("A chat in this file has too many parts. Export fewer chats.")
            raise UnreadableFile(sentence)

    def _hold_more(self) -> None:
        self._hold(self._held[self._place :])
        if self._is_over:
            raise UnreadableFile(_say_cut_off())
        if len(self._held) > MAX_CHAT_CHARACTERS:
            sentence = _("A chat in this file has more than 64 million characters, or is broken.")
            raise UnreadableFile(sentence)
        pieces = [self._held]
        left = MAX_CHAT_CHARACTERS - len(self._held)
        wanted = max(BLOCK_BYTES, min(len(self._held), left))
        while wanted > 0 and not self._is_over:
            piece = self._read_piece()
            pieces.append(piece)
            wanted -= len(piece)
        self._hold("".join(pieces))

    def _hold(self, text: str) -> None:
        self._held, self._place, self._checked_to = text, 0, 0

    def _read_piece(self) -> str:
        block = self._file.read()
        self._is_over = not block
        try:
            return self._decoder.decode(block, final=not block)
        except UnicodeDecodeError:
            sentence = _("This file is not UTF-8 text. Choose the file as it was exported.")
            raise UnreadableFile(sentence) from None

    def _skip_blank(self) -> None:
        while True:
            found = _BLANK.match(self._held, self._place)
            self._place = found.end() if found else self._place
            if self._place < len(self._held) or self._is_over:
                return
            self._hold(self._read_piece())


def _say_cut_off() -> str:
    return _("This file is cut off or damaged. Download it again, or export the chats again.")


def _say_no_json() -> str:
    return _("This file is not valid JSON. Choose the file as it was exported.")
