"""The parts of the step that a model is saying: a fold of its words, at once or event by event."""

import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field
from html import escape

from chatapp.models import Conversation, JournalEvent, Step, Turn
from chatapp.rendering import fragments, page
from chatapp.rendering.markdown import MIN_INTERVAL_SECONDS, MarkdownStream
from chatapp.rendering.page import PartView, ReasoningView, TextView
from chatapp.storage import snapshot

from .frames import Op
from .journal import Event, Kind

WORDS = (Kind.TEXT, Kind.REASONING)


@dataclass(slots=True, kw_only=True)
class OpenPart:
    """One part. `words` are all that was said; pages that have its element lack `unsent`."""

    step: int
    position: int
    kind: JournalEvent.Kind
    words: str = ""
    unsent: str = ""
    is_shown: bool = False
    stream: MarkdownStream = field(default_factory=MarkdownStream)

    def hear(self, words: str) -> None:
        self.words += words
        if self.kind == Kind.TEXT:
            self.stream.feed(words)
        else:
            self.unsent += words

    def paint(self, message: uuid.UUID) -> list[Op]:
        """What brings a page up to the words that were heard."""
        if not self.is_shown:
            self.catch_up()
            return [("a", page.parts_id(message), fragments.part(message, self.view()))]
        if self.kind == Kind.TEXT:
            return self._grown(message)
        words, self.unsent = escape(self.unsent), ""
        return [("a", page.blocks_id(message, self.step, self.position), words)]

    def catch_up(self) -> None:
        """A page is about to be given the part as it is."""
        self.is_shown, self.unsent = True, ""
        self.stream.frame()

    def _grown(self, message: uuid.UUID) -> list[Op]:
        place = (message, self.step, self.position)
        update = self.stream.frame()
        ops: list[Op] = []
        if update.closed:
            ops.append(("a", page.blocks_id(*place), update.closed))
        if update.tail is not None:
            ops.append(("r", page.tail_id(*place), update.tail))
        if update.code:
            ops.append(("x", page.tail_id(*place), update.code))
        return ops

    def close(self, message: uuid.UUID) -> list[Op]:
        """The end of a text: all of it is closed blocks."""
        place = (message, self.step, self.position)
        update = self.stream.finish()
        ops: list[Op] = []
        if update.whole is not None:
            ops.append(("r", page.blocks_id(*place), update.whole))
        elif update.closed:
            ops.append(("a", page.blocks_id(*place), update.closed))
        return [*ops, ("r", page.tail_id(*place), "")]

    def view(self) -> PartView:
        """The part as it was last painted, but with all that was thought."""
        step, position = self.step, self.position
        if self.kind == Kind.REASONING:
            return ReasoningView(step=step, position=position, text=self.words, is_open=True)
        blocks, tail = self.stream.snapshot()
        return TextView(step=step, position=position, blocks=blocks, tail=tail, is_open=True)


class OpenParts:
    """The open parts of one conversation; words go in, what changes on its pages comes out."""

    def __init__(self, parts: Iterable[OpenPart] = ()) -> None:
        self._parts = {(part.step, part.position): part for part in parts}

    @property
    def interval_seconds(self) -> float:
        """How long after a paint the next one should come: at once, unless a long block is open."""
        streams = (part.stream for part in self._parts.values())
        longest = max((stream.suggested_interval_seconds for stream in streams), default=0.0)
        return longest if longest > MIN_INTERVAL_SECONDS else 0.0

    def hear(self, event: Event | JournalEvent) -> OpenPart:
        """Take the words of an event; its part remains to be painted."""
        key = (event.data["step"], event.data["position"])
        if key not in self._parts:
            self._parts[key] = OpenPart(step=key[0], position=key[1], kind=Kind(event.kind))
        self._parts[key].hear(event.data["text"])
        return self._parts[key]

    def as_loaded(self) -> list[OpenPart]:
        """The parts as a page has them that is loaded now: nothing remains to be painted."""
        for part in self._parts.values():
            part.catch_up()
        return list(self._parts.values())

    def restart(self, event: Event) -> list[Op]:
        """A step begins anew: what its dead attempt said leaves the page."""
        gone = self._take_step(event)
        return [("d", page.part_id(_message(event), part.step, part.position), "") for part in gone]

    def close(self, event: Event) -> tuple[list[Op], set[int]]:
        """A step is over: its texts are closed. Also the positions that pages have of it."""
        parts = self._take_step(event)
        ops = [op for part in parts if part.kind == Kind.TEXT for op in part.close(_message(event))]
        return ops, {part.position for part in parts}

    def _take_step(self, event: Event) -> list[OpenPart]:
        keys = [key for key in self._parts if key[0] == event.data["step"]]
        return [self._parts.pop(key) for key in keys]


def is_of_same_part(event: Event, other: Event) -> bool:
    """Whether both are words of one part, so that one paint brings them."""
    return event.kind in WORDS and _part_of(event) == _part_of(other)


def fold(turn: Turn) -> list[OpenPart]:
    """The parts of the step that is running, from the journal: the same for every reader."""
    step = Step.objects.filter(turn=turn, state=Step.State.CALLING).first()
    if step is None:
        return []
    parts = OpenParts()
    for event in JournalEvent.objects.filter(turn=turn, kind__in=WORDS).order_by("seq"):
        if (event.data["step"], event.data["attempt"]) == (step.number, step.attempt):
            parts.hear(event)
    return parts.as_loaded()


def read_open(conversation_id: uuid.UUID) -> tuple[int, list[OpenPart]]:
    """The latest frame's number, and the open parts as of that frame."""
    with snapshot():
        seq = Conversation.objects.values_list("last_seq", flat=True).get(pk=conversation_id)
        live = Turn.objects.filter(conversation_id=conversation_id, state__in=Turn.LIVE).first()
        return seq, fold(live) if live else []


def _message(event: Event) -> uuid.UUID:
    return uuid.UUID(event.data["message"])


def _part_of(event: Event) -> tuple[str, int | None, int | None]:
    return event.kind, event.data.get("step"), event.data.get("position")
