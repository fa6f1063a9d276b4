"""Nasty documents from a seed, and the page that a browser would make of updates."""

from html import escape
from random import Random
from typing import Final

from chatapp.rendering.markdown.stream import Update

_CODE_END: Final = "</code></pre></figure>\n"

SNIPPETS: Final = (
    *(
        "[x] ",
        "[^1]",
        "[^1]: ",
        "https://a.example",
        "me@example.org",
        "a",
        "word ",
        "é",
        "\u00a0",
        "0",
        "\\",
        "\n",
        "\n\n",
        "  \n",
        "\r\n",
        "\r",
        "\t",
        "  ",
        "    ",
    ),
    *("- ", "* x\n", "+ ", "1. ", "2) ", "-\n", "- [ ] ", "> ", ">", "# ", "***\n"),
    *("===\n", "---\n", "---", "=\n", "|", "a | b\n", "|---|---|\n", "-|-\n", "| 1 |"),
    *("```", "```py\n", "~~~\n", "``", "`", "   ```\n", "def f(x): # c\n", "x[1]: int\n"),
    *("**", "*", "_", "~~", "$", "$$", "$$\n", "\\[", "\\]\n", "\\(", "\\)", "x^2"),
    *("![i](https://h.example/i)", "[l](https://h.example)", "<b>", "&amp;", "<hx-x>", "[", "]"),
)
DEFINITIONS: Final = ("[x]", "[x]: https://e.example\n", "]:", '"t', "[x]: /u\n")


def nasty_document(seed: int, *, length: int = 18, with_definitions: bool = False) -> str:
    random = Random(seed)  # noqa: S311
    choices = SNIPPETS + 4 * DEFINITIONS if with_definitions else SNIPPETS
    return "".join(random.choices(choices, k=random.randint(1, length)))


def pieces_of(text: str, seed: int, longest: int) -> list[str]:
    random = Random(seed)  # noqa: S311
    pieces = []
    while text:
        size = random.randint(1, longest)
        pieces.append(text[:size])
        text = text[size:]
    return pieces


class Page:
    """What a tab shows that was there from the first frame."""

    def __init__(self) -> None:
        self.closed = ""
        self.tail = ""

    def apply(self, update: Update) -> None:
        self.closed += update.closed
        if update.tail is not None:
            self.tail = update.tail
        if update.code:
            assert self.tail.endswith(_CODE_END)
            code = escape(update.code, quote=False)
            self.tail = self.tail.removesuffix(_CODE_END) + code + _CODE_END
        if update.whole is not None:
            self.closed = update.whole
