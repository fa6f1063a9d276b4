"""Thoughts that a model writes into its answer, between tags at the beginning."""

from collections.abc import Iterator

from .events import ReasoningDelta, TextDelta

OPENING, CLOSING = "<think>", "</think>"


class ThoughtTags:
    """Tells thoughts from words as they come, wherever a tag is cut. Tags further on are words.

    What may be the beginning of a tag is held back until more comes or `let_go` says that nothing
    does. Blanks behind a tag are left out.
    """

    def __init__(self) -> None:
        self._held = ""
        self._is_begun = False
        self._is_thought = False
        self._is_behind_tag = False

    def hear(self, text: str) -> Iterator[TextDelta | ReasoningDelta]:
        self._held += text
        if not self._is_begun and self._may_open():
            return
        if self._is_thought:
            thought, tag, words = self._held.partition(CLOSING)
            if not tag:
                cut = len(thought) - _begun_tag(thought)
                thought, self._held = thought[:cut], thought[cut:]
                yield from self._said(thought)
                return
            yield from self._said(thought)
            self._is_thought, self._is_behind_tag, self._held = False, True, words
        yield from self.let_go()

    def let_go(self) -> Iterator[TextDelta | ReasoningDelta]:
        text, self._held = self._held, ""
        yield from self._said(text)

    def _may_open(self) -> bool:
        """Whether only more will tell how the answer begins; notes it otherwise."""
        begun = self._held.lstrip()
        if len(begun) < len(OPENING) and OPENING.startswith(begun):
            return True
        self._is_begun = True
        if begun.startswith(OPENING):
            self._is_thought = self._is_behind_tag = True
            self._held = begun.removeprefix(OPENING)
        return False

    def _said(self, text: str) -> Iterator[TextDelta | ReasoningDelta]:
        text = text.lstrip() if self._is_behind_tag else text
        if text:
            self._is_behind_tag = False
            yield ReasoningDelta(text=text) if self._is_thought else TextDelta(text=text)


def _begun_tag(text: str) -> int:
    """How many of the last characters may be the beginning of a closing tag."""
    lengths = range(len(CLOSING) - 1, 0, -1)
    return next((length for length in lengths if text.endswith(CLOSING[:length])), 0)
