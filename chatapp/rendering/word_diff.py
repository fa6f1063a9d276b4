"""What changed between two texts, word by word, for a person who decides whether it matters. Every
hidden character is drawn: a change that cannot be seen is a change to look at."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher

from django.utils.safestring import SafeString, mark_safe

from .visible import draw_hidden

_WORDS = re.compile(r"\s*\w+|\s+|[^\w\s]")
# Comparing costs much where a text repeats itself, and services choose their texts.
MOST_COMPARED = 1_000
MOST_PAIRS = 20_000
CONTEXT_LINES = 2


def word_diff(before: str, after: str) -> SafeString:
    """The text as HTML: what went in <del>, what came in <ins>, long stretches between left out."""
    old, new = before.splitlines(keepends=True), after.splitlines(keepends=True)
    if _costs_too_much(old, new):
        return _replaced(before, after)
    return _joined(_line_by_line(old, new))


def _line_by_line(old: Sequence[str], new: Sequence[str]) -> Iterator[str]:
    for kind, a, b, c, d in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if kind == "equal":
            yield _unchanged(old[a:b], is_first=a == 0, is_last=b == len(old))
        else:
            yield _word_by_word("".join(old[a:b]), "".join(new[c:d]))


def _word_by_word(before: str, after: str) -> str:
    old, new = _WORDS.findall(before), _WORDS.findall(after)
    if _costs_too_much(old, new):
        return _replaced(before, after)
    matched = SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    return _joined(
        draw_hidden("".join(old[a:b]))
        if kind == "equal"
        else _replaced("".join(old[a:b]), "".join(new[c:d]))
        for kind, a, b, c, d in matched
    )


def _costs_too_much(old: Sequence[str], new: Sequence[str]) -> bool:
    counts = Counter(new)
    pairs = sum(counts[each] for each in old)
    return max(len(old), len(new)) > MOST_COMPARED or pairs > MOST_PAIRS


def _replaced(before: str, after: str) -> SafeString:
    return _joined((_marked("del", before), _marked("ins", after)))


def _marked(tag: str, text: str) -> str:
    # A line end would be a change that nobody sees.
    drawn = draw_hidden(text).replace("\n", "⏎\n")
    return f"<{tag}>{drawn}</{tag}>" if text else ""


def _unchanged(lines: Sequence[str], *, is_first: bool, is_last: bool) -> str:
    """The lines next to a change; how many are between."""
    head = 0 if is_first else CONTEXT_LINES
    tail = 0 if is_last else CONTEXT_LINES
    hidden = len(lines) - head - tail
    if hidden <= 1:
        return draw_hidden("".join(lines))
    end = len(lines) - tail
    between = f'<span class="same">⋯ {hidden} lines as before</span>\n'
    return _joined((_drawn(lines[:head]), between, _drawn(lines[end:])))


def _drawn(lines: Sequence[str]) -> str:
    return draw_hidden("".join(lines))


def _joined(parts: Iterator[str] | Sequence[str]) -> SafeString:
    """Parts that are escaped each."""
    return mark_safe("".join(parts))  # noqa: S308  # draw_hidden escapes all that is not ours
