"""A code block and a table as text."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeBlock:
    """Code as it was written. `language` is the text of the header."""

    language: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TableData:
    """Cells as text. Without a `head`, each row is a name and its value. `facts` are names with
    values that stand beside the rows."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    facts: tuple[tuple[str, str], ...] = ()


Figure = CodeBlock | TableData
