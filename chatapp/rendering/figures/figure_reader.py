"""Reads a code block or a table back from rendered Markdown, by its number.

The HTML is ours and was sanitised. Reading it, and not the Markdown, gives the text that the page
shows, and the same numbers as the controls have. Raised and stacked text gets marks, so that `12`
with the footnote 1 is not read as 121.
"""

from html.parser import HTMLParser

from .formula_text import Child, write_element
from .values import CodeBlock, Figure, TableData


def read_figure(html: str, number: int) -> Figure | None:
    """Return the figure with this number, counted from 0, or None if there are fewer."""
    reader = _FigureReader(number)
    reader.feed(html)
    reader.close()
    return reader.figure


class _FigureReader(HTMLParser):
    def __init__(self, number: int) -> None:
        super().__init__(convert_charrefs=True)
        self.figure: Figure | None = None
        self._left = number
        self._is_inside = False
        self._open: list[str] | None = None
        self._language: list[str] = []
        self._code: list[str] = []
        self._rows: list[list[list[str]]] = []
        # The open elements of a formula, each with the children that are closed.
        self._formula: list[tuple[str, list[Child]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "figure":
            self._is_inside = self._left == 0
            self._left -= 1
        if not self._is_inside:
            return
        match tag:
            case "header":
                self._open = self._language
            case "pre":
                self._open = self._code
            case "tr":
                self._rows.append([])
            case "th" | "td":
                self._open = []
                self._rows[-1].append(self._open)
            case "sup":
                self.handle_data("[")
            case _ if tag == "math" or self._formula:
                self._formula.append((tag, []))

    def handle_endtag(self, tag: str) -> None:
        if not self._is_inside:
            return
        if tag == "sup":
            self.handle_data("]")
        elif self._formula:
            tag, children = self._formula.pop()
            self._add(tag, write_element(tag, children))
        if tag in ("header", "pre", "th", "td"):
            self._open = None
        if tag == "figure":
            self._is_inside = False
            self.figure = self._build()

    def handle_data(self, data: str) -> None:
        if self._is_inside and self._open is not None:
            self._add("", data)

    def _add(self, tag: str, text: str) -> None:
        if self._formula:
            self._formula[-1][1].append((tag, text))
        elif self._open is not None:
            self._open.append(text)

    def _build(self) -> Figure:
        if not self._rows:
            return CodeBlock(language="".join(self._language), text="".join(self._code))
        head, *rows = (tuple(" ".join("".join(cell).split()) for cell in row) for row in self._rows)
        return TableData(head=head, rows=tuple(rows))
