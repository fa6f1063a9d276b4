"""Reads a code block or a table back from rendered Markdown, by its number.

The HTML is ours and was sanitised. Reading it, and not the Markdown, gives the text that the page
shows, and the same numbers as the controls have.
"""

from html.parser import HTMLParser

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

    def handle_endtag(self, tag: str) -> None:
        if not self._is_inside:
            return
        if tag in ("header", "pre", "th", "td"):
            self._open = None
        if tag == "figure":
            self._is_inside = False
            self.figure = self._build()

    def handle_data(self, data: str) -> None:
        if self._is_inside and self._open is not None:
            self._open.append(data)

    def _build(self) -> Figure:
        if not self._rows:
            return CodeBlock(language="".join(self._language), text="".join(self._code))
        head, *rows = (tuple(" ".join("".join(cell).split()) for cell in row) for row in self._rows)
        return TableData(head=head, rows=tuple(rows))
