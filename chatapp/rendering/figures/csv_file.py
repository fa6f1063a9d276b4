"""A table as a CSV file that a spreadsheet opens without running anything.

A spreadsheet takes a cell that begins with `=`, `+`, `-` or `@` for a formula, which can send the
other cells elsewhere. The text comes from models and services, so such a cell gets an apostrophe
before it, except a number. In some languages spreadsheets split lines at semicolons and see no
quotes after the first cell, and pasted text is split at tabs. So what follows one of these or a
line end inside a cell is treated as the beginning of a cell.
"""

import csv
import io
import re
from typing import Final

from .cell_numbers import is_number
from .values import TableData

# A tab and a line end are skipped by spreadsheets, which then see what follows. The wide forms are
# read as the plain ones in some languages.
FORMULA_STARTS: Final = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")  # noqa: RUF001
_INNER_START: Final = re.compile(r"[;\t\r\n][ \"]*(?=[=+\-@＝＋－＠])")  # noqa: RUF001
# Spreadsheets read a file without it in the encoding of the computer.
BYTE_ORDER_MARK: Final = "\ufeff"


def write_csv(table: TableData) -> str:
    file = io.StringIO()
    writer = csv.writer(file, quoting=csv.QUOTE_ALL)
    rows = (table.head, *table.rows) if table.head else table.rows
    writer.writerows([guard_cell(cell) for cell in row] for row in rows)
    return BYTE_ORDER_MARK + file.getvalue()


def guard_cell(cell: str) -> str:
    """Return the cell so that no spreadsheet takes it for a formula."""
    is_formula = cell.lstrip(" ").startswith(FORMULA_STARTS) and not is_number(cell)
    guarded = _INNER_START.sub(r"\g<0>'", cell)
    return f"'{guarded}" if is_formula else guarded
