"""Reasoning in Chat Completions: the details of OpenRouter, and thoughts between tags."""

from collections.abc import Iterable, Iterator
from typing import Any

from chatapp.providers.events import ReasoningDelta, TextDelta
from chatapp.providers.stream_reading import as_list, clean_text

Detail = dict[str, Any]

FIELD = "reasoning_details"
# Fields that arrive in pieces. Encrypted data arrives whole.
GROWING = ("text", "summary")


def read_details(delta: dict[str, Any]) -> list[Detail]:
    return [detail for detail in as_list(delta.get(FIELD)) if isinstance(detail, dict)]


def join_texts(details: Iterable[Detail]) -> str:
    return "".join(clean_text(detail.get(name)) for detail in details for name in GROWING)


def join_details(details: Iterable[Detail]) -> list[Detail]:
    """Join the pieces of a stream to whole details."""
    found: list[Detail] = []
    for detail in details:
        if found and _continues(found[-1], detail):
            grown = {
                name: f"{found[-1].get(name) or ''}{detail[name]}"
                for name in GROWING
                if isinstance(detail.get(name), str)
            }
            known = {name: value for name, value in detail.items() if value is not None}
            found[-1] = found[-1] | known | grown
        else:
            found.append(detail)
    return found


def _continues(before: Detail, detail: Detail) -> bool:
    """Whether a detail continues the one before it. A signature ends a detail."""
    same = all(before.get(name) == detail.get(name) for name in ("type", "index"))
    grows = any(isinstance(each.get(name), str) for each in (before, detail) for name in GROWING)
    is_signed = bool(before.get("signature")) and bool(join_texts([detail]))
    return same and grows and not is_signed


OPENING, CLOSING = "<think>", "</think>"


class ThoughtTags:
    """Separates thoughts between tags at the beginning from text, in a stream cut at any place.

    Tags further on are text. What may be the beginning of a tag is held back until more arrives or
    `flush` is called. White space after a tag is removed.
    """

    def __init__(self) -> None:
        self._held = ""
        self._is_begun = False
        self._is_thought = False
        self._is_after_tag = False

    @property
    def are_over(self) -> bool:
        """Whether all that follows is text."""
        return self._is_begun and not self._is_thought and not self._is_after_tag and not self._held

    def take(self, text: str) -> Iterator[TextDelta | ReasoningDelta]:
        self._held += text
        if not self._is_begun and self._may_open():
            return
        if self._is_thought:
            thought, tag, words = self._held.partition(CLOSING)
            if not tag:
                cut = len(thought) - _count_begun_tag(thought)
                thought, self._held = thought[:cut], thought[cut:]
                yield from self._emit(thought)
                return
            yield from self._emit(thought)
            self._is_thought, self._is_after_tag, self._held = False, True, words
        yield from self.flush()

    def flush(self) -> Iterator[TextDelta | ReasoningDelta]:
        text, self._held = self._held, ""
        yield from self._emit(text)

    def _may_open(self) -> bool:
        """Whether the answer may begin with a tag that is not complete yet.

        Otherwise note how it begins.
        """
        begun = self._held.lstrip()
        if len(begun) < len(OPENING) and OPENING.startswith(begun):
            return True
        self._is_begun = True
        if begun.startswith(OPENING):
            self._is_thought = self._is_after_tag = True
            self._held = begun.removeprefix(OPENING)
        return False

    def _emit(self, text: str) -> Iterator[TextDelta | ReasoningDelta]:
        text = text.lstrip() if self._is_after_tag else text
        if text:
            self._is_after_tag = False
            yield ReasoningDelta(text=text) if self._is_thought else TextDelta(text=text)


def _count_begun_tag(text: str) -> int:
    """Return how many of the last characters may begin a closing tag."""
    lengths = range(len(CLOSING) - 1, 0, -1)
    return next((length for length in lengths if text.endswith(CLOSING[:length])), 0)
