"""Colours of code blocks: Pygments tokens reduced to the classes of the style sheet.

Long code is coloured in sections that do not depend on the text after them, so that a stream can
colour each complete section and no single frame has to colour the whole block.
"""

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from html import escape
from itertools import groupby
from typing import Final

from pygments.lexer import Lexer
from pygments.lexers import get_lexer_by_name
from pygments.token import Comment, Generic, Keyword, Literal, Name, Operator, _TokenType

MAX_LINES: Final = 2_000
MAX_CHARS: Final = 100_000
MAX_LINE_CHARS: Final = 2_000
SECTION_LINES: Final = 300
SECTION_MAX_LINES: Final = 450

# The name after the fence comes from a model. Pygments supports 500 languages, some with patterns
# that take minutes on hostile text, so only languages that are common in a chat are coloured.
_LANGUAGE_NAMES: Final = (
    "bash c clojure cpp csharp css dart diff docker dockerfile elixir erlang fortran go "
    "graphql groovy haskell hcl html http ini java javascript jinja js json json5 jsx julia "
    "kotlin latex lua make makefile matlab nginx nix objective-c ocaml perl php powershell "
    "properties protobuf ps1 py python py3 python3 r rb ruby rs rust scala scss sh shell solidity "
    "sql swift terraform tex toml ts tsx typescript udiff vue xml yaml yml zig zsh"
)
LANGUAGES: Final = frozenset(_LANGUAGE_NAMES.split())

_CLASS_OF_TOKEN: Final[dict[_TokenType, str]] = {
    Keyword: "k",
    Operator.Word: "k",
    Literal.String: "s",
    Literal.Number: "m",
    Comment: "c",
    Name.Function: "nf",
    Name.Class: "nf",
    Name.Decorator: "nf",
    Name.Builtin: "nf",
    Name.Tag: "nf",
    Generic.Inserted: "gi",
    Generic.Deleted: "gd",
}
# A changed line is shown as a block; a line end after it would show an empty line.
_CHANGED_LINE: Final = re.compile(r'(<span class="g[id]">[^<]*)</span>\n')
_LINE: Final = re.compile(r"[^\n]*\n|[^\n]+")


def colour_code(code: str, language: str) -> str:
    """Return the code as escaped HTML, with spans for the tokens of a known language."""
    lines = _LINE.findall(code)
    if len(lines) > MAX_LINES or not _is_colourable(code, language):
        return escape(code, quote=False)
    return "".join(
        _colour_section(section, language.lower()) for section in _iterate_sections(lines)
    )


def count_first_section(lines: Sequence[str]) -> int | None:
    """Return the number of lines of the first section, or None while later lines can still join it.

    A section ends before an unindented line after an empty one, where few languages are inside a
    construct. Lexing restarts there.
    """
    for index in range(SECTION_LINES, min(len(lines), SECTION_MAX_LINES)):
        if not lines[index - 1].strip() and lines[index][:1].strip():
            return index
    return SECTION_MAX_LINES if len(lines) >= SECTION_MAX_LINES else None


class GrowingCode:
    """Colours the sections of a growing code block, so that they are ready when it ends."""

    def __init__(self, language: str) -> None:
        self._language = language
        self._lines: list[str] = []
        self._line_count = 0

    @property
    def waiting_chars(self) -> int:
        """The number of characters that have no colours yet."""
        return sum(map(len, self._lines))

    def add(self, line: str) -> None:
        self._lines.append(line)
        self._line_count += 1
        count = count_first_section(self._lines)
        if count is None:
            return
        section, self._lines = "".join(self._lines[:count]), self._lines[count:]
        if self._line_count <= MAX_LINES and _is_colourable(section, self._language):
            _colour_section(section, self._language.lower())


@lru_cache(maxsize=64)
def _colour_section(code: str, language: str) -> str:
    lexed = _load_lexer(language).get_tokens_unprocessed(code)
    tokens = ((_find_css_class(kind), text) for _, kind, text in lexed)
    parts = []
    for name, run in groupby(tokens, key=lambda token: token[0]):
        text = escape("".join(text for _, text in run), quote=False)
        parts.append(f'<span class="{name}">{text}</span>' if name else text)
    return _CHANGED_LINE.sub(r"\1\n</span>", "".join(parts))


def _is_colourable(code: str, language: str) -> bool:
    return (
        language.lower() in LANGUAGES
        and len(code) <= MAX_CHARS
        and max(map(len, code.split("\n"))) <= MAX_LINE_CHARS
    )


def _iterate_sections(lines: Sequence[str]) -> Iterator[str]:
    while lines:
        count = count_first_section(lines) or len(lines)
        yield "".join(lines[:count])
        lines = lines[count:]


@lru_cache(maxsize=len(LANGUAGES))
def _load_lexer(language: str) -> Lexer:
    return get_lexer_by_name(language)


@lru_cache(maxsize=1024)
def _find_css_class(kind: _TokenType) -> str:
    """Return the class of the nearest ancestor that has one, or an empty text."""
    step: _TokenType | None = kind
    while step is not None:
        if step in _CLASS_OF_TOKEN:
            return _CLASS_OF_TOKEN[step]
        step = step.parent
    return ""
