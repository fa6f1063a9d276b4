"""A Markdown document as top-level blocks, each rendered separately.

The end of a block depends on the next complete line at most, so a stream can close blocks
permanently. A block that is too long or too deep, and everything after it, is plain text.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from typing import Final

from markdown_it.rules_block import StateBlock
from markdown_it.token import Token
from markdown_it.utils import EnvType

from .parser import PARSER, make_parser, render_tokens
from .sanitiser import sanitise
from .tasks_and_footnotes import collect_footnotes, get_footnotes

MAX_DOCUMENT_CHARS: Final = 400_000
MAX_BLOCK_CHARS: Final = 40_000
MAX_BLOCK_TOKENS: Final = 10_000
MAX_DEPTH: Final = 40
PLAIN_PIECE_CHARS: Final = 8_000

# A reference definition can absorb a line that seemed to begin a block (a title without an end).
# The splitter therefore ignores definitions: they are part of a paragraph there.
_SPLITTER: Final = make_parser().disable("reference")
_CARRIAGE_RETURN: Final = re.compile(r"\r\n?")
# Characters that HTML replaces or UTF-8 cannot encode.
_INVALID_CHARACTERS: Final = re.compile("[\x00\ud800-\udfff]")
# One line that is a paragraph, since no other block begins with a letter, and has no markup.
_PROSE_LINE: Final = re.compile(r"(?!_)[^\W\d](?:(?!_)[\w ,.;()'\"!?%/+=\u2010-\u2026-])*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A top-level block, and its offset in the text."""

    start: int
    source: str
    tokens: list[Token]

    @property
    def is_fence(self) -> bool:
        return self.tokens[0].type == "fence"

    @property
    def is_open_fence(self) -> bool:
        """The content of an unclosed fence has all lines but the first."""
        token = self.tokens[0]
        first, end = token.map or (0, 0)
        return self.is_fence and token.content.count("\n") >= end - first - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Division:
    """The blocks of a text. Text after `plain_from`, if set, is not Markdown."""

    blocks: Sequence[Block]
    plain_from: int | None = None

    def settled(self) -> tuple[Sequence[Block], int]:
        """Return the blocks that further text cannot change, and the offset of the rest."""
        if self.plain_from is not None:
            return self.blocks, self.plain_from
        if not self.blocks:
            return (), 0
        last = self.blocks[-1]
        if last.is_fence and not last.is_open_fence:
            return self.blocks, last.start + len(last.source)
        return self.blocks[:-1], last.start


def normalise_text(text: str) -> str:
    """Return the text with one kind of line end and without characters that a page cannot
    contain."""
    return _INVALID_CHARACTERS.sub("\ufffd", _CARRIAGE_RETURN.sub("\n", text))


def divide_blocks(text: str, *, room: int = MAX_DOCUMENT_CHARS) -> Division:
    """Split the text into blocks. `room` is the number of characters left of the limit of the
    document."""
    if len(text) <= room:
        return _apply_limits(_find_blocks(text))
    head = text[: text.rfind("\n", 0, max(room, 0)) + 1]
    blocks, plain_from = divide_blocks(head, room=len(head)).settled()
    return Division(blocks=blocks, plain_from=plain_from)


def render_block(block: Block, env: EnvType) -> str:
    """Return the HTML of a block. Link definitions are read from `env`, and those of the block are
    added to it."""
    return _render_tokens(block, _resolve_references(block, env), env)


def render_division(
    text: str, division: Division, env: EnvType, *, is_growing: bool = False
) -> str:
    """Return the HTML of a divided text, with its definitions known in all blocks.

    A fence at the end of a growing text is not coloured, because that would repeat with every word.
    """
    resolved = [(block, _resolve_references(block, env)) for block in division.blocks]
    for _block, tokens in resolved:
        collect_footnotes(tokens, get_footnotes(env))
    if is_growing and resolved:
        _mark_last_fence(resolved[-1][1])
    parts = [_render_tokens(block, tokens, env) for block, tokens in resolved]
    if division.plain_from is not None:
        parts.append(render_plain(text[division.plain_from :]))
    return "".join(parts)


