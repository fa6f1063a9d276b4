"""One model call. Its stream becomes journal entries as it arrives, and parts and calls at its
end."""

import asyncio
import contextlib
import logging
import math
import time
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

from django.conf import settings
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from chatapp.context.fitting import (
    AFTER_REFUSALS,
    CannotFit,
    PendingCall,
    SummaryText,
    calculate_room,
    fit_request,
    reduce_room,
)
from chatapp.context.metering import Meter
from chatapp.context.unsupported_media import FILES_REFUSED, TOOLS_REFUSED
from chatapp.journal import journal
from chatapp.journal.db_retry import retry_in_database, run_uninterrupted
from chatapp.journal.fault_points import FaultPoint, reach
from chatapp.journal.group_commit import Draft, GroupCommit
from chatapp.journal.journal import Kind
from chatapp.journal.lease import Lease, lock_turn
from chatapp.models import Step, Turn
from chatapp.providers.access.observed_calls import ObservedCall
from chatapp.providers.estimate import count_tokens
from chatapp.providers.events import (
    ArgumentsDelta,
    FilesLeftOut,
    Finished,
    ModelEvent,
    OpaqueData,
    PictureMade,
    ProviderError,
    ReasoningDelta,
    SourceCited,
    TextDelta,
    ToolCallReady,
    ToolCallStarted,
    ToolLeftOut,
    ToolsLeftOut,
    Usage,
)
from chatapp.providers.registry import load_provider
from chatapp.providers.request import ModelRequest
from chatapp.tools.catalogue import Catalogue
from mcpconfig.values.results import make_storable

from .made_pictures import read_picture
from .model_request import ModelCall, PreparedRequest
from .next_action import Reason
from .steps import Answer, AnswerPart, OpenStep, close_step

log = logging.getLogger(__name__)
MAX_CALLS = 3
MAX_DESCRIPTION = 1_000
MAX_WAIT_SECONDS = 60.0


@dataclass(slots=True, kw_only=True)
class AnswerReader:
    """Turns a model's events into an `Answer`, and passes its text to the group commit."""

    draft: Draft
    commit: GroupCommit
    answer: Answer = field(default_factory=Answer)
    meter: Meter = field(default_factory=Meter)
    is_stored: bool = False
    last_event: float = 0.0
    part_began: float = 0.0

    def open(self) -> None:
        """Begin a stream, and with it the time of the first reasoning."""
        self.last_event = time.monotonic()

    def read(self, event: ModelEvent) -> None:
        self._read(event)
        self.last_event = time.monotonic()

    def _read(self, event: ModelEvent) -> None:
        match event:
            case TextDelta(text=text):
                self._add_text("text", Kind.TEXT, text)
            case ReasoningDelta(text=text):
                self._add_text("reasoning", Kind.REASONING, text)
            case ToolCallReady():
                if not self.answer.calls:
                    reach(FaultPoint.TOOL_CALL_RECEIVED)
                self._begin_call(event.index)
                self.answer.calls.append(event)
            case ToolCallStarted(index=index):
                self._begin_call(index)
            case ToolLeftOut():
                self.answer.left_out[event.name] = event
            case FilesLeftOut():
                self.answer.unseen = (*self.answer.unseen, str(FILES_REFUSED))
            case ToolsLeftOut():
                self.answer.unseen = (*self.answer.unseen, str(TOOLS_REFUSED))
            case SourceCited():
                self.answer.cited.add(event)
            case PictureMade():
                self._add_picture(event)
            case OpaqueData(kind=kind, data=data):
                self._keep(kind, data)
            case Finished(reason=reason):
                self.answer.finish_reason = reason
            case ArgumentsDelta() | Usage():
                pass  # a call is stored when it is complete; `meter` counts

    def _add_text(self, kind: Any, event_kind: Kind, text: str) -> None:
        if not text:
            return
        text = make_storable(text)
        part = self._open_part(kind)
        part.text += text
        part.seconds = round(time.monotonic() - self.part_began, 1)
        self.commit.add(self.draft, event_kind, part.position, text)

    def _add_picture(self, event: PictureMade) -> None:
        """Add a picture as a part of its own, or a notice about why it is not shown."""
        parts = self.answer.parts
        found = read_picture(event.base64, [part.picture for part in parts if part.picture])
        if isinstance(found, str):
            if not any(part.kind == "notice" and part.text == found for part in parts):
                parts.append(AnswerPart(kind="notice", position=len(parts), text=found))
            return
        description = make_storable(event.description)[:MAX_DESCRIPTION]
        part = AnswerPart(kind="file", position=len(parts), text=description, picture=found)
        part.opaque = event.opaque
        parts.append(part)

    def _begin_call(self, index: int) -> None:
        self.answer.places.setdefault(index, len(self.answer.parts))

    def _open_part(self, kind: Any) -> AnswerPart:
        """Return the open part of this kind, or a new one. Opaque data or a new call closes it."""
        parts = self.answer.parts
        is_closed = len(parts) in self.answer.places.values()
        if is_closed or not parts or parts[-1].kind != kind or parts[-1].opaque is not None:
            parts.append(AnswerPart(kind=kind, position=len(parts)))
            # The time before it counts: what is shown may be a summary of long reasoning.
            self.part_began = self.last_event
        return parts[-1]

    def _keep(self, kind: Any, data: dict[str, Any]) -> None:
        """Keep opaque data on the part before it, or on a new part without text."""
        self._open_part(kind).opaque = data


