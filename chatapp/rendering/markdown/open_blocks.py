"""The readers of a Markdown stream: for blocks, for an open fence and for plain text.

A reader receives text, returns the blocks that the text closes, and can name the next reader.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Final, TypeAlias

from markdown_it.utils import EnvType

from .blocks import (
    MAX_BLOCK_CHARS,
    MAX_DOCUMENT_CHARS,
    divide_blocks,
    find_plain_ends,
    render_block,
    render_division,
    render_plain,
    render_prose_line,
)
from .code_colours import GrowingCode
from .parser import parse_language, render_code
from .tasks_and_footnotes import get_footnotes

_OPENING: Final = re.compile(r"( {0,3})(`{3,}|~{3,})(.*)")
# A partial line of markup only, or the opening of a fence, can still become something else. It is
# held back until its first word: `-` would turn the line above into a heading for one frame.
_UNDECIDED: Final = re.compile(
    r"[-=+*#>|:~_$`\[\\ \t]*|\d+[.)]?|`{3,}[^`]*|~{3,}.*|\[\^[\w-]*\]?:?[ \t]*"
)
# The beginning of a footnote's mark, which would be plain text until its last character.
_UNFINISHED_MARK: Final = re.compile(r"\[(?:\^[\w-]{0,40})?$")
_UNDECIDED_CHARS: Final = 80


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """HTML of closed blocks; a `successor` continues with `rest`."""

    closed: Sequence[str] = ()
    successor: "Reader | None" = None
    rest: str = ""


class BlockReader:
    """Holds the text that starts with the first block that can still change."""

    def __init__(self, offset: int, env: EnvType) -> None:
        self._offset = offset
        self._env = env
        self._open = ""
        self._shown = ""
        self._tail = ""

    @property
    def waiting_chars(self) -> int:
        """The number of characters that the next frame has to parse."""
        return len(self._open)

    def read(self, text: str) -> Step:
        self._open += text
        if "\n" not in text:
            return Step()
        complete = self._open[: self._open.rfind("\n") + 1]
        division = divide_blocks(complete, room=MAX_DOCUMENT_CHARS - self._offset)
        blocks, end = division.settled()
        closed = [render_block(block, self._env) for block in blocks]
        self._offset += end
        self._open = self._open[end:]
        successor: Reader | None = None
        if division.plain_from is not None:
            successor = PlainReader()
        elif division.blocks and division.blocks[-1].is_open_fence:
            successor = FenceReader(self._offset, self._env)
        return Step(closed=closed, successor=successor, rest=self._open if successor else "")

    def tail(self) -> str:
        shown = self._without_undecided_line()
        if shown != self._shown:
            self._shown, self._tail = shown, self._render(shown)
        return self._tail

    def finish(self) -> str:
        return _render_rest(self._open, self._offset, self._env)

    def _without_undecided_line(self) -> str:
        start = self._open.rfind("\n") + 1
        line = self._open[start:].lstrip(" \t")
        is_undecided = len(line) <= _UNDECIDED_CHARS and _UNDECIDED.fullmatch(line)
        if is_undecided:
            return self._open[:start]
        mark = _UNFINISHED_MARK.search(self._open, start)
        return self._open[: mark.start()] if mark else self._open

    def _render(self, shown: str) -> str:
        if len(shown) > MAX_BLOCK_CHARS:
            return render_plain(shown)
        if (prose := render_prose_line(shown)) is not None:
            return prose
        # Definitions in the tail can still change, so they are not stored.
        env = {
            "references": dict(self._env.get("references", {})),
            "footnotes": get_footnotes(self._env).copy(),
        }
        return render_division(shown, divide_blocks(shown), env, is_growing=True)


class FenceReader:
    """An open top-level fence: its text is shown at once and coloured when the fence closes."""

    def __init__(self, offset: int, env: EnvType) -> None:
        self._offset = offset
        self._env = env
        self._source: list[str] = []
        self._size = 0
        self._partial = ""
        self._partial_shown = 0
        self._shown: list[str] = []
        self._unsent: list[str] = []
        self._growing = GrowingCode("")

    @property
    def waiting_chars(self) -> int:
        """The number of characters that the next frame may have to colour."""
        return self._growing.waiting_chars

    def read(self, text: str) -> Step:
        lines = (self._partial + text).split("\n")
        for index, line in enumerate(lines[:-1]):
            rest = lines[index + 1 :]
            if self._offset + self._size + len(line) + 1 > MAX_DOCUMENT_CHARS:
                return Step(successor=PlainReader(), rest="\n".join([*self._source, line, *rest]))
            if not self._source:
                self._open(line)
            elif self._closing.fullmatch(line):
                return self._close(line, "\n".join(rest))
            else:
                self._show_line(line)
            self._source.append(line)
            self._size += len(line) + 1
        self._partial = lines[-1]
        self._show_partial()
        return Step()

    def tail(self) -> str:
        return render_code(self._language, escape("".join(self._shown), quote=False))

    def take_unsent(self) -> str:
        """Return the code that was shown since the last call."""
        unsent, self._unsent = "".join(self._unsent), []
        return unsent

    def finish(self) -> str:
        return _render_rest("\n".join([*self._source, self._partial]), self._offset, self._env)

    def _open(self, line: str) -> None:
        opening = _OPENING.fullmatch(line)
        if opening is None:
            raise ValueError("a fence reader begins at a fence")
        indent, marks, info = opening.groups()
        self._indent = len(indent)
        self._language = parse_language(info)
        self._growing = GrowingCode(self._language)
        self._closing = re.compile(rf" {{0,3}}{marks[0]}{{{len(marks)},}}[ \t]*")
        self._may_close = re.compile(rf" {{0,3}}{marks[0]}*[ \t]*")

    def _close(self, line: str, rest: str) -> Step:
        source = "\n".join([*self._source, line, ""])
        html = _render_rest(source, self._offset, self._env)
        successor = BlockReader(self._offset + len(source), self._env)
        return Step(closed=[html], successor=successor, rest=rest)

    def _show_line(self, line: str) -> None:
        code = self._without_indent(line) + "\n"
        self._show(code[self._partial_shown :])
        self._partial_shown = 0
        self._growing.add(code)

    def _show_partial(self) -> None:
        """Hold back the last line while it can become the closing one."""
        if self._source and not self._may_close.fullmatch(self._partial):
            code = self._without_indent(self._partial)
            self._show(code[self._partial_shown :])
            self._partial_shown = len(code)

    def _show(self, code: str) -> None:
        self._shown.append(code)
        self._unsent.append(code)

    def _without_indent(self, line: str) -> str:
        return line[: self._indent].lstrip(" ") + line[self._indent :]


class PlainReader:
    """The rest of a document that exceeds the limits of Markdown."""

    def __init__(self) -> None:
        self._open = ""

    @property
    def waiting_chars(self) -> int:
        return len(self._open)

    def read(self, text: str) -> Step:
        self._open += text
        closed, start = [], 0
        for end in find_plain_ends(self._open):
            closed.append(render_plain(self._open[start:end]))
            start = end
        self._open = self._open[start:]
        return Step(closed=closed)

    def tail(self) -> str:
        return render_plain(self._open)

    def finish(self) -> str:
        return render_plain(self._open)


Reader: TypeAlias = BlockReader | FenceReader | PlainReader


def _render_rest(text: str, offset: int, env: EnvType) -> str:
    return render_division(text, divide_blocks(text, room=MAX_DOCUMENT_CHARS - offset), env)
