"""Tables of office files in Markdown, which models read best."""

from typing import Any


def escape_cell(value: Any) -> str:
    """Return a value as a cell of a Markdown table."""
    return " ".join(str(value).split()).replace("|", "\\|")


def render_row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def render_table(rows: list[list[str]]) -> str:
    """Return rows as a Markdown table whose first row is the header."""
    if not rows:
        return ""
    width = max(map(len, rows))
    lines = [render_row([*row, *[""] * (width - len(row))]) for row in rows]
    return "\n".join([lines[0], render_row(["---"] * width), *lines[1:]])