async def call_model(
    lease: Lease,
    turn: Turn,
    step: OpenStep,
    prepared: PreparedRequest,
    commit: GroupCommit,
    was_stopped: Callable[[], bool],
) -> Reason | None:
    """Call the model for this step and store its answer. A failure is stored as a notice. Return
    the reason if the answer ended the turn, which was read just now with its conversation and
    owner.

    Cancelled by Stop, it stores what was said as an interrupted step. Cancelled because the process
    ends, it stores nothing: the next worker calls the model again.
    """
    draft = Draft(lease=lease, message_id=turn.answer_id, step=step.number, attempt=step.attempt)
    reader = AnswerReader(draft=draft, commit=commit)
    catalogue = prepared.catalogue
    try:
        await _call_in_time(turn, lease, step, prepared, reader)
        return await _store_answer(lease, turn, step, reader, catalogue)
    except asyncio.CancelledError:
        if was_stopped() and not reader.is_stored:
            _drop_calls(reader.answer)
            await _store_answer(lease, turn, step, reader, catalogue)
        raise
    except Exception:
        with contextlib.suppress(Exception):  # keep the text, if it can be stored
            await commit.flush(draft)
        raise
    finally:
        commit.forget(draft)


def _build_timeout() -> ProviderError:
    return ProviderError(
        kind="timeout",
        message=_("The model took longer than one answer may take."),
        hint=_("Send a message to continue."),
    )


async def _call_in_time(
    turn: Turn, lease: Lease, step: OpenStep, prepared: PreparedRequest, reader: AnswerReader
) -> None:
    """Read the answer within the time of one turn. A failure becomes a notice."""
    try:
        async with asyncio.timeout(settings.TURN_MAX_SECONDS):
            await _call_with_retries(turn, lease, step, prepared.get_call(), reader)
    except TimeoutError:
        _note_failure(reader.answer, _build_timeout())
    except ProviderError as error:
        log.warning("Model call of turn %s failed: %s %s", turn.pk, error.kind, error.detail)
        _note_failure(reader.answer, error)


async def _call_with_retries(
    turn: Turn, lease: Lease, step: OpenStep, call: ModelCall, reader: AnswerReader
) -> None:
    """Call the model, again after an error that allows it, as long as nothing was received."""
    model, answer = call.model, reader.answer
    answer.price, answer.unseen, answer.saved_tokens = call.price, call.unseen, call.saved_tokens
    provider = await load_provider(model.kind)
    asking = PendingCall(
        lease=lease,
        turn=turn,
        model=model,
        calibration=call.calibration,
        stream=lambda request: provider.stream(request, model.account),
        say=lambda sentence: store_wait(lease, step, sentence),
    )
    for attempt in range(1, MAX_CALLS + 1):
        try:
            return await _call_with_what_fits(asking, call.request, reader, call.summary)
        except ProviderError as error:
            wait = error.retry_after if error.retry_after is not None else 0.5 * 2**attempt
            is_last = attempt == MAX_CALLS or wait > MAX_WAIT_SECONDS
            if is_last or not error.is_worth_a_retry or reader.answer.has_begun:
                raise
            log.info("Model call of turn %s: %s, again in %.1f s", turn.pk, error.kind, wait)
            await wait_visibly(lease, step, error, wait, attempt + 1)


