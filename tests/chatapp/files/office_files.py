"""Office files as people have them, made by the libraries, and as nobody should, made by hand."""

import io
import zipfile
from collections.abc import Mapping
from typing import Any

from docx import Document
from openpyxl import Workbook
from pptx import Presentation

TYPES = (
    '<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">'
    '<Default Extension="rels" '
    'ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
    '<Default Extension="xml" ContentType="application/xml"/>'
    '<Override PartName="/word/document.xml" ContentType="application/vnd.openxmlformats-'
    'officedocument.wordprocessingml.document.main+xml"/></Types>'
)


def saved(file: Any) -> bytes:
    out = io.BytesIO()
    file.save(out)
    return out.getvalue()


def word_file() -> bytes:
    document = Document()
    document.add_heading("Minutes", 0)
    document.add_heading("Costs", 1)
    document.add_paragraph("We agreed: 40 €, 日本語 🙂 شكرا.")
    document.add_paragraph("First", style="List Bullet")
    document.add_paragraph("Second", style="List Number")
    table = document.add_table(2, 2)
    for cell, text in zip(
        (cell for row in table.rows for cell in row.cells),
        ("Item", "Price", "A | B", "3"),
        strict=True,
    ):
        cell.text = text
    document.add_paragraph("After the table.")
    return saved(document)


def workbook() -> bytes:
    book = Workbook()
    book.active.title = "Sales"
    book.active.append(["Month", "Sold"])
    book.active.append(["May", 40])
    book.active.append([])
    book.active.append(["June", None])
    secret = book.create_sheet("Old")
    secret.sheet_state = "hidden"
    secret.append(["x"])
    return saved(book)


def slides() -> bytes:
    show = Presentation()
    first = show.slides.add_slide(show.slide_layouts[1])
    first.shapes.title.text = "Plan"
    first.placeholders[1].text = "Buy boats\nSell boats"
    first.notes_slide.notes_text_frame.text = "Smile."
    second = show.slides.add_slide(show.slide_layouts[6])
    table = second.shapes.add_table(1, 2, 0, 0, 9_000, 9_000).table
    table.cell(0, 0).text, table.cell(0, 1).text = "Boat", "3 m"
    return saved(show)


def package(parts: Mapping[str, bytes | str], types: str = TYPES) -> bytes:
    """An archive with these parts."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        if types:
            archive.writestr("[Content_Types].xml", types)
        for name, content in parts.items():
            archive.writestr(name, content)
    return out.getvalue()


def changed(data: bytes, name: str, old: bytes, new: bytes) -> bytes:
    """The same archive with this text of one part replaced."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        parts = {each: archive.read(each) for each in archive.namelist()}
    assert old in parts[name]
    parts[name] = parts[name].replace(old, new, 1)
    return package(parts, types="")


def with_parts(data: bytes, parts: Mapping[str, bytes]) -> bytes:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        kept = {each: archive.read(each) for each in archive.namelist()}
    return package({**kept, **parts}, types="")


def with_declaration(data: bytes, declaration: str, text: str, encoding: str = "utf-8") -> bytes:
    """A Word file whose document has this document type and says this text."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        xml = archive.read("word/document.xml").decode()
    head, body = xml.split("?>", 1)
    body = body.replace("After the table.", text)
    written = f'<?xml version="1.0" encoding="{encoding}"?>{declaration}{body}'
    return with_parts(data, {"word/document.xml": written.encode(encoding)})


def with_password_flag(data: bytes) -> bytes:
    """An archive that says that its first entry is encrypted."""
    changed = bytearray(data)
    for signature, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        changed[changed.index(signature) + offset] |= 1
    return bytes(changed)


def locked_office() -> bytes:
    """How Office writes a file with a password: a compound file with this part."""
    return b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + "EncryptedPackage".encode("utf-16-le")


def bomb(megabytes: int) -> bytes:
    return package({"word/document.xml": b"<a>" + b" " * megabytes * 1_000_000 + b"</a>"})


def open_document() -> bytes:
    return package({"mimetype": "application/vnd.oasis.opendocument.text"}, types="")


def long_sheet(rows: int) -> bytes:
    """A workbook with this many rows, written by hand because the library is slow."""
    book = workbook()
    with zipfile.ZipFile(io.BytesIO(book)) as archive:
        sheet = archive.read("xl/worksheets/sheet1.xml").decode()
    before, after = sheet.split("<sheetData>")[0], sheet.split("</sheetData>")[1]
    row = '<row r="{0}"><c r="A{0}"><v>{0}</v></c><c r="B{0}"><v>7</v></c></row>'
    body = "".join(row.format(number) for number in range(1, rows + 1))
    return with_parts(
        book,
        {"xl/worksheets/sheet1.xml": f"{before}<sheetData>{body}</sheetData>{after}".encode()},
    )
