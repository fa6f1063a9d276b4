"""Task lists and footnotes, which CommonMark does not have.

Blocks are rendered one by one, and no element has an id, so a footnote is no link: its mark and its
text have the same number.
"""

import re
from collections.abc import Sequence
from html import escape
from typing import Final

from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock, reference
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token

_BOX: Final = re.compile(r"\[([ xX])\][ \t]+(?=\S)")
# Only numbers: `[^a-z]` in a sentence is a regular expression.
_MARK: Final = re.compile(r"\[\^(\d{1,3})\]")
_FOOTNOTE: Final = re.compile(r"^\[\^(\d{1,3})\]:[ \t]+(?=\S)", re.MULTILINE)


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


def split_footnotes(tokens: Sequence[Token]) -> list[Token]:
    """Return the tokens with a paragraph for each footnote that stands at the top level."""
    found: list[Token] = []
    for token in tokens:
        is_line = token.type == "inline" and token.level == 1
        if is_line and found[-1].type == "paragraph_open" and _FOOTNOTE.match(token.content):
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
            Token("inline", "", 0, content=text, meta={"before": render_mark(start[1]) + " "}),
            Token("paragraph_close", "p", -1, block=True),
        ]
    # In place of the end of the paragraph that follows.
    return [*built, Token("footnote_end", "", 0)]


def render_mark(number: str) -> str:
    return f"<sup>{escape(number)}</sup>"


def _parse_mark(state: StateInline, silent: bool) -> bool:
    mark = _MARK.match(state.src, state.pos)
    if mark is None or state.src[mark.end() : mark.end() + 1] == "(":
        return False
    if not silent:
        state.push("footnote_mark", "sup", 0).content = mark[1]
    state.pos = mark.end()
    return True