async def _call_with_what_fits(
    asking: PendingCall, whole: ModelRequest, reader: AnswerReader, stored: SummaryText
) -> None:
    """Call the model with what fits; a few times with less, if the provider finds it too long.
    `stored` is the summary of older turns."""
    room = calculate_room(asking.model, asking.calibration)
    summary: SummaryText | None = stored
    for share in (*AFTER_REFUSALS, None):
        request = None
        try:
            request = await _fit(asking, whole, room, reader.answer, summary)
            return await _read_stream(asking, request, reader)
        except ProviderError as error:
            is_other = error.kind != "too_long" or isinstance(error, CannotFit)
            if share is None or is_other or reader.answer.has_begun:
                raise
            refused = count_tokens(request) if request else room or 0
            room = reduce_room(asking.model, refused, share, error.limit_tokens, asking.calibration)
            summary = None  # it may have been extended
            log.info("Model call of turn %s was too long, again with %s", asking.turn.pk, room)


async def _fit(
    asking: PendingCall,
    request: ModelRequest,
    room: int | None,
    answer: Answer,
    summary: SummaryText | None,
) -> ModelRequest:
    found = await fit_request(asking, request, room, summary)
    answer.shortened = found.shortened
    return found.request


async def _read_stream(asking: PendingCall, request: ModelRequest, reader: AnswerReader) -> None:
    reach(FaultPoint.MODEL_REQUEST_BUILT)
    reader.open()
    reader.answer.places.clear()
    reader.answer.cited.by_url.clear()
    observed = ObservedCall(asking.model, "answer")
    async with aclosing(reader.meter.read(request, asking.stream(request), observed)) as events:
        async for event in events:
            reader.read(event)
    if not reader.answer.finish_reason:
        raise ProviderError(
            kind="protocol",
            message=_("The model stopped in the middle of its answer."),
            hint=_("The text so far is kept. Send a message to continue."),
        )


def _note_failure(answer: Answer, error: ProviderError) -> None:
    """Keep the text, drop the calls, and add a notice of the failure."""
    _drop_calls(answer)
    hint = error.hint
    if any(part.kind == "text" for part in answer.parts):
        hint = f"{_('The text so far is kept.')} {hint}".strip()
    position = len(answer.parts)
    answer.parts.append(
        AnswerPart(kind="notice", position=position, text=error.message, hint=hint, is_failure=True)
    )


def _drop_calls(answer: Answer) -> None:
    """Keep the text, and drop the calls: they will not run."""
    answer.finish_reason = ""
    answer.calls.clear()


async def _store_answer(
    lease: Lease, turn: Turn, step: OpenStep, reader: AnswerReader, catalogue: Catalogue
) -> Reason | None:
    """Store the answer with its last text, also while it is cancelled. Return the reason if it
    ended the turn."""
    reader.is_stored = True
    reader.answer.usage = reader.meter.used
    reader.answer.close_sources()
    if reader.meter.reported.input_tokens:
        reader.answer.estimated_tokens = reader.meter.request_tokens

    if reader.answer.ends_turn:
        reach(FaultPoint.TURN_END_CHOSEN)

    async def store() -> Reason | None:
        async with reader.commit.take_rest(reader.draft) as rest:
            return await retry_in_database(
                lease,
                close_step,
                *(lease, step, reader.answer, catalogue, turn.conversation.owner_id),
                rest=rest,
                signals=turn.signals,
            )

    return await run_uninterrupted(store())


# --- the wait before the model is called again ---------------------------------------------------
async def wait_visibly(
    lease: Lease, step: OpenStep, error: ProviderError, seconds: float, attempt: int
) -> None:
    """Wait before the model is called again. `attempt` is the number of that call.

    Each second is a row, so that a page that loads meanwhile counts down as well.
    """
    left = seconds
    try:
        while left > 0:
            count = math.ceil(left)
            retry = ngettext(
                "Trying again in %(count)d second (attempt %(attempt)d of %(most)d).",
                "Trying again in %(count)d seconds (attempt %(attempt)d of %(most)d).",
                count,
            ) % {"count": count, "attempt": attempt, "most": MAX_CALLS}
            await store_wait(lease, step, f"{error.message} {retry}")
            await asyncio.sleep(min(1.0, left))
            left -= 1.0
    finally:
        await store_wait(lease, step, "")


async def store_wait(lease: Lease, step: OpenStep, sentence: str) -> None:
    """Store the sentence about the wait that the page shows, or nothing."""
    await retry_in_database(lease, _store_wait_now, lease, step, sentence)


def _store_wait_now(lease: Lease, step: OpenStep, sentence: str) -> None:
    with lock_turn(lease) as turn:
        Step.objects.filter(pk=step.id).update(waits_because=sentence)
        entry = journal.turn_entry(turn, Turn.State.RUNNING)
        journal.append(turn.conversation_id, turn.pk, [entry])
