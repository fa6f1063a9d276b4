"""Formulas in Markdown: `$…$`, `$$…$$`, `\\(…\\)` and `\\[…\\]`, turned into MathML Core.

A formula that cannot be converted is shown as its source.
"""

import re
from html import escape
from typing import Final

from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock
from markdown_it.rules_inline import StateInline
from math_core import LatexError, LatexToMathML

MAX_CHARS: Final = 4_000
MAX_INLINE_CHARS: Final = 1_000
MAX_BRACES: Final = 30

_CONVERTER: Final = LatexToMathML(fancy_error=False, max_expansions=100)
_CLOSING: Final = {"$$": "$$", "\\[": "\\]"}
# Equation numbers would start at one in every block of a message, so they are not shown.
_NUMBERED: Final = re.compile(r"\\(begin|end)\{(align|equation|gather)\}")
# The content policy drops style attributes; the alignment of cells survives as a class.
_ALIGNED_CELL: Final = re.compile(r'<mtd style="[^"]*text-align: (left|right);[^"]*"')


def add_formulas(parser: MarkdownIt) -> None:
    interrupts = ["paragraph", "reference", "blockquote", "list"]
    parser.block.ruler.before("fence", "formula", _parse_block, {"alt": interrupts})
    parser.inline.ruler.before("escape", "formula", _parse_inline)


def render_mathml(source: str, *, is_display: bool) -> str:
    if len(source) > MAX_CHARS or _measure_depth(source) > MAX_BRACES:
        return f"<code>{escape(source)}</code>"
    numberless = _NUMBERED.sub(r"\\\1{\2*}", source)
    try:
        mathml = _CONVERTER.convert_with_local_state(numberless, displaystyle=is_display)
    except LatexError:
        return f"<code>{escape(source)}</code>"
    return _ALIGNED_CELL.sub(r'<mtd class="\1"', mathml)


def _measure_depth(source: str) -> int:
    depth = deepest = 0
    for character in source:
        depth += (character == "{") - (character == "}")
        deepest = max(deepest, depth)
    return max(deepest, source.count("\\left"))


def _parse_block(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """Parse a display formula whose opening mark begins a line.

    It extends to the closing mark or to an empty line, whatever the lines between look like: a line
    of a sum may begin with a minus without being a list. The rule does not look further, so that a
    stream can close blocks early. A formula without a proper end is a paragraph.
    """
    first = _get_line(state, start)
    closing = _CLOSING.get(first[:2])
    if closing is None or first.startswith("$$$") or state.is_code_block(start):
        return False
    before, is_closed, after = first[2:].partition(closing)
    if is_closed and after:
        return False
    if silent:
        return True
    stop = start + 1 if is_closed else _find_closing_line(state, start + 1, end, closing)
    source = state.getLines(start, stop, state.blkIndent, False).strip()
    state.line = stop
    if source.endswith(closing) and closing in source[2:]:
        _push_formula(state, source[2:-2], [start, stop])
    else:
        _push_paragraph(state, source, [start, stop])
    return True


def _get_line(state: StateBlock, number: int) -> str:
    return state.src[state.bMarks[number] + state.tShift[number] : state.eMarks[number]].rstrip()


def _find_closing_line(state: StateBlock, line: int, end: int, closing: str) -> int:
    """Return the number of the line after the formula."""
    while line < end and not state.isEmpty(line) and state.sCount[line] >= state.blkIndent:
        line += 1
        if closing in _get_line(state, line - 1):
            break
    return line


def _push_formula(state: StateBlock, source: str, lines: list[int]) -> None:
    token = state.push("formula", "math", 0)
    token.content = source.strip()
    token.map = lines
    token.meta["is_display"] = True


def _push_paragraph(state: StateBlock, source: str, lines: list[int]) -> None:
    state.push("paragraph_open", "p", 1).map = lines
    token = state.push("inline", "", 0)
    token.content = source
    token.map = lines
    token.children = []
    state.push("paragraph_close", "p", -1)


def _parse_inline(state: StateInline, silent: bool) -> bool:
    source, opening, stop = state.src, state.pos, None
    if source.startswith("$$", opening):
        mark, stop = 2, _find(source, "$$", opening + 2, state.posMax, MAX_CHARS)
    elif source.startswith("$", opening):
        mark, stop = 1, _find_closing_dollar(source, opening, state.posMax)
    elif source.startswith("\\(", opening):
        mark, stop = 2, _find(source, "\\)", opening + 2, state.posMax, MAX_INLINE_CHARS)
    if stop is None:
        return False
    formula = source[opening + mark : stop]
    if not formula.strip() or "`" in formula:
        return False
    if not silent:
        token = state.push("formula", "math", 0)
        token.content = formula.strip()
        token.meta["is_display"] = source.startswith("$$", opening)
    state.pos = stop + mark
    return True


def _find(source: str, closing: str, start: int, end: int, limit: int) -> int | None:
    found = source.find(closing, start, min(end, start + limit))
    return None if found < 0 else found


def _find_closing_dollar(source: str, opening: int, end: int) -> int | None:
    """Return the end of the formula, or None for a dollar that is money, a variable or alone.

    Only the next dollar is checked, so that a text full of dollars takes linear time.
    """
    if source[opening + 1 : opening + 2].strip() in ("", "$"):
        return None
    if opening and (source[opening - 1].isalnum() or source[opening - 1] == "$"):
        return None
    closing = _find(source, "$", opening + 1, end, MAX_INLINE_CHARS)
    while closing is not None and source[closing - 1] == "\\":
        closing = _find(source, "$", closing + 1, min(end, opening + MAX_INLINE_CHARS), end)
    if closing is None or source[closing - 1].isspace():
        return None
    return None if source[closing + 1 : closing + 2].isalnum() else closing
