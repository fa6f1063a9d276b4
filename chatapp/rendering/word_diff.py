"""The differences of two texts, word by word, for a person who judges a change. Hidden characters
are drawn, because an invisible change can matter."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher

from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import ngettext

from .hidden_characters import draw_hidden

_WORDS = re.compile(r"\s*\w+|\s+|[^\w\s]")
# Comparing repetitive texts is slow, and services choose their texts.
MAX_COMPARED = 1_000
MAX_PAIRS = 20_000
CONTEXT_LINES = 2


def render_word_diff(before: str, after: str) -> SafeString:
    """Return the text as HTML with removed words in <del> and added ones in <ins>. Long unchanged
    stretches are left out."""
    old, new = before.splitlines(keepends=True), after.splitlines(keepends=True)
    if _is_too_costly(old, new):
        return _mark_replaced(before, after)
    return _join(_diff_lines(old, new))


def _diff_lines(old: Sequence[str], new: Sequence[str]) -> Iterator[str]:
    for kind, a, b, c, d in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if kind == "equal":
            yield _shorten_unchanged(old[a:b], is_first=a == 0, is_last=b == len(old))
        else:
            yield _diff_words("".join(old[a:b]), "".join(new[c:d]))


def _diff_words(before: str, after: str) -> str:
    old, new = _WORDS.findall(before), _WORDS.findall(after)
    if _is_too_costly(old, new):
        return _mark_replaced(before, after)
    matched = SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    return _join(
        draw_hidden("".join(old[a:b]))
        if kind == "equal"
        else _mark_replaced("".join(old[a:b]), "".join(new[c:d]))
        for kind, a, b, c, d in matched
    )


def _is_too_costly(old: Sequence[str], new: Sequence[str]) -> bool:
    counts = Counter(new)
    pairs = sum(counts[each] for each in old)
    return max(len(old), len(new)) > MAX_COMPARED or pairs > MAX_PAIRS


def _mark_replaced(before: str, after: str) -> SafeString:
    return _join((_mark("del", before), _mark("ins", after)))


def _mark(tag: str, text: str) -> str:
    # A changed line end would be invisible.
    drawn = draw_hidden(text).replace("\n", "⏎\n")
    return f"<{tag}>{drawn}</{tag}>" if text else ""


def _shorten_unchanged(lines: Sequence[str], *, is_first: bool, is_last: bool) -> str:
    """Return the lines next to a change and the number of the lines between them."""
    head = 0 if is_first else CONTEXT_LINES
    tail = 0 if is_last else CONTEXT_LINES
    hidden = len(lines) - head - tail
    if hidden <= 1:
        return draw_hidden("".join(lines))
    end = len(lines) - tail
    words = ngettext("%(count)d unchanged line", "%(count)d unchanged lines", hidden)
    between = f'<span class="same">⋯ {escape(words % {"count": hidden})}</span>\n'
    return _join((_draw_lines(lines[:head]), between, _draw_lines(lines[end:])))


def _draw_lines(lines: Sequence[str]) -> str:
    return draw_hidden("".join(lines))


def _join(parts: Iterator[str] | Sequence[str]) -> SafeString:
    """Join parts that are already escaped."""
    return mark_safe("".join(parts))  # noqa: S308  # draw_hidden escapes all that is not ours
