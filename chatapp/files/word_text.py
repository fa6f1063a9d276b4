"""The text of a Word file: headings, paragraphs, lists, tables and notes. Only the reader's child
process imports it."""

import io
from collections.abc import Iterator
from typing import Any

from docx.opc.part import PartFactory
from docx.oxml import parse_xml
from docx.oxml.ns import qn
from docx.package import Package
from docx.parts.document import DocumentPart

from chatapp.files.markdown_tables import escape_cell, render_table

# Word writes some content twice, for old programs. Deleted text is kept until changes are accepted.
SKIPPED = {
    qn("w:del"),
    qn("w:moveFrom"),
    qn("w:rPr"),
    qn("w:pPr"),
    "{http://schemas.openxmlformats.org/markup-compatibility/2006}Fallback",
}
BREAKS = {qn("w:br"): "\n", qn("w:cr"): "\n", qn("w:tab"): "\t", qn("w:noBreakHyphen"): "-"}
NOTE_MARKS = {qn("w:footnoteReference"): "", qn("w:endnoteReference"): "e"}
NOTES = (("/footnotes", "w:footnote", ""), ("/endnotes", "w:endnote", "e"))
MAX_HEADING = 6


def open_file(data: bytes, main_type: str) -> "WordFile":
    # The library knows the type of plain documents only, not of templates and those with macros.
    PartFactory.part_type_for[main_type] = DocumentPart
    return WordFile(Package.open(io.BytesIO(data)).main_document_part)


class WordFile:
    pages = rows = 0

    def __init__(self, part: Any) -> None:
        self._part = part
        self._names = {style.style_id: style.name or "" for style in part.document.styles}

    def iterate_pieces(self) -> Iterator[str]:
        yield from filter(None, map(str.rstrip, self._iterate_blocks(self._part.element.body)))
        for name, tag, mark in NOTES:
            yield from self._iterate_notes(name, tag, mark)

    def _iterate_blocks(self, parent: Any) -> Iterator[str]:
        for child in parent:
            if child.tag == qn("w:p"):
                yield self._render_paragraph(child)
            elif child.tag == qn("w:tbl"):
                yield _render_table(child)
            elif child.tag not in SKIPPED:
                # Content controls and marked changes hold further paragraphs.
                yield from self._iterate_blocks(child)

    def _render_paragraph(self, paragraph: Any) -> str:
        text = "".join(_iterate_text(paragraph)).strip()
        name = self._names.get(paragraph.style or "", "")
        if not text:
            return ""
        level = name.removeprefix("Heading ")
        if name == "Title" or level != name and level.isdecimal():
            depth = 1 if name == "Title" else min(MAX_HEADING, int(level))
            return f"{'#' * depth} {' '.join(text.split())}"
        properties = paragraph.pPr
        numbering = properties.numPr if properties is not None else None
        if numbering is None and not name.startswith("List "):
            return text
        depth = numbering.ilvl.val if numbering is not None and numbering.ilvl is not None else 0
        return f"{'  ' * depth}{'1.' if 'Number' in name else '-'} {text}"

    def _iterate_notes(self, name: str, tag: str, mark: str) -> Iterator[str]:
        for relation in self._part.rels.values():
            if relation.is_external or not relation.reltype.endswith(name):
                continue
            for note in parse_xml(relation.target_part.blob).iterchildren(qn(tag)):
                text = " ".join("".join(_iterate_text(note)).split())
                if text and note.get(qn("w:type")) is None:
                    yield f"[^{mark}{note.get(qn('w:id'))}]: {text}"


def _iterate_text(element: Any) -> Iterator[str]:
    for child in element:
        if child.tag == qn("w:t"):
            yield child.text or ""
        elif child.tag in BREAKS:
            yield BREAKS[child.tag]
        elif child.tag in NOTE_MARKS:
            yield f"[^{NOTE_MARKS[child.tag]}{child.get(qn('w:id'))}]"
        elif child.tag not in SKIPPED:
            yield from _iterate_text(child)
            if child.tag == qn("w:p"):
                yield "\n"


def _render_table(table: Any) -> str:
    return render_table([_read_row(row) for row in table.iter(qn("w:tr")) if _is_in(row, table)])


def _read_row(row: Any) -> list[str]:
    """Return the cells; a merged one is followed by empty ones, so that columns stay in line."""
    cells: list[str] = []
    for cell in row.iter(qn("w:tc")):
        if not _is_in(cell, row):
            continue
        span = cell.find(f"{qn('w:tcPr')}/{qn('w:gridSpan')}")
        width = int(span.get(qn("w:val"))) if span is not None else 1
        cells += [escape_cell("".join(_iterate_text(cell))), *[""] * (min(width, 64) - 1)]
    return cells


def _is_in(element: Any, table: Any) -> bool:
    """Return whether this is part of the table itself and not of a table in one of its cells."""
    inner = {qn("w:tc")} if element.tag == qn("w:tr") else {qn("w:tbl")}
    parent = element.getparent()
    while parent is not table:
        if parent.tag in inner:
            return False
        parent = parent.getparent()
    return True