def render_prose_line(text: str) -> str | None:
    """Return the HTML of one line without markup, or None for any other text. Most of an answer is
    such lines while they grow, and parsing one takes ten times as long."""
    return f"<p>{text.rstrip(' ')}</p>\n" if _PROSE_LINE.fullmatch(text) else None


def render_plain(text: str) -> str:
    """Return the text as HTML with its line ends, without interpreting it."""
    ends = [0, *find_plain_ends(text), len(text)]
    return "".join(_render_plain_piece(text[start:end]) for start, end in pairwise(ends))


def find_plain_ends(text: str) -> Iterator[int]:
    """Yield the ends of the pieces of plain text that further text cannot change."""
    start = 0
    while stop := _find_plain_end(text, start):
        yield stop
        start = stop


def _resolve_references(block: Block, env: EnvType) -> list[Token]:
    """Return the tokens of the block with reference definitions resolved and stored in `env`."""
    if block.is_fence or "]:" not in block.source:
        return block.tokens
    tokens: list[Token] = []
    PARSER.block.parse(block.source, PARSER, env, tokens)
    return tokens


def _render_tokens(block: Block, tokens: list[Token], env: EnvType) -> str:
    # Text after a definition can nest deeper than the splitter saw.
    return render_plain(block.source) if _is_too_deep(tokens) else render_tokens(tokens, env)


def _mark_last_fence(tokens: Sequence[Token]) -> None:
    last = next((token for token in reversed(tokens) if token.nesting >= 0), None)
    if last is not None and last.type == "fence":
        last.meta["is_growing"] = True


def _find_plain_end(text: str, start: int) -> int | None:
    """Return the position after an empty line, or after the last line, word or character of a long
    piece."""
    limit = start + PLAIN_PIECE_CHARS
    empty_line = text.find("\n\n", start, limit)
    if empty_line >= 0:
        return empty_line + 2
    if len(text) < limit:
        return None
    line = text.rfind("\n", start, limit) + 1
    return line or text.rfind(" ", start, limit) + 1 or limit


def _render_plain_piece(text: str) -> str:
    shown = text.strip("\n")
    return sanitise(f"<p>{escape(shown).replace(chr(10), '<br>')}</p>\n") if shown.strip() else ""


def _find_blocks(text: str) -> list[Block]:
    tokens: list[Token] = []
    state = StateBlock(text, _SPLITTER, {}, tokens)
    line_starts = list(state.bMarks)
    _SPLITTER.block.tokenize(state, 0, state.lineMax)
    groups = _group_top_level(tokens)
    spans = [group[0].map or [0, 0] for group in groups]
    starts = [line_starts[first] for first, _ in spans]
    blocks = []
    for group, span, start, stop in zip(
        groups, spans, starts, [*starts, len(text)][1:], strict=True
    ):
        # A fence ends at its closing line, any other block where the next one begins.
        end = line_starts[span[1]] if group[0].type == "fence" else stop
        blocks.append(Block(start=start, source=text[start:end], tokens=group))
    return blocks


def _group_top_level(tokens: Sequence[Token]) -> list[list[Token]]:
    groups: list[list[Token]] = []
    for token in tokens:
        if token.level == 0 and token.nesting >= 0:
            groups.append([])
        groups[-1].append(token)
    return groups


def _apply_limits(blocks: Sequence[Block]) -> Division:
    for index, block in enumerate(blocks):
        if _is_too_long(block) or _is_too_deep(block.tokens):
            return Division(blocks=blocks[:index], plain_from=block.start)
    return Division(blocks=blocks)


def _is_too_long(block: Block) -> bool:
    """A fence is always one token; an open list or table is parsed with every frame."""
    is_long = len(block.source) > MAX_BLOCK_CHARS or len(block.tokens) > MAX_BLOCK_TOKENS
    return is_long and not block.is_fence


def _is_too_deep(tokens: Sequence[Token]) -> bool:
    """The parser drops text that is nested deeper than its limit, so this limit is far lower."""
    return any(token.level > MAX_DEPTH for token in tokens)
