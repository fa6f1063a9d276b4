"""Structured results of tools as tables: which shapes of JSON are one.

A value is a table only if nothing of it is hidden or distorted: scalars beside the rows become
facts above the table, and what does not fit is shown as JSON.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, Final

from django.utils.translation import gettext as _

from .charts import MAX_ROWS
from .values import TableData

MAX_COLUMNS: Final = 20
MAX_NAMES: Final = 30
MAX_CELL_CHARACTERS: Final = 300
# Of all cells. A page shows several results.
MAX_CHARACTERS: Final = 100_000
# What services call the names of the columns, and the rows below them.
COLUMN_NAMES: Final = ("columns", "headers", "header", "fields")
ROW_NAMES: Final = ("rows", "data", "values", "records")

Rows = Sequence[Sequence[Any]]


def read_table(value: Any) -> TableData | None:
    """Return the value as a table, or None if a table would hide or distort a part of it."""
    table = _read(value)
    if table is None and isinstance(value, dict):
        table = _read_inside(value, _read_part) or _read_object(value)
    if table is None or _count_characters(table) > MAX_CHARACTERS:
        return None
    return table


def _read(value: Any) -> TableData | None:
    """Return a value that is a table as a whole."""
    match value:
        case [dict(), *_]:
            return _read_objects(value)
        case [list(), *_]:
            return _read_lists(value)
        case dict():
            return _read_head_and_rows(value) or _read_columns(value) or _read_named_rows(value)
    return None


def _read_part(value: Any) -> TableData | None:
    """Return a part of an object that is a table, also one level further down."""
    table = _read(value) or _read_inside(value, _read)
    is_series = isinstance(value, dict) and len(value) > 1 and all(map(_is_number, value.values()))
    return table or (_read_object(value) if is_series else None)


def _read_inside(value: Any, read: Callable[[Any], TableData | None]) -> TableData | None:
    """Return the only part of an object that is a table, with the scalars beside it as facts."""
    if not isinstance(value, dict) or not 0 < len(value) <= MAX_NAMES:
        return None
    parts = {name: held for name, held in value.items() if not _is_plain(held)}
    if len(parts) != 1 or not all(map(_is_plain, value)):
        return None
    ((name, held),) = parts.items()
    table = read(held)
    if table is None:
        return None
    facts = [(each, _write_cell(value[each])) for each in value if each != name]
    inner = ((f"{name}.{each}", text) for each, text in table.facts)
    return replace(table, facts=(*facts, *inner))


def _read_objects(items: list[Any]) -> TableData | None:
    """Return objects as rows. An object in a cell becomes columns of its own."""
    if len(items) > MAX_ROWS or not all(isinstance(item, dict) for item in items):
        return None
    flat = [_flatten(item) for item in items]
    names = list(dict.fromkeys(chain.from_iterable(flat)))
    if len(names) > MAX_COLUMNS:
        return None
    return _build(names, [[row.get(name, "") for name in names] for row in flat])


def _flatten(item: Mapping[str, Any]) -> dict[str, Any]:
    """Return the object with the fields of an object in it beside its own, unless a name has a dot
    already: two different fields could then have the same one."""
    if any("." in name for name in item):
        return dict(item)
    flat: dict[str, Any] = {}
    for name, held in item.items():
        if isinstance(held, dict) and held and not any("." in each for each in held):
            flat |= {f"{name}.{each}": inner for each, inner in held.items()}
        else:
            flat[name] = held
    return flat


def _read_lists(items: list[Any]) -> TableData | None:
    """Return lists of one length as rows. The first is the head if it has names above numbers."""
    if len(items) > MAX_ROWS + 1 or not all(isinstance(item, list) for item in items):
        return None
    head, *rows = items
    if len(head) > MAX_COLUMNS:
        return None
    if _is_head(head, rows):
        return _build(head, rows)
    return _build(
        [_("Column %(number)d") % {"number": each + 1} for each in range(len(head))], items
    )


def _is_head(head: list[Any], rows: list[list[Any]]) -> bool:
    if not rows or not all(isinstance(name, str) and name for name in head):
        return False
    if len(set(head)) < len(head) or any(len(row) != len(head) for row in rows):
        return False
    below = zip(*rows, strict=True)
    return any(all(_is_number(cell) or cell is None for cell in column) for column in below)


def _read_head_and_rows(value: dict[str, Any]) -> TableData | None:
    """Return `{"columns": [names], "rows": [[…]]}`, with scalars beside them as facts."""
    head_name = next((name for name in COLUMN_NAMES if isinstance(value.get(name), list)), "")
    rows_name = next((name for name in ROW_NAMES if isinstance(value.get(name), list)), "")
    others = {name: held for name, held in value.items() if name not in (head_name, rows_name)}
    if not (head_name and rows_name) or len(others) > MAX_NAMES:
        return None
    head, rows = _read_names(value[head_name]), value[rows_name]
    # A service chooses the sizes, so nothing is built before they are known to be small.
    if head is None or len(head) > MAX_COLUMNS or len(rows) > MAX_ROWS:
        return None
    if not all(map(_is_plain, chain(others, others.values()))):
        return None
    known = set(head)
    if all(isinstance(row, dict) and row.keys() <= known for row in rows):
        rows = [[row.get(name, "") for name in head] for row in rows]
    table = _build(head, rows)
    facts = tuple((name, _write_cell(held)) for name, held in others.items())
    return replace(table, facts=facts) if table else None


def _read_names(columns: list[Any]) -> list[str] | None:
    """Return names of columns that are given as texts, or as objects with nothing but a name."""
    names = [
        column.get("name") if isinstance(column, dict) and column.keys() == {"name"} else column
        for column in columns
    ]
    texts = [name for name in names if isinstance(name, str)]
    is_clear = len(texts) == len(names) == len(set(texts))
    return texts if is_clear else None


def _read_columns(value: dict[str, Any]) -> TableData | None:
    """Return lists of one length, each with the name of its column."""
    lists = list(value.values())
    if len(lists) <= 1 or not all(isinstance(each, list) for each in lists):
        return None
    if len({len(each) for each in lists}) > 1 or len(lists[0]) > MAX_ROWS:
        return None
    return _build([*value], list(zip(*lists, strict=True)))


def _read_named_rows(value: dict[str, Any]) -> TableData | None:
    """Return like objects, each with the name of its row."""
    objects = list(value.values())
    if len(objects) <= 1 or not all(isinstance(each, dict) and each for each in objects):
        return None
    names = [*objects[0]]
    if len(objects) > MAX_ROWS or len(names) > MAX_COLUMNS:
        return None
    if any(each.keys() != objects[0].keys() for each in objects):
        return None
    rows = [(name, *(each[key] for key in names)) for name, each in value.items()]
    return _build([_("Name"), *names], rows)


def _read_object(value: dict[str, Any]) -> TableData | None:
    """Return names with plain values. There may be many if all are numbers, which can be drawn."""
    most = MAX_ROWS if all(map(_is_number, value.values())) else MAX_NAMES
    if not 0 < len(value) <= most or not all(map(_is_plain, chain(value, value.values()))):
        return None
    return TableData(head=(), rows=tuple((name, _write_cell(each)) for name, each in value.items()))


def _build(head: Sequence[Any], rows: Rows) -> TableData | None:
    """Return a table if each row has a plain value for each name."""
    if not 0 < len(head) <= MAX_COLUMNS or not 0 < len(rows) <= MAX_ROWS:
        return None
    if any(not isinstance(row, list | tuple) or len(row) != len(head) for row in rows):
        return None
    if not all(map(_is_plain, chain(head, *rows))):
        return None
    return TableData(head=_write_row(head), rows=tuple(map(_write_row, rows)))


def _write_row(row: Iterable[Any]) -> tuple[str, ...]:
    return tuple(map(_write_cell, row))


def _is_plain(value: Any) -> bool:
    if isinstance(value, str):
        return len(value) <= MAX_CELL_CHARACTERS
    return value is None or isinstance(value, bool | int | float)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _write_cell(value: Any) -> str:
    words = {None: "none", True: "yes", False: "no"}
    if value is None or isinstance(value, bool):
        return words[value]
    return str(value)


def _count_characters(table: TableData) -> int:
    return sum(map(len, chain(table.head, *table.rows, *table.facts)))
