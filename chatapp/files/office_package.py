"""Office files: the archive and its XML are checked before a library reads them. Only the reader's
child process imports it."""

import importlib
import io
import re
import zipfile
from collections.abc import Iterator
from xml.etree.ElementTree import ParseError

from defusedxml import DTDForbidden
from defusedxml.ElementTree import iterparse

from chatapp.files.kinds import DOCX, PPTX, XLSX
from chatapp.files.text_limit import join_pieces

MAX_ENTRIES = 5_000
# Worksheets are read row by row. Other parts are held in memory, in a multiple of their size.
MAX_SHEET_BYTES = 1_000_000_000
MAX_PART_BYTES = 60_000_000
MAX_OTHER_BYTES = 150_000_000
# Deflate reaches 1032. Text of office programs stays far below this.
MAX_RATIO = 200
RATIO_COUNTS_FROM = 1_000_000

CONTENT_TYPES = "[Content_Types].xml"
# The type of the main part, also of templates, slide shows and files with macros.
MAIN_TYPE = re.compile(
    rb'"(application/vnd\.(?:openxmlformats-officedocument\.|ms-)'
    rb"(wordprocessingml|word|spreadsheetml|excel|presentationml|powerpoint)"
    rb'\.(?:[\w.]+)\.main\+xml)"'
)
BINARY_WORKBOOK = b"application/vnd.ms-excel.sheet.binary"
READERS = {
    b"word": (DOCX, "chatapp.files.word_text", "\n\n"),
    b"spre": (XLSX, "chatapp.files.workbook_text", "\n"),
    b"exce": (XLSX, "chatapp.files.workbook_text", "\n"),
    b"pres": (PPTX, "chatapp.files.slides_text", "\n\n"),
    b"powe": (PPTX, "chatapp.files.slides_text", "\n\n"),
}


class Problem(Exception):
    """Why a package is not read: a key of the problems in `reader.py`."""


def read(data: bytes, _most_pages: int, most_characters: int) -> dict[str, object]:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as package:
            media_type, module, separator, main_type = _examine(package)
            notes = _list_left_out(package)
    except Problem as problem:
        return {"problem": str(problem)}
    found = importlib.import_module(module).open_file(data, main_type)
    pieces = (piece for pieces in (notes, found.iterate_pieces()) for piece in pieces)
    words, was_cut = join_pieces(pieces, most_characters, separator)
    return {
        "media_type": media_type,
        "words": words,
        "was_cut": was_cut,
        "pages": found.pages,
        "rows": found.rows,
    }


def _examine(package: zipfile.ZipFile) -> tuple[str, str, str, str]:
    """Return the media type, the reader, what separates its pieces, and the type of the main part.
    Raise Problem."""
    entries = package.infolist()
    if len(entries) > MAX_ENTRIES:
        raise Problem("huge")
    if any(entry.flag_bits & 1 for entry in entries):
        raise Problem("encrypted")
    names = set(package.namelist())
    if CONTENT_TYPES not in names:
        raise Problem("open_document" if _is_open_document(package, names) else "archive")
    _check_sizes(entries)
    for entry in entries:
        _check_prolog(package, entry)
    types = package.read(CONTENT_TYPES)
    if (main := MAIN_TYPE.search(types)) is None:
        raise Problem("binary_office" if BINARY_WORKBOOK in types else "archive")
    return (*READERS[main[2][:4]], main[1].decode())


def _is_open_document(package: zipfile.ZipFile, names: set[str]) -> bool:
    if "mimetype" not in names:
        return False
    with package.open("mimetype") as part:
        return part.read(100).startswith(b"application/vnd.oasis.opendocument")


def _check_sizes(entries: list[zipfile.ZipInfo]) -> None:
    """Refuse archives that unpack to too much. `zipfile` never unpacks more than an entry says."""
    sheets = others = 0
    for entry in entries:
        if entry.filename.startswith("xl/worksheets/"):
            sheets += entry.file_size
            continue
        others += entry.file_size
        is_dense = entry.file_size > MAX_RATIO * max(1, entry.compress_size)
        if is_dense and entry.file_size > RATIO_COUNTS_FROM or entry.file_size > MAX_PART_BYTES:
            raise Problem("huge")
    if sheets > MAX_SHEET_BYTES or others > MAX_OTHER_BYTES:
        raise Problem("huge")


def _check_prolog(package: zipfile.ZipFile, entry: zipfile.ZipInfo) -> None:
    """Refuse document type definitions, which come before the first element: office files have
    none, and they can define entities that grow or name other files. The parsers of the libraries
    expand no entity either."""
    with package.open(entry) as part:
        try:
            next(iterparse(part, events=("start",), forbid_dtd=True), None)
        except DTDForbidden:
            raise Problem("dtd") from None
        except ParseError:
            if entry.filename.endswith((".xml", ".rels")):
                raise Problem("broken") from None


def _list_left_out(package: zipfile.ZipFile) -> Iterator[str]:
    names = package.namelist()
    if any(name.endswith("vbaProject.bin") for name in names):
        yield "[The file has macros. They were left out and never run.]"
    if embedded := sum("/embeddings/" in name and not name.endswith("/") for name in names):
        yield f"[{embedded} embedded files were left out.]"
