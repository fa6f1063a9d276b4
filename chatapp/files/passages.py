"""The text of a file in passages: pieces of about a page's third that end where a paragraph does,
each with its place in the file."""

import csv
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, Literal

from .kinds import PDF, PPTX, TEXT, XLSX

MIN_CHARACTERS: Final = 1_000
MAX_CHARACTERS: Final = 1_500
# A heading begins another passage once the last one has this much.
MIN_BEFORE_HEADING: Final = 400
PLACE_CHARACTERS: Final = 200
TABLES: Final = (".csv", ".tsv")

PlaceKind = Literal["", "page", "row", "heading", "slide", "sheet"]
# The lines that our readers write above each page, slide and sheet.
_PAGE: Final = re.compile(r"\[Page (\d+)\]")
_SLIDE: Final = re.compile(r"## Slide (\d+(?: \(hidden\))?(?:: .+)?)")
SHEET_MARK: Final = "## Sheet: "
_HEADING: Final = re.compile(r"#{1,6}[ \t]+(?=\S)")
_BLANK_LINES: Final = re.compile(r"\n[ \t]*(?:\n[ \t]*)+")
# Where a block that is too long is cut, the best first.
_CUTS: Final = ("\n", ". ", " ")


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """A piece of text. `place` is the number of a page or row, the number and title of a
    slide, the name of a sheet, or a heading."""

    text: str
    place_kind: PlaceKind = ""
    place: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Block:
    """Text that is only cut if it is too long. `begins` says that a passage begins with it, and
    `may_begin` that one does if the last one is long enough."""

    text: str
    place_kind: PlaceKind
    place: str
    begins: bool = False
    may_begin: bool = False


def split_passages(name: str, media_type: str, text: str) -> list[Passage]:
    """Return the whole text in passages, in its order, without the space between them."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    if media_type == TEXT and name.lower().endswith(TABLES):
        return [*_join(_list_records(text), "")]
    if media_type == XLSX:
        return [*_join(_list_sheet_rows(text), "\n")]
    return [*_join(_list_blocks(media_type, text), "\n\n")]


def _list_blocks(media_type: str, text: str) -> Iterator[_Block]:
    kind: PlaceKind = ""
    place, begins = "", False
    for paragraph in _BLANK_LINES.split(text):
        line, _newline, rest = paragraph.strip("\n").partition("\n")
        found, found_place = _read_place(media_type, line.strip())
        if found:
            kind, place, begins = found, found_place, begins or found != "heading"
        if found == "page":
            paragraph = rest
        if paragraph.strip():
            yield _Block(
                text=paragraph.strip("\n").rstrip(),
                place_kind=kind,
                place=place[:PLACE_CHARACTERS],
                begins=begins,
                may_begin=found == "heading",
            )
            begins = False


def _read_place(media_type: str, line: str) -> tuple[PlaceKind, str]:
    """Return the place that begins with this line, if one does. Text that looks like the mark of
    another kind of file is no place."""
    if media_type == PDF:
        page = _PAGE.fullmatch(line)
        return ("page", page[1]) if page else ("", "")
    if media_type == PPTX:
        slide = _SLIDE.fullmatch(line)
        return ("slide", slide[1]) if slide else ("", "")
    heading = _read_heading(line)
    return ("heading", heading) if heading else ("", "")


def _read_heading(line: str) -> str:
    """Return the text of a Markdown heading, or an empty text. One pattern for the whole line would
    take hours for a long line of spaces."""
    opening = _HEADING.match(line)
    if opening is None:
        return ""
    text = line[opening.end() :]
    without_end = text.rstrip("#")
    is_closed = without_end != text and without_end.endswith((" ", "\t"))
    return without_end.rstrip() if is_closed else text


def _list_sheet_rows(text: str) -> Iterator[_Block]:
    """Yield the rows of a workbook. Cells have no line breaks, so each line is a row or names a
    sheet."""
    kind: PlaceKind = ""
    place = ""
    for line in filter(str.strip, text.split("\n")):
        if begins := line.startswith(SHEET_MARK):
            kind, place = "sheet", line.removeprefix(SHEET_MARK)[:PLACE_CHARACTERS]
        yield _Block(text=line, place_kind=kind, place=place, begins=begins)


def _list_records(text: str) -> Iterator[_Block]:
    """Yield the rows of a table. A row with line breaks in its cells is one block."""
    lines = text.splitlines(keepends=True)
    reader, end, rows = csv.reader(iter(lines)), 0, 0
    try:
        for rows, _cells in enumerate(reader, start=1):
            record = "".join(lines[end : reader.line_num])
            end = reader.line_num
            yield _Block(text=record, place_kind="row", place=str(rows))
    except csv.Error:  # such as a cell that is too long: the rest is taken line by line
        for place, line in enumerate(lines[end:], start=rows + 1):
            yield _Block(text=line, place_kind="row", place=str(place))


def _join(blocks: Iterable[_Block], between: str) -> Iterator[Passage]:
    first: _Block | None = None
    pieces: list[str] = []
    length = 0

    def build() -> Iterator[Passage]:
        text = between.join(pieces).strip("\n").rstrip()
        if first is not None and text.strip():
            yield Passage(text=text, place_kind=first.place_kind, place=first.place)

    for block in blocks:
        for number, piece in enumerate(_cut(block.text)):
            is_new = number == 0 and (
                block.begins or (block.may_begin and length >= MIN_BEFORE_HEADING)
            )
            is_full = length >= MIN_CHARACTERS or length + len(piece) > MAX_CHARACTERS
            if pieces and (is_new or is_full):
                yield from build()
                first, pieces, length = None, [], 0
            # A few words before the first heading, such as a note on macros, belong to it.
            first = first if first is not None and first.place_kind else block
            pieces.append(piece)
            length += len(piece) + len(between)
    yield from build()


def _cut(text: str) -> Iterator[str]:
    """Yield the text in pieces that are not too long."""
    start = 0
    while len(text) - start > MAX_CHARACTERS:
        end = _find_cut(text, start)
        yield text[start:end]
        start = end
    yield text[start:]


def _find_cut(text: str, start: int) -> int:
    most = start + MAX_CHARACTERS
    for ending in _CUTS:
        found = text.rfind(ending, start + MAX_CHARACTERS // 2, most)
        if found >= 0:
            return found + len(ending)
    return most
