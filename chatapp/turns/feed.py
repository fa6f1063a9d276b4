"""One conversation's frames in this process: a fold of its journal, in order, each event one
frame."""

import asyncio
import json
import logging
import uuid
from collections import deque
from collections.abc import Sequence
from html import escape
from typing import Protocol

from chatapp.models import Conversation, Part, ToolCall, Turn
from chatapp.rendering import fragments, page
from chatapp.rendering.page import ConversationView, MessageView

from . import journal
from .journal import Event, Kind
from .reading import OpenPart, dot_of, part_view, read_conversation, read_live
from .storage import in_database

log = logging.getLogger(__name__)
Op = tuple[str, str, str]
KEPT_FRAMES = 512
MOST_REPLAYED = 128


class Unresumable(Exception):
    """The conversation is gone, or lacks frames that the tab has seen: the page must load anew."""


class Watcher(Protocol):
    """A tab: it takes frames, until it is dropped and has to come back."""

    def take(self, frame: str) -> None: ...

    def drop(self) -> None: ...


class Feed:
    """Frames of one conversation. Tabs join with the number of the last frame that they have
    seen."""

    def __init__(self, conversation_id: uuid.UUID) -> None:
        self.conversation_id = conversation_id
        self.seq = -1
        self._open: dict[tuple[int, int], OpenPart] = {}
        self._frames: deque[tuple[int, str]] = deque(maxlen=KEPT_FRAMES)
        self._watching: set[Watcher] = set()
        self.joined = 0
        self._inbox: list[Event] = []
        self._target = 0
        self._turning = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None

    # --- tabs ------------------------------------------------------------------------------
    async def join(self, tab: Watcher, after: int) -> None:
        """Add a tab and bring it up to date; raises Unresumable."""
        async with self._turning:
            if self.seq < 0:
                await self._load()
            if after > self.seq:
                latest = await in_database(_latest_seq, self.conversation_id)
                if after > latest:
                    raise Unresumable
                await self._read_up_to(latest)
            for frame in await self._missed(after):
                tab.take(frame)
            self._watching.add(tab)

    def leave(self, tab: Watcher) -> None:
        self._watching.discard(tab)

    def close(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _missed(self, after: int) -> list[str]:
        """What brings a tab from `after` to `self.seq`: the frames themselves, or the state as
        it is."""
        if after == self.seq:
            return []
        kept = [frame for n, frame in self._frames if n > after]
        if len(kept) == self.seq - after <= MOST_REPLAYED:
            return kept
        return [await self._state_since(after)]

    async def _state_since(self, after: int) -> str:
        """One frame that replaces all that changed since `after`, as of exactly `self.seq`."""
        conversation = await in_database(Conversation.objects.get, pk=self.conversation_id)
        view = await in_database(read_conversation, conversation)
        await self._read_up_to(view.seq)
        return _frame(self.seq, await in_database(_changes, view, after))

    # --- events ----------------------------------------------------------------------------
    def offer(self, events: Sequence[Event]) -> None:
        """Events that were committed in this process."""
        self._inbox.extend(events)
        self.nudge(events[-1].seq)

    def nudge(self, seq: int) -> None:
        """The conversation has come to `seq`; whatever is missing is read."""
        self._target = max(self._target, seq)
        if self._target > self.seq and (self._task is None or self._task.done()):
            self._task = asyncio.create_task(self._turn())

    async def _turn(self) -> None:
        try:
            while self.seq >= 0 and self._target > self.seq:  # the first join loads everything
                await self._advance()
        except Exception:
            log.exception("The feed of %s is read anew", self.conversation_id)
            self._drop_everybody()

    def _drop_everybody(self) -> None:
        """Let every tab come back after its last frame; the first one has everything read anew."""
        self.seq = -1
        self._frames.clear()
        self._inbox.clear()
        watching, self._watching = self._watching, set()
        for tab in watching:
            tab.drop()

    async def _advance(self) -> None:
        async with self._turning:
            events, self._inbox = sorted(self._inbox, key=lambda event: event.seq), []
            for event in events:
                if event.seq == self.seq + 1:
                    self._send(event, await self._ops(event))
            if self._target > self.seq:
                await self._read_up_to(self._target)

    async def _read_up_to(self, seq: int) -> None:
        """Apply what the journal has up to `seq`; when it no longer has it, start from the
        state."""
        if self.seq >= seq:
            return
        for event in await in_database(journal.after, self.conversation_id, self.seq):
            if event.seq == self.seq + 1 and event.seq <= seq:
                self._send(event, await self._ops(event))
        if self.seq < seq:
            await self._start_over()

    async def _start_over(self) -> None:
        before = self.seq
        # Nobody is sent the frames on the way: the state comes last, and a tab takes a number once.
        watching, self._watching = self._watching, set()
        try:
            await self._load()
            frame = await self._state_since(before)
        finally:
            self._watching |= watching
        for tab in self._watching:
            tab.take(frame)

    async def _load(self) -> None:
        try:
            self.seq, parts = await in_database(read_live, self.conversation_id)
        except Conversation.DoesNotExist:
            raise Unresumable from None
        self._open = {(part.step, part.position): part for part in parts}
        self._frames.clear()

    def _send(self, event: Event, ops: list[Op]) -> None:
        frame = _frame(event.seq, ops)
        self.seq = event.seq
        self._frames.append((event.seq, frame))
        for tab in self._watching:
            tab.take(frame)

    # --- one event, as what changes on the page -----------------------------------------------
    async def _ops(self, event: Event) -> list[Op]:
        match event.kind:
            case Kind.TEXT:
                return self._text(event)
            case Kind.REASONING:
                return self._reasoning(event)
            case Kind.RESTART:
                return self._restart(event)
            case Kind.STEP:
                ops = self._close_texts(event)
                return ops + await in_database(_stored_parts, event, self._seen(event))
            case _:
                return await in_database(_rendered, event)

    def _text(self, event: Event) -> list[Op]:
        message = uuid.UUID(event.data["message"])
        part, is_new = self._part(event)
        place = (message, part.step, part.position)
        part.stream.feed(event.data["text"])
        update = part.stream.frame()
        if is_new:
            blocks, tail = part.stream.snapshot()
            opened = fragments.text_part_opened(*place, blocks=blocks, tail=tail)
            return [("a", page.parts_id(message), opened)]
        ops: list[Op] = []
        if update.closed:
            ops.append(("a", page.blocks_id(*place), update.closed))
        if update.tail is not None:
            ops.append(("r", page.tail_id(*place), update.tail))
        if update.code:
            ops.append(("x", page.tail_id(*place), update.code))
        return ops

    def _reasoning(self, event: Event) -> list[Op]:
        message = uuid.UUID(event.data["message"])
        part, is_new = self._part(event)
        place = (message, part.step, part.position)
        words = escape(event.data["text"])
        if is_new:
            opened = fragments.reasoning_part_opened(*place, blocks=words)
            return [("a", page.parts_id(message), opened)]
        return [("a", page.blocks_id(*place), words)]

    def _part(self, event: Event) -> tuple[OpenPart, bool]:
        key = (event.data["step"], event.data["position"])
        if key in self._open:
            return self._open[key], False
        self._open[key] = OpenPart(step=key[0], position=key[1], kind=event.kind)
        return self._open[key], True

    def _restart(self, event: Event) -> list[Op]:
        message = uuid.UUID(event.data["message"])
        gone = [key for key in self._open if key[0] == event.data["step"]]
        for key in gone:
            del self._open[key]
        return [("d", page.part_id(message, *key), "") for key in gone]

    def _seen(self, event: Event) -> set[int]:
        """Positions of this step's text parts that tabs have; with them the step is closed here."""
        mine = [key for key in self._open if key[0] == event.data["step"]]
        return {self._open.pop(key).position for key in mine}

    def _close_texts(self, event: Event) -> list[Op]:
        message = uuid.UUID(event.data["message"])
        ops: list[Op] = []
        for part in self._open.values():
            if part.kind != Kind.TEXT or part.step != event.data["step"]:
                continue
            place = (message, part.step, part.position)
            update = part.stream.finish()
            if update.whole is not None:
                ops.append(("r", page.blocks_id(*place), update.whole))
            elif update.closed:
                ops.append(("a", page.blocks_id(*place), update.closed))
            ops.append(("r", page.tail_id(*place), ""))
        return ops


def _frame(n: int, ops: list[Op]) -> str:
    return json.dumps({"n": n, "f": ops}, ensure_ascii=False, separators=(",", ":"))


def _latest_seq(conversation_id: uuid.UUID) -> int:
    return Conversation.objects.values_list("last_seq", flat=True).get(pk=conversation_id)


def _changes(view: ConversationView, after: int) -> list[Op]:
    """Every message that came or changed after frame `after`, and the composer's buttons."""
    ops: list[Op] = []
    for message in view.messages:
        is_live = view.live_turn is not None and view.live_turn.answer_id == message.id
        if message.created_seq > after:
            ops.append(("a", page.THREAD_ID, fragments.message(message)))
        elif is_live or message.touched_seq > after:
            ops.append(("o", page.message_id(message.id), fragments.message(message)))
    actions = fragments.composer_actions(view.conversation, view.live_turn)
    return [*ops, ("o", page.COMPOSER_ID, actions)]


def _stored_parts(event: Event, seen: set[int]) -> list[Op]:
    """The step's parts that were not streamed (notices), and those that look different when
    closed."""
    message = uuid.UUID(event.data["message"])
    ops: list[Op] = []
    said = Part.objects.filter(
        message_id=message, step=event.data["step"], position__in=event.data["positions"]
    )
    for part in said:
        view = part_view(part)
        if view is None or part.kind == Part.Kind.TOOL_CALL:
            continue
        if part.position not in seen:
            ops.append(("a", page.parts_id(message), fragments.part(message, view)))
        elif part.kind == Part.Kind.REASONING:
            place = page.part_id(message, part.step, part.position)
            ops.append(("o", place, fragments.part(message, view)))
    return ops


def _rendered(event: Event) -> list[Op]:
    """Events whose fragments come from the rows as they are now."""
    message = uuid.UUID(event.data["message"])
    match event.kind:
        case Kind.MESSAGE:
            return _message_ops(event, message)
        case Kind.TOOL_CALL:
            return _call_ops(event, message)
        case Kind.NOTICE:
            data = event.data
            part = Part.objects.get(
                message_id=message, step=data["step"], position=data["position"]
            )
            view = part_view(part)
            return [("a", page.parts_id(message), fragments.part(message, view))] if view else []
        case _:
            return _turn_ops(event, message)


def _message_ops(event: Event, message: uuid.UUID) -> list[Op]:
    """A person's message whole; an answer as it begins, since its events follow."""
    turn = Turn.objects.filter(answer_id=message).select_related("conversation").first()
    if turn is not None:
        view = MessageView(id=message, role="assistant", turn=turn)
    else:
        words = Part.objects.filter(message_id=message).values_list("text", flat=True)
        view = MessageView(id=message, role="user", text="\n\n".join(words))
    return [("a", page.THREAD_ID, fragments.message(view))]


def _call_ops(event: Event, message: uuid.UUID) -> list[Op]:
    call = ToolCall.objects.select_related(
        "turn", "service", "definition", "approval__decided_by", "resolved_by"
    ).get(pk=event.data["call"])
    html = fragments.tool_call(call)
    if event.data["is_new"]:
        return [("a", page.parts_id(message), html)]
    return [("o", page.tool_call_id(call.pk), html)]


def _turn_ops(event: Event, message: uuid.UUID) -> list[Op]:
    turn = Turn.objects.select_related("conversation", "answer").get(answer_id=message)
    conversation = turn.conversation
    live = Turn.objects.filter(conversation=conversation, state__in=Turn.LIVE).first()
    link = fragments.conversation_link(conversation, dot_of(live), is_current=True)
    return [
        ("o", page.status_id(message), fragments.status(message, turn)),
        ("o", page.COMPOSER_ID, fragments.composer_actions(conversation, live)),
        ("o", page.link_id(conversation.pk), link),
    ]
