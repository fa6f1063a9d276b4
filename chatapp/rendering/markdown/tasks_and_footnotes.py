"""Task lists and footnotes, which CommonMark does not have.

Blocks are rendered one by one, so a footnote gets its number where its mark or its text is first
read. Nothing has an id here: `figures/footnote_links.py` makes links of the classes.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock, reference
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token
from markdown_it.utils import EnvType

_BOX: Final = re.compile(r"\[([ xX])\][ \t]+(?=\S)")
_NAME: Final = r"(\d{1,3}|[^\W\d][\w-]{0,39})"
_MARK: Final = re.compile(rf"\[\^{_NAME}\]")
_FOOTNOTE: Final = re.compile(rf"^\[\^{_NAME}\]:[ \t]+(?=\S)", re.MULTILINE)
# `[^a-z]` in a sentence is a regular expression, unless the document has a footnote of this name.
_RANGES: Final = re.compile(r"(?:\w-\w)+\w*")


@dataclass(slots=True)
class Footnotes:
    """The footnotes of a document, as far as it was rendered.

    `defined` has the names with a text. It is None while a model writes: the text of a footnote
    comes later than its mark, which should not change then.
    """

    defined: set[str] | None = None
    labels: dict[str, str] = field(default_factory=dict)
    marked: set[str] = field(default_factory=set)
    written: set[str] = field(default_factory=set)
    used: set[str] = field(default_factory=set)
    last: int = 0

    def copy(self) -> "Footnotes":
        return Footnotes(
            defined=self.defined,
            labels=dict(self.labels),
            marked=set(self.marked),
            written=set(self.written),
            used=set(self.used),
            last=self.last,
        )

    def is_mark(self, name: str) -> bool:
        if name.isdecimal():
            return True
        if self.defined is None:
            return _RANGES.fullmatch(name) is None
        return name.casefold() in self.defined

    def render_mark(self, name: str) -> str:
        """Return the mark of a footnote. It becomes a link if the footnote has a text, and the
        first one is where its text leads back to."""
        key, label = name.casefold(), self.choose_label(name)
        if self.defined is not None and key not in self.defined:
            return render_sup(label)
        is_first = key not in self.marked
        self.marked.add(key)
        return f'<sup class="fn{" fn-first" if is_first else ""}">{label}</sup>'

    def render_number(self, name: str) -> str:
        """Return the number before the text of a footnote. Only the first text of a name is one."""
        key, label = name.casefold(), self.choose_label(name)
        if key in self.written:
            return render_sup(label)
        self.written.add(key)
        return f'<sup class="fn-{"back" if key in self.marked else "text"}">{label}</sup>'

    def choose_label(self, name: str) -> str:
        """Return the number of the footnote: a number keeps itself, unless a name has it."""
        key = name.casefold()
        if key not in self.labels:
            label = str(int(name)) if name.isdecimal() else ""
            while not label or label in self.used:
                self.last += 1
                label = str(self.last)
            self.used.add(label)
            self.labels[key] = label
        return self.labels[key]


def get_footnotes(env: EnvType) -> Footnotes:
    found: Footnotes = env.setdefault("footnotes", Footnotes())
    return found


def add_footnotes(parser: MarkdownIt) -> None:
    parser.inline.ruler.before("link", "footnote", _parse_mark)
    parser.block.ruler.at("reference", _parse_reference)


def _parse_reference(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """Parse the definition of a link. `[^1]: https://e.example` is a footnote."""
    first = state.bMarks[start] + state.tShift[start]
    if _FOOTNOTE.match(state.src[first : state.eMarks[start]]):
        return False
    return reference(state, start, end, silent)


def mark_tasks(tokens: Sequence[Token]) -> None:
    """Turn `[ ]` and `[x]` at the beginning of list items into boxes."""
    for item, paragraph, line in zip(tokens, tokens[1:], tokens[2:], strict=False):
        if item.type != "list_item_open" or paragraph.type != "paragraph_open":
            continue
        if box := _BOX.match(line.content):
            item.attrSet("class", "task")
            line.meta["before"] = f'<span class="box">{"☐" if box[1] == " " else "☑"}</span>'
            line.content = line.content[box.end() :]


def collect_footnotes(tokens: Sequence[Token], footnotes: Footnotes) -> None:
    """Add the names of the footnotes that have a text in these tokens."""
    if footnotes.defined is None:
        return
    for before, token in zip(tokens, tokens[1:], strict=False):
        if _begins_footnotes(before, token):
            names = (match[1].casefold() for match in _FOOTNOTE.finditer(token.content))
            footnotes.defined.update(names)


def _begins_footnotes(before: Token, token: Token) -> bool:
    is_line = token.type == "inline" and token.level == 1 and before.type == "paragraph_open"
    return is_line and _FOOTNOTE.match(token.content) is not None


def split_footnotes(tokens: Sequence[Token]) -> list[Token]:
    """Return the tokens with a paragraph for each footnote that stands at the top level."""
    found: list[Token] = []
    for token in tokens:
        if found and _begins_footnotes(found[-1], token):
            found[-1:] = _build_footnotes(token.content)
        elif token.type == "paragraph_close" and found and found[-1].type == "footnote_end":
            found.pop()
        else:
            found.append(token)
    return found


def _build_footnotes(content: str) -> list[Token]:
    starts = [*_FOOTNOTE.finditer(content)]
    ends = [start.start() for start in starts[1:]] + [len(content)]
    built: list[Token] = []
    for start, end in zip(starts, ends, strict=True):
        text = content[start.end() : end].rstrip()
        built += [
            Token("paragraph_open", "p", 1, attrs={"class": "footnote"}, block=True),
            Token("inline", "", 0, content=text, meta={"footnote": start[1]}),
            Token("paragraph_close", "p", -1, block=True),
        ]
    # In place of the end of the paragraph that follows.
    return [*built, Token("footnote_end", "", 0)]


def render_sup(label: str) -> str:
    return f"<sup>{label}</sup>"


def _parse_mark(state: StateInline, silent: bool) -> bool:
    mark = _MARK.match(state.src, state.pos)
    if mark is None or state.src[mark.end() : mark.end() + 1] == "(":
        return False
    if not get_footnotes(state.env).is_mark(mark[1]):
        return False
    if not silent:
        state.push("footnote_mark", "sup", 0).content = mark[1]
    state.pos = mark.end()
    return True
