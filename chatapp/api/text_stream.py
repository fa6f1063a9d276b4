"""What a program hears of an answer while it is written: each word once, and none that the answer
does not say in the end."""

import asyncio
import contextlib
import uuid
from collections.abc import AsyncGenerator, Iterator, Sequence
from dataclasses import dataclass, field

from chatapp.models import AccessToken, Conversation, Part, Turn
from chatapp.storage import in_database, snapshot

from . import journal
from .history import given_up
from .journal import Event, Kind
from .open_parts import fold

LOOK_SECONDS = 0.5
QUIET_SECONDS = 15.0
PARAGRAPH = "\n\n"
BEGUN_ANEW = (
    "The answer was begun anew, so what was sent of it does not count. Send the same again for all "
    "of it."
)


class BegunAnew(Exception):
    """The program was sent words that the answer does not say any more."""


@dataclass(slots=True, kw_only=True)
class Place:
    """How far a program has read: `sent` in all, up to frame `seq`, and which part the last words
    were of. One that `is_behind` reads the answer itself, not what was added to it."""

    turn_id: uuid.UUID
    conversation_id: uuid.UUID
    seq: int = 0
    part: tuple[int, int] | None = None
    sent: list[str] = field(default_factory=list)
    is_behind: bool = True

    def hear(self, part: tuple[int, int], words: str) -> str:
        """The words, as a paragraph of their own where another part begins."""
        begins = self.part not in (None, part)
        self.part = part
        return f"{PARAGRAPH}{words}" if begins else words


async def words_of(turn: Turn, token: AccessToken) -> AsyncGenerator[str, None]:
    """What was said so far, then what is said, until the turn rests or the token ends. An empty
    text shows, now and then, that nothing is said. Raises BegunAnew."""
    place = Place(turn_id=turn.pk, conversation_id=turn.conversation_id)
    is_over, quiet = False, 0.0
    with _nudges(turn.conversation_id) as nudged:
        while not is_over:
            nudged.clear()
            is_over, words = await in_database(_since, place, token)
            if words or quiet >= QUIET_SECONDS:
                yield words
                quiet = 0.0
            elif not is_over:
                await _nudge(nudged)
                quiet += LOOK_SECONDS


async def rested(turn: Turn, token: AccessToken) -> None:
    """Return when the turn rests or the token ends."""
    with _nudges(turn.conversation_id) as nudged:
        while not await in_database(_is_over, turn, token):
            nudged.clear()
            await _nudge(nudged)


async def _nudge(nudged: asyncio.Event) -> None:
    """Return when something was stored, or when it is time to look."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(LOOK_SECONDS):
            await nudged.wait()


def _is_over(turn: Turn, token: AccessToken) -> bool:
    return Turn.objects.only("state").get(pk=turn.pk).rests or _has_ended(token)


def _has_ended(token: AccessToken) -> bool:
    return not AccessToken.objects.live().filter(pk=token.pk).exists()


def _since(place: Place, token: AccessToken) -> tuple[bool, str]:
    """Whether nothing more is coming, and what was said since. Read in this order: what a turn says
    before it rests is stored before it rests."""
    turn = Turn.objects.only("state", "answer_id").get(pk=place.turn_id)
    # At the end it is compared, whatever became of the journal meanwhile.
    place.is_behind = place.is_behind or turn.rests
    words = _caught_up(place, turn) if place.is_behind else _followed(place, turn)
    if turn.rests and place.is_behind:
        raise BegunAnew
    if words:
        place.sent.append(words)
    return turn.rests or _has_ended(token), words


def _followed(place: Place, turn: Turn) -> str:
    """What the journal adds. Where a step begins anew, or a reader was so slow that some of it is
    gone, the answer itself is read."""
    words = []
    while events := journal.after(place.conversation_id, place.seq):
        if events[0].seq != place.seq + 1 or any(_is_restart(place, event) for event in events):
            return _caught_up(place, turn)
        place.seq = events[-1].seq
        words += [
            place.hear((event.data["step"], event.data["position"]), event.data["text"])
            for event in events
            if event.kind == Kind.TEXT and event.turn_id == place.turn_id
        ]
    return "".join(words)


def _is_restart(place: Place, event: Event) -> bool:
    return event.kind == Kind.RESTART and event.turn_id == place.turn_id


def _caught_up(place: Place, turn: Turn) -> str:
    """What the answer says beyond what was sent. Nothing, as long as it says again what was sent.
    Raises BegunAnew where it says something else."""
    sent, whole = "".join(place.sent), _whole(place, turn)
    place.is_behind = not whole.startswith(sent)
    if not place.is_behind:
        return whole[len(sent) :]
    if sent.startswith(whole):
        return ""
    raise BegunAnew


def _whole(place: Place, turn: Turn) -> str:
    """All that the answer says at this moment."""
    place.part = None
    with snapshot():
        conversation = Conversation.objects.only("last_seq").get(pk=place.conversation_id)
        place.seq = conversation.last_seq
        parts = [
            *((part.step, part.position, part.text) for part in _said(turn)),
            *((part.step, part.position, part.words) for part in fold(turn) if part.kind == "text"),
        ]
    return "".join(place.hear((step, position), text) for step, position, text in parts if text)


def answer_text(turn: Turn) -> str:
    """What the assistant has said in the finished steps of this turn."""
    return PARAGRAPH.join(part.text for part in _said(turn) if part.text)


def _said(turn: Turn) -> list[Part]:
    """The texts of this answer, but for those that were cut off and said again."""
    left_behind = given_up(turn)
    texts = Part.objects.filter(message_id=turn.answer_id, kind=Part.Kind.TEXT)
    return [
        part
        for part in texts.order_by("step", "position")
        if (part.message_id, part.step) not in left_behind
    ]


@contextlib.contextmanager
def _nudges(conversation_id: uuid.UUID) -> Iterator[asyncio.Event]:
    """An event that is set when something is stored in this chat by this process; others are found
    by looking."""
    nudged, loop = asyncio.Event(), asyncio.get_running_loop()

    def listen(events: Sequence[Event]) -> None:
        if any(event.conversation_id == conversation_id for event in events):
            with contextlib.suppress(RuntimeError):  # the loop is closing
                loop.call_soon_threadsafe(nudged.set)

    journal.LISTENERS.append(listen)
    try:
        yield nudged
    finally:
        journal.LISTENERS.remove(listen)
