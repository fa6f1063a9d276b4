"""The text of an answer for a program while it is written: each text once, and none that the
final answer lacks."""

import asyncio
import contextlib
import uuid
from collections.abc import AsyncGenerator, Iterator, Sequence
from dataclasses import dataclass, field

from django.utils.translation import gettext_lazy

from chatapp.context.history import list_abandoned_steps
from chatapp.journal import journal
from chatapp.journal.journal import Event, Kind
from chatapp.live.open_parts import fold
from chatapp.models import AccessToken, Conversation, Part, Turn
from chatapp.server.database import in_database, snapshot
from chatapp.server.runtime import current_runtime

LOOK_SECONDS = 0.5
QUIET_SECONDS = 15.0
PARAGRAPH = "\n\n"
ANSWER_RESTARTED = gettext_lazy(
    "The answer was started again, so discard the part that was sent. Send the "
    "same request again to get the whole answer."
)


class AnswerRestarted(Exception):
    """The program got text that the answer no longer contains."""


@dataclass(slots=True, kw_only=True)
class ReadPosition:
    """How far a program has read: the texts `sent`, up to event `seq`, and the part of the last
    text.

    If it `is_behind`, the answer itself is read, not what the journal added to it.
    """

    turn_id: uuid.UUID
    conversation_id: uuid.UUID
    seq: int = 0
    part: tuple[int, int] | None = None
    sent: list[str] = field(default_factory=list)
    is_behind: bool = True

    def add(self, part: tuple[int, int], words: str) -> str:
        """Return the text, as a paragraph of its own if another part begins."""
        begins = self.part not in (None, part)
        self.part = part
        return f"{PARAGRAPH}{words}" if begins else words


async def stream_text(turn: Turn, token: AccessToken) -> AsyncGenerator[str, None]:
    """Yield the text so far, then new text, until the turn rests or the token ends.

    An empty text is yielded now and then to show that the stream is alive. Raise AnswerRestarted.
    """
    place = ReadPosition(turn_id=turn.pk, conversation_id=turn.conversation_id)
    is_over, quiet = False, 0.0
    with _watch_chat(turn.conversation_id) as nudged:
        while not is_over:
            nudged.clear()
            is_over, words = await in_database(_read_since, place, token)
            if words or quiet >= QUIET_SECONDS:
                yield words
                quiet = 0.0
            elif not is_over:
                await _wait_for_change(nudged)
                quiet += LOOK_SECONDS


async def wait_until_rest(turn: Turn, token: AccessToken) -> None:
    """Return when the turn rests or the token ends."""
    with _watch_chat(turn.conversation_id) as nudged:
        while not await in_database(_is_over, turn, token):
            nudged.clear()
            await _wait_for_change(nudged)


async def _wait_for_change(nudged: asyncio.Event) -> None:
    """Return when something was stored, or when it is time to look."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(LOOK_SECONDS):
            await nudged.wait()


def _is_over(turn: Turn, token: AccessToken) -> bool:
    return Turn.objects.only("state").get(pk=turn.pk).rests or _has_ended(token)


def _has_ended(token: AccessToken) -> bool:
    return not AccessToken.objects.live().filter(pk=token.pk).exists()


def _read_since(place: ReadPosition, token: AccessToken) -> tuple[bool, str]:
    """Return whether nothing more follows, and the new text.

    The turn is read first: what a turn says before it rests is stored before it rests.
    """
    turn = Turn.objects.only("state", "answer_id").get(pk=place.turn_id)
    # At the end, compare with the answer, whatever happened to the journal meanwhile.
    place.is_behind = place.is_behind or turn.rests
    words = _read_answer(place, turn) if place.is_behind else _read_journal(place, turn)
    if turn.rests and place.is_behind:
        raise AnswerRestarted
    if words:
        place.sent.append(words)
    return turn.rests or _has_ended(token), words


def _read_journal(place: ReadPosition, turn: Turn) -> str:
    """Return what the journal adds. If a step restarts, or the reader was so slow that events
    are gone, read the answer itself."""
    words = []
    while events := journal.read_events_after(place.conversation_id, place.seq):
        if events[0].seq != place.seq + 1 or any(_is_restart(place, event) for event in events):
            return _read_answer(place, turn)
        place.seq = events[-1].seq
        words += [
            place.add((event.data["step"], event.data["position"]), event.data["text"])
            for event in events
            if event.kind == Kind.TEXT and event.turn_id == place.turn_id
        ]
    return "".join(words)


def _is_restart(place: ReadPosition, event: Event) -> bool:
    return event.kind == Kind.RESTART and event.turn_id == place.turn_id


def _read_answer(place: ReadPosition, turn: Turn) -> str:
    """Return the answer's text beyond what was sent; nothing while it repeats what was sent.
    Raise AnswerRestarted if it differs."""
    sent, whole = "".join(place.sent), _read_whole(place, turn)
    place.is_behind = not whole.startswith(sent)
    if not place.is_behind:
        return whole[len(sent) :]
    if sent.startswith(whole):
        return ""
    raise AnswerRestarted


def _read_whole(place: ReadPosition, turn: Turn) -> str:
    """Return the whole text of the answer now."""
    place.part = None
    with snapshot():
        conversation = Conversation.objects.only("last_seq").get(pk=place.conversation_id)
        place.seq = conversation.last_seq
        parts = [
            *((part.step, part.position, part.text) for part in _list_texts(turn)),
            *((part.step, part.position, part.words) for part in fold(turn) if part.kind == "text"),
        ]
    return "".join(place.add((step, position), text) for step, position, text in parts if text)


def read_answer_text(turn: Turn) -> str:
    """Return the text of the finished steps of this turn."""
    return PARAGRAPH.join(part.text for part in _list_texts(turn) if part.text)


def _list_texts(turn: Turn) -> list[Part]:
    """Return the texts of this answer without those that were interrupted and repeated."""
    left_behind = list_abandoned_steps(turn.conversation_id)
    texts = Part.objects.filter(message_id=turn.answer_id, kind=Part.Kind.TEXT)
    return [
        part
        for part in texts.order_by("step", "position")
        if (part.message_id, part.step) not in left_behind
    ]


@contextlib.contextmanager
def _watch_chat(conversation_id: uuid.UUID) -> Iterator[asyncio.Event]:
    """An event that is set when this process stores something in this chat. Changes of other
    processes are found by polling."""
    nudged, loop = asyncio.Event(), asyncio.get_running_loop()

    def listen(events: Sequence[Event]) -> None:
        if any(event.conversation_id == conversation_id for event in events):
            with contextlib.suppress(RuntimeError):  # the loop is closing
                loop.call_soon_threadsafe(nudged.set)

    listeners = current_runtime().journal_listeners
    listeners.append(listen)
    try:
        yield nudged
    finally:
        listeners.remove(listen)
