"""Markdown to safe HTML: whole for pages, and in frames while a model writes.

A closed block is rendered once; only the open tail is rendered again.
"""

from collections import OrderedDict
from dataclasses import dataclass
from threading import Lock
from typing import Final

from django.utils.translation import get_language
from markdown_it.utils import EnvType

from .blocks import divide_blocks, normalise_text, render_division
from .open_blocks import BlockReader, FenceReader, Reader
from .tasks_and_footnotes import Footnotes

CACHE_CHARS: Final = 16_000_000
MIN_INTERVAL_SECONDS: Final = 0.04
MAX_INTERVAL_SECONDS: Final = 0.25
TAIL_CHARS_PER_INTERVAL: Final = 4_096
# Uncoloured code or a table of this size takes 50 ms.
COSTLY_CHARS: Final = 16_000

Key = tuple[str | None, str]


def render_markdown(text: str) -> str:
    """Return safe HTML of a whole document. Cached, so that old messages are rendered once."""
    key = get_language(), text
    html = _CACHE.get(key)
    if html is None:
        html = _render_uncached(text)
        _CACHE.put(key, html)
    return html


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """The changes since the last update, applied in the order of the fields.

    `closed` is HTML to append to the closed blocks, `tail` the new HTML of the open tail (None:
    unchanged), `code` text to append to the code block in the tail. `whole` replaces everything; it
    is set only at the end, if a definition changed earlier blocks.
    """

    closed: str = ""
    tail: str | None = None
    code: str = ""
    whole: str | None = None

    def __bool__(self) -> bool:
        return bool(self.closed or self.tail is not None or self.code or self.whole is not None)


class MarkdownStream:
    """One answer while it is written. The result depends on its text, not on how it was split.
    `closed_figures` is the number of code blocks and tables in the closed blocks."""

    def __init__(self) -> None:
        env: EnvType = {}
        self._reader: Reader = BlockReader(0, env)
        self._received: list[str] = []
        self._fresh: list[str] = []
        self._carriage_return = ""
        self._closed: list[str] = []
        self._tail: str | None = ""
        self.closed_figures = 0

    @property
    def suggested_interval_seconds(self) -> float:
        """The time to wait before the next frame: a long tail is sent less often."""
        share = len(self._tail or "") / TAIL_CHARS_PER_INTERVAL
        return min(max(MIN_INTERVAL_SECONDS * share, MIN_INTERVAL_SECONDS), MAX_INTERVAL_SECONDS)

    @property
    def is_costly(self) -> bool:
        """Whether the next frame may take too long to be rendered on the event loop."""
        return self.waiting_chars > COSTLY_CHARS

    @property
    def waiting_chars(self) -> int:
        """The number of characters that the next frame may have to render."""
        return self._reader.waiting_chars + sum(map(len, self._fresh))

    def feed(self, text: str) -> None:
        self._received.append(text)
        self._fresh.append(text)

    def frame(self) -> Update:
        before = self._reader
        closed = self._read(self._take_fresh())
        if isinstance(self._reader, FenceReader):
            code = self._reader.take_unsent()
            if self._reader is before:
                return Update(closed=closed, code=code)
            self._tail = None
            return Update(closed=closed, tail=self._reader.tail())
        tail = self._reader.tail()
        is_changed, self._tail = tail != self._tail, tail
        return Update(closed=closed, tail=tail if is_changed else None)

    def finish(self) -> Update:
        """Close all blocks. The result always equals `render_markdown` of the whole text."""
        closed = self._read(self._take_fresh() + normalise_text(self._carriage_return))
        last = self._reader.finish()
        shown, whole = "".join([*self._closed, last]), render_markdown("".join(self._received))
        self._closed, self._tail = [whole], ""
        return Update(closed=closed + last, tail="", whole=None if whole == shown else whole)

    def snapshot(self) -> tuple[str, str]:
        """Return the closed blocks and the tail as of the last frame, for a page that loads now."""
        tail = self._reader.tail() if self._tail is None else self._tail
        return "".join(self._closed), tail

    def _take_fresh(self) -> str:
        """Return the text since the last frame. A final carriage return is held back, because a
        line feed may follow."""
        text = self._carriage_return + "".join(self._fresh)
        self._carriage_return = "\r" if text.endswith("\r") else ""
        self._fresh.clear()
        return normalise_text(text.removesuffix("\r"))

    def _read(self, text: str) -> str:
        """Return the HTML of all blocks that the text closes."""
        closed: list[str] = []
        rest = text
        while rest:
            step = self._reader.read(rest)
            closed += step.closed
            self._reader = step.successor or self._reader
            rest = step.rest
        self._closed += closed
        html = "".join(closed)
        self.closed_figures += count_figures(html)
        return html


def count_figures(html: str) -> int:
    """Return the number of code blocks and tables in rendered Markdown."""
    return html.count("<figure ")


def _render_uncached(text: str) -> str:
    source = normalise_text(text)
    return render_division(source, divide_blocks(source), {"footnotes": Footnotes(defined=set())})


class _Cache:
    """Rendered documents by language and text, bounded by size; the least recently used is dropped
    first."""

    def __init__(self, max_chars: int) -> None:
        self._max_chars = max_chars
        self._chars = 0
        self._html: OrderedDict[Key, str] = OrderedDict()
        self._lock = Lock()

    def get(self, key: Key) -> str | None:
        with self._lock:
            if key in self._html:
                self._html.move_to_end(key)
            return self._html.get(key)

    def put(self, key: Key, html: str) -> None:
        with self._lock:
            if key in self._html:
                return
            self._html[key] = html
            self._chars += len(key[1]) + len(html)
            while self._chars > self._max_chars:
                oldest, its_html = self._html.popitem(last=False)
                self._chars -= len(oldest[1]) + len(its_html)


_CACHE: Final = _Cache(CACHE_CHARS)
