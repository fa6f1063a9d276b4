"""The text of a workbook: each sheet with its name and its rows as a table. Only the reader's child
process imports it."""

import io
from collections.abc import Iterator
from typing import Any

from openpyxl import load_workbook

from chatapp.files.markdown_tables import escape_cell, render_row
from chatapp.files.passages import SHEET_MARK

MAX_COLUMNS = 200


def open_file(data: bytes, _main_type: str) -> "Workbook":
    # Read only: rows are parsed while they are read. Data only: results instead of formulas.
    return Workbook(
        load_workbook(io.BytesIO(data), read_only=True, data_only=True, keep_links=False)
    )


class Workbook:
    def __init__(self, book: Any) -> None:
        self._sheets = book.worksheets
        self.pages = len(self._sheets)
        self.rows = 0

    def iterate_pieces(self) -> Iterator[str]:
        for sheet in self._sheets:
            hidden = "" if sheet.sheet_state == "visible" else " (hidden)"
            yield f"{SHEET_MARK}{' '.join(sheet.title.split())}{hidden}"
            # A file may claim to be as large as a sheet can be.
            sheet.reset_dimensions()
            yield from self._iterate_rows(sheet)

    def _iterate_rows(self, sheet: Any) -> Iterator[str]:
        is_first = True
        for row in sheet.iter_rows(values_only=True):
            cells = _read_cells(row)
            if not any(cells):
                continue
            self.rows += 1
            yield render_row(cells)
            if is_first:
                yield render_row(["---"] * len(cells))
                is_first = False


def _read_cells(row: tuple[Any, ...]) -> list[str]:
    cells = ["" if value is None else escape_cell(value) for value in row[:MAX_COLUMNS]]
    while cells and not cells[-1]:
        cells.pop()
    if any(value is not None for value in row[MAX_COLUMNS:]):
        cells.append("[more columns were left out]")
    return cells
