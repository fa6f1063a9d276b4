"""What a Markdown stream is in the middle of: blocks, an open fence, or plain text.

A reader takes text, gives back what is closed by it, and may hand over to the next reader.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Final, TypeAlias

from markdown_it.utils import EnvType

from chatapp.rendering.blocks import (
    MAX_BLOCK_CHARS,
    MAX_DOCUMENT_CHARS,
    block_to_html,
    divide,
    division_to_html,
    plain_ends,
    plain_html,
)
from chatapp.rendering.code_colours import GrowingCode
from chatapp.rendering.markup import code_figure, language_of

_OPENING: Final = re.compile(r"( {0,3})(`{3,}|~{3,})(.*)")
# A half-received line that is only markup, or the opening of a fence, may still become anything.
# It waits for its first word: `-` would make a heading of the line above for one frame.
_UNDECIDED: Final = re.compile(r"[-=+*#>|:~_$`\[\\ \t]*|\d+[.)]?|`{3,}[^`]*|~{3,}.*")
_UNDECIDED_CHARS: Final = 80


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """HTML of closed blocks; if another reader takes over, it goes on with `rest`."""

    closed: Sequence[str] = ()
    successor: "Reader | None" = None
    rest: str = ""


class BlockReader:
    """Holds the text from the first block on that may still change."""

    def __init__(self, offset: int, env: EnvType) -> None:
        self._offset = offset
        self._env = env
        self._open = ""
        self._shown = ""
        self._tail = ""

    @property
    def waiting_chars(self) -> int:
        """The text that the next frame has to parse."""
        return len(self._open)

    def read(self, text: str) -> Step:
        self._open += text
        if "\n" not in text:
            return Step()
        complete = self._open[: self._open.rfind("\n") + 1]
        division = divide(complete, room=MAX_DOCUMENT_CHARS - self._offset)
        blocks, end = division.settled()
        closed = [block_to_html(block, self._env) for block in blocks]
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
        return _remaining_html(self._open, self._offset, self._env)

    def _without_undecided_line(self) -> str:
        start = self._open.rfind("\n") + 1
        line = self._open[start:].lstrip(" \t")
        is_undecided = len(line) <= _UNDECIDED_CHARS and _UNDECIDED.fullmatch(line)
        return self._open[:start] if is_undecided else self._open

    def _render(self, shown: str) -> str:
        if len(shown) > MAX_BLOCK_CHARS:
            return plain_html(shown)
        # Definitions in the tail may still change, so they are not kept.
        env = {"references": dict(self._env.get("references", {}))}
        return division_to_html(shown, divide(shown), env, is_growing=True)


class FenceReader:
    """An open top-level fence: its text is shown as it comes and coloured when it closes."""

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
        """The code that the next frame may have to colour."""
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
        return code_figure(self._language, escape("".join(self._shown), quote=False))

    def take_unsent(self) -> str:
        """The code that was shown since the last call."""
        unsent, self._unsent = "".join(self._unsent), []
        return unsent

    def finish(self) -> str:
        return _remaining_html("\n".join([*self._source, self._partial]), self._offset, self._env)

    def _open(self, line: str) -> None:
        opening = _OPENING.fullmatch(line)
        if opening is None:
            raise ValueError("a fence reader begins at a fence")
        indent, marks, info = opening.groups()
        self._indent = len(indent)
        self._language = language_of(info)
        self._growing = GrowingCode(self._language)
        self._closing = re.compile(rf" {{0,3}}{marks[0]}{{{len(marks)},}}[ \t]*")
        self._may_close = re.compile(rf" {{0,3}}{marks[0]}*[ \t]*")

    def _close(self, line: str, rest: str) -> Step:
        source = "\n".join([*self._source, line, ""])
        html = _remaining_html(source, self._offset, self._env)
        successor = BlockReader(self._offset + len(source), self._env)
        return Step(closed=[html], successor=successor, rest=rest)

    def _show_line(self, line: str) -> None:
        code = self._without_indent(line) + "\n"
        self._show(code[self._partial_shown :])
        self._partial_shown = 0
        self._growing.add(code)

    def _show_partial(self) -> None:
        """The last line waits while it may become the closing one."""
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
    """The rest of a document that is too much for Markdown."""

    def __init__(self) -> None:
        self._open = ""

    @property
    def waiting_chars(self) -> int:
        return len(self._open)

    def read(self, text: str) -> Step:
        self._open += text
        closed, start = [], 0
        for end in plain_ends(self._open):
            closed.append(plain_html(self._open[start:end]))
            start = end
        self._open = self._open[start:]
        return Step(closed=closed)

    def tail(self) -> str:
        return plain_html(self._open)

    def finish(self) -> str:
        return plain_html(self._open)


Reader: TypeAlias = BlockReader | FenceReader | PlainReader


def _remaining_html(text: str, offset: int, env: EnvType) -> str:
    return division_to_html(text, divide(text, room=MAX_DOCUMENT_CHARS - offset), env)
