"""Structured values that are plain enough for a table: a list of like objects, or one object whose
values are short."""

from dataclasses import dataclass
from typing import Any

from django.utils.safestring import SafeString

from .visible import draw_hidden

MAX_ROWS = 50
MAX_COLUMNS = 8
MAX_NAMES = 30
MAX_CELL_CHARACTERS = 300

Row = tuple[SafeString, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Rows of cells. Without `head` each row is a name and its value."""

    head: Row = ()
    rows: tuple[Row, ...]


def table_of(value: Any) -> Table | None:
    """The value as a table, or None where a table would hide or distort some of it."""
    if isinstance(value, dict) and len(value) == 1:
        only = next(iter(value.values()))
        if isinstance(only, list):
            return _of_list(only)
    if isinstance(value, list):
        return _of_list(value)
    return _of_object(value) if isinstance(value, dict) else None


def _of_list(items: list[Any]) -> Table | None:
    if not 0 < len(items) <= MAX_ROWS or not all(isinstance(item, dict) for item in items):
        return None
    names = list(dict.fromkeys(name for item in items for name in item))
    cells = [item.get(name, "") for item in items for name in names]
    if not 0 < len(names) <= MAX_COLUMNS or not all(map(_is_plain, [*names, *cells])):
        return None
    return Table(
        head=tuple(draw_hidden(name) for name in names),
        rows=tuple(tuple(_cell(item.get(name, "")) for name in names) for item in items),
    )


def _of_object(value: dict[str, Any]) -> Table | None:
    if not 0 < len(value) <= MAX_NAMES or not all(map(_is_plain, [*value, *value.values()])):
        return None
    return Table(rows=tuple((draw_hidden(name), _cell(held)) for name, held in value.items()))


def _is_plain(value: Any) -> bool:
    if isinstance(value, str):
        return len(value) <= MAX_CELL_CHARACTERS
    return value is None or isinstance(value, bool | int | float)


def _cell(value: Any) -> SafeString:
    words = {None: "none", True: "yes", False: "no"}
    if value is None or isinstance(value, bool):
        return SafeString(words[value])
    return draw_hidden(str(value))
