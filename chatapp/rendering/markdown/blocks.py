"""A Markdown document as its top-level blocks, each rendered by itself.

Where a block ends never depends on more than the next complete line, so a stream can close blocks
for good. From a block that is too long or too deep to be parsed on, a document is plain text.
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

from chatapp.rendering.markup import PARSER, make_parser, tokens_to_html
from chatapp.rendering.sanitiser import clean

MAX_DOCUMENT_CHARS: Final = 400_000
MAX_BLOCK_CHARS: Final = 40_000
MAX_BLOCK_TOKENS: Final = 10_000
MAX_DEPTH: Final = 40
PLAIN_PIECE_CHARS: Final = 8_000

# A reference definition may take back a line that seemed to begin a block (a title that never
# ends). Where blocks end is therefore found without them: they are part of a paragraph there.
_SPLITTER: Final = make_parser().disable("reference")
_CARRIAGE_RETURN: Final = re.compile(r"\r\n?")
# What HTML replaces or UTF-8 cannot hold.
_IMPOSSIBLE: Final = re.compile("[\x00\ud800-\udfff]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A top-level block, and where it begins in the text it was found in."""

    start: int
    source: str
    tokens: list[Token]

    @property
    def is_fence(self) -> bool:
        return self.tokens[0].type == "fence"

    @property
    def is_open_fence(self) -> bool:
        """The content of a fence that was never closed has all lines but the first."""
        token = self.tokens[0]
        first, end = token.map or (0, 0)
        return self.is_fence and token.content.count("\n") >= end - first - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Division:
    """The blocks of a text. From `plain_from` on, if set, it is not Markdown."""

    blocks: Sequence[Block]
    plain_from: int | None = None

    def settled(self) -> tuple[Sequence[Block], int]:
        """The blocks that no further text can change, and where the rest begins."""
        if self.plain_from is not None:
            return self.blocks, self.plain_from
        if not self.blocks:
            return (), 0
        last = self.blocks[-1]
        if last.is_fence and not last.is_open_fence:
            return self.blocks, last.start + len(last.source)
        return self.blocks[:-1], last.start


def normalise(text: str) -> str:
    """One kind of line end, and no character that a page cannot hold."""
    return _IMPOSSIBLE.sub("\ufffd", _CARRIAGE_RETURN.sub("\n", text))


def divide(text: str, *, room: int = MAX_DOCUMENT_CHARS) -> Division:
    """`room` is how much of the document's allowance is left at the beginning of `text`."""
    if len(text) <= room:
        return _within_limits(_find_blocks(text))
    head = text[: text.rfind("\n", 0, max(room, 0)) + 1]
    blocks, plain_from = divide(head, room=len(head)).settled()
    return Division(blocks=blocks, plain_from=plain_from)


def block_to_html(block: Block, env: EnvType) -> str:
    """Definitions in the block are added to `env`; those that are there are used."""
    return _to_html(block, _resolve(block, env), env)


def division_to_html(
    text: str, division: Division, env: EnvType, *, is_growing: bool = False
) -> str:
    """The HTML of a divided text, its definitions known in all of it.

    A fence at the end of a growing text is not coloured: it would be again with every word.
    """
    resolved = [(block, _resolve(block, env)) for block in division.blocks]
    if is_growing and resolved:
        _mark_last_fence(resolved[-1][1])
    parts = [_to_html(block, tokens, env) for block, tokens in resolved]
    if division.plain_from is not None:
        parts.append(plain_html(text[division.plain_from :]))
    return "".join(parts)


def plain_html(text: str) -> str:
    """The text as it is: line ends kept, nothing interpreted."""
    ends = [0, *plain_ends(text), len(text)]
    return "".join(_plain_piece(text[start:end]) for start, end in pairwise(ends))


def plain_ends(text: str) -> Iterator[int]:
    """Where the pieces of plain text end that no further text can change."""
    start = 0
    while stop := _plain_end(text, start):
        yield stop
        start = stop


def _resolve(block: Block, env: EnvType) -> list[Token]:
    """The tokens of the block, its reference definitions understood and kept in `env`."""
    if block.is_fence or "]:" not in block.source:
        return block.tokens
    tokens: list[Token] = []
    PARSER.block.parse(block.source, PARSER, env, tokens)
    return tokens


def _to_html(block: Block, tokens: list[Token], env: EnvType) -> str:
    # What follows a definition may nest deeper than it seemed without the definition.
    return plain_html(block.source) if _is_too_deep(tokens) else tokens_to_html(tokens, env)


def _mark_last_fence(tokens: Sequence[Token]) -> None:
    last = next((token for token in reversed(tokens) if token.nesting >= 0), None)
    if last is not None and last.type == "fence":
        last.meta["is_growing"] = True


def _plain_end(text: str, start: int) -> int | None:
    """After an empty line, or where a long piece has its last line, word or character."""
    limit = start + PLAIN_PIECE_CHARS
    empty_line = text.find("\n\n", start, limit)
    if empty_line >= 0:
        return empty_line + 2
    if len(text) < limit:
        return None
    line = text.rfind("\n", start, limit) + 1
    return line or text.rfind(" ", start, limit) + 1 or limit


def _plain_piece(text: str) -> str:
    shown = text.strip("\n")
    return clean(f"<p>{escape(shown).replace(chr(10), '<br>')}</p>\n") if shown.strip() else ""


def _find_blocks(text: str) -> list[Block]:
    tokens: list[Token] = []
    state = StateBlock(text, _SPLITTER, {}, tokens)
    line_starts = list(state.bMarks)
    _SPLITTER.block.tokenize(state, 0, state.lineMax)
    groups = _top_level(tokens)
    spans = [group[0].map or [0, 0] for group in groups]
    starts = [line_starts[first] for first, _ in spans]
    blocks = []
    for group, span, start, stop in zip(
        groups, spans, starts, [*starts, len(text)][1:], strict=True
    ):
        # A fence ends at its closing line, other blocks where the next one begins.
        end = line_starts[span[1]] if group[0].type == "fence" else stop
        blocks.append(Block(start=start, source=text[start:end], tokens=group))
    return blocks


def _top_level(tokens: Sequence[Token]) -> list[list[Token]]:
    groups: list[list[Token]] = []
    for token in tokens:
        if token.level == 0 and token.nesting >= 0:
            groups.append([])
        groups[-1].append(token)
    return groups


def _within_limits(blocks: Sequence[Block]) -> Division:
    for index, block in enumerate(blocks):
        if _is_too_long(block) or _is_too_deep(block.tokens):
            return Division(blocks=blocks[:index], plain_from=block.start)
    return Division(blocks=blocks)


def _is_too_long(block: Block) -> bool:
    """A fence is one token however long; an open list or table is parsed with every frame."""
    is_long = len(block.source) > MAX_BLOCK_CHARS or len(block.tokens) > MAX_BLOCK_TOKENS
    return is_long and not block.is_fence


def _is_too_deep(tokens: Sequence[Token]) -> bool:
    """The parser drops what is nested deeper than its own limit, so ours is far below it."""
    return any(token.level > MAX_DEPTH for token in tokens)
