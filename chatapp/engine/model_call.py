"""One model call: the stream becomes journal entries as it comes, and parts and calls when it
ends."""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

from django.conf import settings

from chatapp.models import Conversation, Turn
from chatapp.providers.estimate import tokens_of
from chatapp.providers.events import (
    ArgumentsDelta,
    FilesLeftOut,
    Finished,
    ModelEvent,
    OpaqueData,
    ProviderError,
    ReasoningDelta,
    TextDelta,
    ToolCallReady,
    ToolCallStarted,
    ToolLeftOut,
    ToolsLeftOut,
    Usage,
)
from chatapp.providers.registry import provider_module
from chatapp.providers.request import ModelRequest
from chatapp.storage import in_database
from chatapp.tools.catalogue import Catalogue
from mcpconfig.results import storable

from .asking_again import tell_wait, wait_visibly
from .fitting import AFTER_REFUSALS, Asking, CannotFit, fitted, room_after_refusal, room_of
from .group_commit import Draft, GroupCommit
from .guidance import guidance_for
from .history import history_of
from .instructions import PLANNING, system_text
from .journal import Kind
from .lease import Lease
from .metering import Meter
from .milestones import passed
from .model_choice import ChosenModel, chosen_model
from .offering import offered_tools
from .patience import kept_trying, uninterrupted
from .sight import FILES_REFUSED, TOOLS_REFUSED, unseen_in, visible_to
from .steps import Answer, OpenStep, SaidPart, close_step
from .usage import price_of

log = logging.getLogger(__name__)
ATTEMPTS = 3
LONGEST_WAIT_SECONDS = 60.0
TOO_LONG = ProviderError(
    kind="timeout",
    message="The model was still answering when this turn's time was over.",
    hint="Send another message to go on.",
)


@dataclass(slots=True, kw_only=True)
class Listener:
    """Turns a model's events into an `Answer`, and passes its words on to the group commit."""

    draft: Draft
    commit: GroupCommit
    answer: Answer = field(default_factory=Answer)
    meter: Meter = field(default_factory=Meter)
    is_kept: bool = False
    heard: float = 0.0
    part_began: float = 0.0

    def open(self) -> None:
        """A stream begins, and with it the time of the first thought."""
        self.heard = time.monotonic()

    def take(self, event: ModelEvent) -> None:
        self._take(event)
        self.heard = time.monotonic()

    def _take(self, event: ModelEvent) -> None:
        match event:
            case TextDelta(text=text):
                self._say("text", Kind.TEXT, text)
            case ReasoningDelta(text=text):
                self._say("reasoning", Kind.REASONING, text)
            case ToolCallReady():
                if not self.answer.calls:
                    passed("K7")
                self._begin_call(event.index)
                self.answer.calls.append(event)
            case ToolCallStarted(index=index):
                self._begin_call(index)
            case ToolLeftOut():
                self.answer.left_out[event.name] = event
            case FilesLeftOut():
                self.answer.unseen = (*self.answer.unseen, FILES_REFUSED)
            case ToolsLeftOut():
                self.answer.unseen = (*self.answer.unseen, TOOLS_REFUSED)
            case OpaqueData(kind=kind, data=data):
                self._keep(kind, data)
            case Finished(reason=reason):
                self.answer.finish_reason = reason
            case ArgumentsDelta() | Usage():
                pass  # a call's row appears when the call is whole; `meter` counts

    def _say(self, kind: Any, event_kind: Kind, text: str) -> None:
        if not text:
            return
        text = storable(text)
        part = self._part(kind)
        part.text += text
        part.seconds = round(time.monotonic() - self.part_began, 1)
        self.commit.say(self.draft, event_kind, part.position, text)

    def _begin_call(self, index: int) -> None:
        self.answer.places.setdefault(index, len(self.answer.parts))

    def _part(self, kind: Any) -> SaidPart:
        """The open part of this kind; sealed data and the beginning of a call close one."""
        parts = self.answer.parts
        is_closed = len(parts) in self.answer.places.values()
        if is_closed or not parts or parts[-1].kind != kind or parts[-1].opaque is not None:
            parts.append(SaidPart(kind=kind, position=len(parts)))
            # The silence before it belongs to it: what is shown may be a summary of long thought.
            self.part_began = self.heard
        return parts[-1]

    def _keep(self, kind: Any, data: dict[str, Any]) -> None:
        """Opaque data belongs to the words before it; without any, to a part without words."""
        self._part(kind).opaque = data


async def call_model(
    lease: Lease,
    step: OpenStep,
    catalogue: Catalogue,
    commit: GroupCommit,
    was_stopped: Callable[[], bool],
) -> None:
    """Ask the model for this step and store what it says. A failure is stored as a notice.

    Cancelled by Stop, it stores what was said as an interrupted step. Cancelled because the process
    ends, it stores nothing: the next worker asks the model anew.
    """
    turn = await in_database(
        Turn.objects.select_related("question", "answer", "conversation__owner").get,
        pk=lease.turn_id,
    )
    draft = Draft(lease=lease, message_id=turn.answer_id, step=step.number, attempt=step.attempt)
    listener = Listener(draft=draft, commit=commit)
    try:
        await _ask(turn, lease, step, catalogue, listener)
        await _keep(lease, step, listener, catalogue)
    except asyncio.CancelledError:
        if was_stopped() and not listener.is_kept:
            _cut_off(listener.answer)
            await _keep(lease, step, listener, catalogue)
        raise
    except Exception:
        with contextlib.suppress(Exception):  # what was said is kept, if that can be stored
            await commit.flush(draft)
        raise
    finally:
        commit.forget(draft)


