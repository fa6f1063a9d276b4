"""The open parts of the step that a model is answering in: a fold of its deltas, at once or event
by event."""

import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field
from html import escape

from django.db.models import Exists, OuterRef

from chatapp.journal.journal import Event, Kind
from chatapp.models import Conversation, JournalEvent, Step, Turn
from chatapp.rendering import page_values
from chatapp.rendering.figures.controls import add_controls
from chatapp.rendering.markdown.stream import COSTLY_CHARS, MIN_INTERVAL_SECONDS, MarkdownStream
from chatapp.rendering.page_values import PartView, ReasoningView, TextView
from chatapp.rendering.pages import fragments
from chatapp.server.database import snapshot

from .frames import Op

TEXT_KINDS = (Kind.TEXT, Kind.REASONING)


@dataclass(slots=True, kw_only=True)
class OpenPart:
    """One part. `words` is its whole text; pages that show the part do not have `unsent` yet."""

    step: int
    position: int
    kind: JournalEvent.Kind
    words: str = ""
    unsent: str = ""
    is_shown: bool = False
    stream: MarkdownStream = field(default_factory=MarkdownStream)

    def feed(self, words: str) -> None:
        self.words += words
        if self.kind == Kind.TEXT:
            self.stream.feed(words)
        else:
            self.unsent += words

    def paint(self, message: uuid.UUID) -> list[Op]:
        """Return the operations that bring a page up to the current text."""
        if not self.is_shown:
            self.catch_up()
            return [
                ("a", page_values.parts_id(message), fragments.render_part(message, self.view()))
            ]
        if self.kind == Kind.TEXT:
            return self._paint_text(message)
        words, self.unsent = escape(self.unsent), ""
        return [("a", page_values.blocks_id(message, self.step, self.position), words)]

    def catch_up(self) -> None:
        """Mark everything as painted. Called when pages are given the part as it is."""
        self.is_shown, self.unsent = True, ""
        self.stream.frame()

    def _paint_text(self, message: uuid.UUID) -> list[Op]:
        place = (message, self.step, self.position)
        first = self.stream.closed_figures
        update = self.stream.frame()
        ops: list[Op] = []
        if update.closed:
            blocks = add_controls(update.closed, place, first)
            ops.append(("a", page_values.blocks_id(*place), blocks))
        if update.tail is not None:
            ops.append(("r", page_values.tail_id(*place), update.tail))
        if update.code:
            ops.append(("x", page_values.tail_id(*place), update.code))
        return ops

    def close(self, message: uuid.UUID) -> list[Op]:
        """Return the operations for the end of a text, when all of it is closed blocks."""
        place = (message, self.step, self.position)
        first = self.stream.closed_figures
        update = self.stream.finish()
        ops: list[Op] = []
        if update.whole is not None:
            ops.append(("r", page_values.blocks_id(*place), add_controls(update.whole, place)))
        elif update.closed:
            blocks = add_controls(update.closed, place, first)
            ops.append(("a", page_values.blocks_id(*place), blocks))
        return [*ops, ("r", page_values.tail_id(*place), "")]

    def view(self) -> PartView:
        """Return the part as it was last painted; reasoning is returned whole."""
        step, position = self.step, self.position
        if self.kind == Kind.REASONING:
            return ReasoningView(step=step, position=position, text=self.words, is_open=True)
        blocks, tail = self.stream.snapshot()
        return TextView(step=step, position=position, blocks=blocks, tail=tail, is_open=True)


class OpenParts:
    """The open parts of one conversation."""

    def __init__(self, parts: Iterable[OpenPart] = ()) -> None:
        self._parts = {(part.step, part.position): part for part in parts}

    @property
    def interval_seconds(self) -> float:
        """The shortest time between two paints: 0 unless a long block is open."""
        streams = (part.stream for part in self._parts.values())
        longest = max((stream.suggested_interval_seconds for stream in streams), default=0.0)
        return longest if longest > MIN_INTERVAL_SECONDS else 0.0

    def would_be_costly(self, events: Iterable[Event]) -> bool:
        """Whether the paint of these texts may take too long for the event loop."""
        waiting = sum(part.stream.waiting_chars for part in self._parts.values())
        return waiting + sum(len(event.data["text"]) for event in events) > COSTLY_CHARS

    def feed(self, event: Event | JournalEvent) -> OpenPart:
        """Add the text of an event and return its part, which is not painted."""
        key = (event.data["step"], event.data["position"])
        if key not in self._parts:
            self._parts[key] = OpenPart(step=key[0], position=key[1], kind=Kind(event.kind))
        self._parts[key].feed(event.data["text"])
        return self._parts[key]

    def as_loaded(self) -> list[OpenPart]:
        """Mark the parts as painted and return them, for a page that is loaded now."""
        for part in self._parts.values():
            part.catch_up()
        return list(self._parts.values())

    def restart(self, event: Event) -> list[Op]:
        """Return the operations that remove the parts of an attempt that was given up."""
        gone = self._pop_step(event)
        return [
            ("d", page_values.part_id(_message(event), part.step, part.position), "")
            for part in gone
        ]

    def has_only_texts(self, event: Event) -> bool:
        """Whether the open parts of this step are the texts that it ends with, and no others."""
        parts = [part for key, part in self._parts.items() if key[0] == event.data["step"]]
        is_text = all(part.kind == Kind.TEXT for part in parts)
        return is_text and {part.position for part in parts} >= set(event.data["positions"])

    def close(self, event: Event) -> tuple[list[Op], set[int]]:
        """Close the texts of a finished step. Return the operations, and the positions that pages
        have."""
        parts = self._pop_step(event)
        ops = [op for part in parts if part.kind == Kind.TEXT for op in part.close(_message(event))]
        return ops, {part.position for part in parts}

    def _pop_step(self, event: Event) -> list[OpenPart]:
        keys = [key for key in self._parts if key[0] == event.data["step"]]
        return [self._parts.pop(key) for key in keys]


def is_of_same_part(event: Event, other: Event) -> bool:
    """Whether both are text of one part, so that one paint can include both."""
    return event.kind in TEXT_KINDS and _part_key(event) == _part_key(other)


def fold(turn: Turn) -> list[OpenPart]:
    """Return the parts of the running step from the journal, the same for every reader."""
    step = Step.objects.filter(turn=turn, state=Step.State.CALLING).first()
    if step is None:
        return []
    parts = OpenParts()
    for event in JournalEvent.objects.filter(turn=turn, kind__in=TEXT_KINDS).order_by("seq"):
        if (event.data["step"], event.data["attempt"]) == (step.number, step.attempt):
            parts.feed(event)
    return parts.as_loaded()


def load_open_parts(conversation_id: uuid.UUID) -> tuple[int, list[OpenPart]]:
    """Return the number of the latest frame and the open parts as of it."""
    calling = Step.objects.filter(
        turn__conversation=OuterRef("pk"), turn__state__in=Turn.LIVE, state=Step.State.CALLING
    )
    known = Conversation.objects.values_list("last_seq", Exists(calling))
    seq, is_calling = known.get(pk=conversation_id)
    if not is_calling:
        return seq, []
    with snapshot():
        seq = Conversation.objects.values_list("last_seq", flat=True).get(pk=conversation_id)
        live = Turn.objects.filter(conversation_id=conversation_id, state__in=Turn.LIVE).first()
        return seq, fold(live) if live else []


def _message(event: Event) -> uuid.UUID:
    return uuid.UUID(event.data["message"])


def _part_key(event: Event) -> tuple[str, int | None, int | None]:
    return event.kind, event.data.get("step"), event.data.get("position")
