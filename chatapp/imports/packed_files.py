"""The pictures and other files of an export: beside the chats in a ZIP file, or as base64 in them.

They are read one at a time, and their sizes are limited whatever the ZIP file says.
"""

import base64
import binascii
import re
import struct
import zipfile
import zlib
from collections.abc import Iterator
from typing import IO
from urllib.parse import unquote

from django.conf import settings

from chatapp.files.kinds import HEAD_BYTES, detect_kind

from .values import NotBrought, Reason, SourceFile, What

# Of one import, unpacked.
MAX_FILES = 10_000
MAX_FILES_BYTES = 500_000_000
BLOCK_BYTES = 1_000_000
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
# ChatGPT begins the names of its files with their ids.
_FILE_ID = re.compile(r"file[-_][A-Za-z0-9]+")
_KINDS: dict[What, tuple[str, ...]] = {
    "picture": ("picture",),
    "file": ("picture", "pdf", "package", "text"),
}
# Of names that are no UTF-8, zipfile raises a ValueError.
_DAMAGE = (
    *(zipfile.BadZipFile, zlib.error, struct.error),
    *(EOFError, OSError, RuntimeError, ValueError),
)
# Others take as much memory as the file asks for.
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


def find_ids(address: str) -> tuple[str, ...]:
    """Return the ids in an address of a program, as keys of a file."""
    place = address.rpartition("://")[2]
    return (*_UUID.findall(place.lower()), *_FILE_ID.findall(place))


def make_path_key(path: str) -> tuple[str, ...]:
    """Return the last name of a path as the key of a file."""
    last = path.replace("\\", "/").rpartition("/")[2]
    return (last.casefold(),) if last else ()


class PackedFiles:
    """The files of one export, while its chats are read. `count` and `size` are those that the
    import has read so far."""

    def __init__(self, count: int = 0, size: int = 0) -> None:
        self._count = count
        self._size = size
        self._archive: zipfile.ZipFile | None = None
        self._places: dict[str, zipfile.ZipInfo | None] | None = None

    def use(self, archive: zipfile.ZipFile) -> None:
        self._archive = archive

    def read(self, file: SourceFile) -> bytes:
        """Return the bytes of a file of a kind that messages can have. Raises NotBrought."""
        if self._count >= MAX_FILES or self._size >= MAX_FILES_BYTES:
            raise NotBrought(Reason.MANY)
        data = self._load(file)
        if detect_kind(data) not in _KINDS[file.what]:
            raise NotBrought(Reason.KIND)
        return data

    def read_again(self, file: SourceFile) -> bytes:
        """Return the bytes of a file that was read before, and that counts once for the limits.
        Raises NotBrought."""
        before = self._count, self._size
        try:
            return self._load(file)
        finally:
            self._count, self._size = before

    def _load(self, file: SourceFile) -> bytes:
        if file.encoded:
            data = _decode(file.encoded)
            self._count += 1
            self._size += len(data)
        else:
            data = self._unpack(file)
        if not data:
            raise NotBrought(Reason.DAMAGED)
        return data

    def find_name(self, file: SourceFile) -> str:
        """Return the name that the file has in the ZIP file, without its id and folders."""
        found = None if file.encoded else self._find(file)
        last = found.filename.rpartition("/")[2] if found else ""
        ids = _UUID.match(last.lower()) or _FILE_ID.match(last)
        name = last[ids.end() :].lstrip("-_") if ids else last
        return "" if name.startswith(".") else name

    def _find(self, file: SourceFile) -> zipfile.ZipInfo | None:
        if self._archive is None or not file.keys:
            return None
        if self._places is None:
            self._places = _index(self._archive)
        return next((found for key in file.keys if (found := self._places.get(key))), None)

    def _unpack(self, file: SourceFile) -> bytes:
        found = self._find(file)
        if found is None or self._archive is None:
            raise NotBrought(Reason.MISSING)
        # Zipfile reads no more than this: one that has more than it says has a wrong checksum.
        if found.file_size > settings.FILE_MAX_BYTES:
            raise NotBrought(Reason.LARGE)
        if found.compress_type not in _METHODS:
            raise NotBrought(Reason.DAMAGED)
        self._count += 1
        try:
            with self._archive.open(found) as packed:
                head = packed.read(HEAD_BYTES)
                # Of a film or a page, no more than this is read.
                if head and file.what == "picture" and detect_kind(head) != "picture":
                    raise NotBrought(Reason.KIND)
                # What is damaged is unpacked too, so it counts.
                self._size += found.file_size
                data = head + _read_rest(packed)
        except _DAMAGE:
            raise NotBrought(Reason.DAMAGED) from None
        return data


def _read_rest(packed: IO[bytes]) -> bytes:
    """Return what is left of an entry, in steps that the reader of the archive allows."""
    return b"".join(iter(lambda: packed.read(BLOCK_BYTES), b""))


def _index(archive: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo | None]:
    """Return the files by their keys. A name that several have is the key of none; of several with
    an id, the first counts."""
    found: dict[str, zipfile.ZipInfo | None] = {}
    for each in archive.infolist():
        if each.is_dir() or each.filename.startswith("__MACOSX"):
            continue
        folder, _slash, last = each.filename.rpartition("/")
        key = last.casefold()
        found[key] = None if key in found else each
        for own in _list_ids(folder.rpartition("/")[2].lower(), last):
            found.setdefault(own, each)
    return found


def _list_ids(folder: str, last: str) -> Iterator[str]:
    """Yield the ids of a file: at the beginning of its name, or as the name of its folder."""
    if own := _FILE_ID.match(last):
        yield own[0]
    if own := _UUID.match(last.lower()):
        yield own[0]
    if _UUID.fullmatch(folder):
        yield folder


def _decode(encoded: str) -> bytes:
    """Return the bytes of base64 or of a data URI. Raises NotBrought."""
    about, comma, text = encoded.partition(",") if encoded[:5] == "data:" else ("", "", encoded)
    if comma and not about.endswith(";base64"):
        raise NotBrought(Reason.DAMAGED)
    if len(text) * 3 // 4 > settings.FILE_MAX_BYTES + 2:
        raise NotBrought(Reason.LARGE)
    try:
        data = base64.b64decode("".join(unquote(text).split()), validate=True)
    except (binascii.Error, ValueError):
        raise NotBrought(Reason.DAMAGED) from None
    if len(data) > settings.FILE_MAX_BYTES:
        raise NotBrought(Reason.LARGE)
    return data