async def _ask(
    turn: Turn, lease: Lease, step: OpenStep, catalogue: Catalogue, listener: Listener
) -> None:
    """Take all that the model says within the time of one turn; what fails becomes a notice."""
    try:
        async with asyncio.timeout(settings.TURN_MAX_SECONDS):
            await _listen(turn, lease, step, catalogue, listener)
    except TimeoutError:
        _note_failure(listener.answer, TOO_LONG)
    except ProviderError as error:
        log.warning("Model call of turn %s failed: %s %s", turn.pk, error.kind, error.detail)
        _note_failure(listener.answer, error)


async def _listen(
    turn: Turn, lease: Lease, step: OpenStep, catalogue: Catalogue, listener: Listener
) -> None:
    """Ask, and ask again where that may help and nothing was said yet."""
    model, whole = await in_database(_request, turn, catalogue, listener.answer)
    provider = await provider_module(model.kind)
    asking = Asking(
        lease=lease,
        turn=turn,
        model=model,
        stream=lambda request: provider.stream(request, model.account),
        say=lambda sentence: tell_wait(lease, step, sentence),
    )
    for attempt in range(1, ATTEMPTS + 1):
        try:
            return await _ask_with_what_fits(asking, whole, listener)
        except ProviderError as error:
            wait = error.retry_after if error.retry_after is not None else 0.5 * 2**attempt
            is_last = attempt == ATTEMPTS or wait > LONGEST_WAIT_SECONDS
            if is_last or not error.is_worth_a_retry or listener.answer.has_begun:
                raise
            log.info("Model call of turn %s: %s, again in %.1f s", turn.pk, error.kind, wait)
            await wait_visibly(lease, step, error, wait, f"{attempt + 1} of {ATTEMPTS}")


async def _ask_with_what_fits(asking: Asking, whole: ModelRequest, listener: Listener) -> None:
    """Where the provider finds it too long all the same, again with less, a few times."""
    room = room_of(asking.model)
    for share in (*AFTER_REFUSALS, None):
        refused = room or 0
        try:
            request = await _fitted(asking, whole, room, listener.answer)
            refused = tokens_of(request)
            return await _hear_out(asking, request, listener)
        except ProviderError as error:
            is_other = error.kind != "too_long" or isinstance(error, CannotFit)
            if share is None or is_other or listener.answer.has_begun:
                raise
            room = room_after_refusal(asking.model, refused, share, error.limit_tokens)
            log.info("Model call of turn %s was too long, again with %s", asking.turn.pk, room)


async def _fitted(
    asking: Asking, request: ModelRequest, room: int | None, answer: Answer
) -> ModelRequest:
    found = await fitted(asking, request, room)
    answer.shortened = found.shortened
    return found.request


def _request(turn: Turn, catalogue: Catalogue, answer: Answer) -> tuple[ChosenModel, ModelRequest]:
    """What the model is asked. Whether this person may use it is looked up again each time."""
    model = chosen_model(turn.model, turn.conversation.owner)
    history = history_of(turn)
    answer.price = price_of(model.facts)
    answer.unseen = unseen_in(turn, model.abilities, history)
    offer = offered_tools(turn, model, catalogue)
    answer.saved_tokens = offer.saved_tokens
    request = ModelRequest(
        model=model.name,
        system=system_text(
            catalogue,
            model.system_prompt,
            _mode(turn),
            turn.instructions,
            offer.instructions,
            guidance_for(
                turn.conversation.owner,
                (catalogue[spec.name] for spec in offer.tools if spec.name in catalogue),
            ),
        ),
        history=visible_to(model.abilities, history),
        tools=offer.tools,
        parameters=model.parameters,
        cache_key=str(turn.conversation_id),
    )
    return model, request


def _mode(turn: Turn) -> str:
    return "" if turn.conversation.mode == Conversation.Mode.ACT else PLANNING


async def _hear_out(asking: Asking, request: ModelRequest, listener: Listener) -> None:
    passed("K4")
    listener.open()
    listener.answer.places.clear()
    async with aclosing(listener.meter.read(request, asking.stream(request))) as events:
        async for event in events:
            listener.take(event)
    if not listener.answer.finish_reason:
        raise ProviderError(
            kind="protocol",
            message="The model stopped in the middle of its answer.",
            hint="What it wrote is kept. Send another message to go on.",
        )


def _note_failure(answer: Answer, error: ProviderError) -> None:
    """Keep what was said, drop calls that were not finished, and say what happened."""
    _cut_off(answer)
    hint = error.hint
    if any(part.kind == "text" for part in answer.parts):
        hint = f"What it wrote so far is kept. {hint}".strip()
    position = len(answer.parts)
    answer.parts.append(SaidPart(kind="notice", position=position, text=error.message, hint=hint))


def _cut_off(answer: Answer) -> None:
    """Keep what was said, but for calls that nobody will run."""
    answer.finish_reason = ""
    answer.calls.clear()


async def _keep(lease: Lease, step: OpenStep, listener: Listener, catalogue: Catalogue) -> None:
    """Store the answer, whoever cancels meanwhile: the words first, so that none of them follows
    the end of its step."""
    listener.is_kept = True
    listener.answer.usage = listener.meter.used

    async def store() -> None:
        await listener.commit.flush(listener.draft)
        await kept_trying(lease, close_step, lease, step, listener.answer, catalogue)

    await uninterrupted(store())
