"""One model call: the stream becomes journal entries as it comes, and parts and calls when it
ends."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, cast

from django.conf import settings

from chatapp.models import Turn
from chatapp.providers.events import (
    ArgumentsDelta,
    Finished,
    ModelEvent,
    OpaqueData,
    ProviderError,
    ReasoningDelta,
    TextDelta,
    ToolCallReady,
    ToolCallStarted,
    Usage,
)
from chatapp.providers.registry import provider_for
from chatapp.providers.request import ModelRequest, ToolSpec
from chatapp.tools.catalogue import Catalogue

from .group_commit import Draft, GroupCommit
from .history import history_of
from .instructions import system_text
from .journal import Kind
from .lease import Lease
from .milestones import passed
from .steps import Answer, OpenStep, SaidPart, close_step, open_step
from .storage import in_database, storable

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
    began: float = field(default_factory=time.monotonic)

    def take(self, event: ModelEvent) -> None:
        match event:
            case TextDelta(text=text):
                self._say("text", Kind.TEXT, text)
            case ReasoningDelta(text=text):
                self._say("reasoning", Kind.REASONING, text)
            case ToolCallReady():
                if not self.answer.calls:
                    passed("K7")
                self.answer.calls.append(event)
            case OpaqueData(kind=kind, data=data):
                self._keep(kind, data)
            case Usage():
                self.answer.usage = event
            case Finished(reason=reason):
                self.answer.finish_reason = reason
            case ToolCallStarted() | ArgumentsDelta():
                pass  # the row appears when the call is whole

    def _say(self, kind: Any, event_kind: Kind, text: str) -> None:
        if not text:
            return
        text = storable(text)
        part = self._part(kind)
        part.text += text
        part.seconds = round(time.monotonic() - self.began, 1)
        self.commit.say(self.draft, event_kind, part.position, text)

    def _part(self, kind: Any) -> SaidPart:
        parts = self.answer.parts
        if not parts or parts[-1].kind != kind or parts[-1].opaque is not None:
            parts.append(SaidPart(kind=kind, position=len(parts)))
        return parts[-1]

    def _keep(self, kind: Any, data: dict[str, Any]) -> None:
        """Opaque data belongs to the words before it; without any, to a part without words."""
        self._part(kind).opaque = data


async def call_model(
    lease: Lease,
    number: int,
    catalogue: Catalogue,
    commit: GroupCommit,
    was_stopped: Callable[[], bool],
) -> None:
    """Ask the model for step `number` and store what it says. A failure is stored as a notice.

    Cancelled by Stop, it stores what was said as an interrupted step. Cancelled because the process
    ends, it stores nothing: the next worker asks the model anew.
    """
    passed("K3" if number == 1 else "K14")
    step = await in_database(open_step, lease, number)
    turn = await in_database(
        Turn.objects.select_related("question", "answer").get, pk=lease.turn_id
    )
    draft = Draft(lease=lease, message_id=turn.answer_id, step=step.number, attempt=step.attempt)
    listener = Listener(draft=draft, commit=commit)
    try:
        async with asyncio.timeout(settings.TURN_MAX_SECONDS):
            await _listen(turn, catalogue, listener)
    except TimeoutError:
        _note_failure(listener.answer, TOO_LONG)
    except ProviderError as error:
        log.warning("Model call of turn %s failed: %s %s", turn.pk, error.kind, error.detail)
        _note_failure(listener.answer, error)
    except asyncio.CancelledError:
        if was_stopped():
            await _store_interrupted(lease, step, listener, catalogue)
        else:
            commit.forget(draft)
        raise
    await commit.flush(draft)
    await in_database(close_step, lease, step, listener.answer, catalogue)


async def _listen(turn: Turn, catalogue: Catalogue, listener: Listener) -> None:
    """Ask, and ask again where that may help and nothing was said yet."""
    provider, model = await provider_for(turn.model)
    request = ModelRequest(
        model=model,
        system=system_text(catalogue),
        history=await in_database(history_of, turn),
        tools=tuple(
            ToolSpec(name=t.tool_id, description=t.description, input_schema=t.input_schema)
            for t in catalogue.values()
        ),
    )
    for attempt in range(1, ATTEMPTS + 1):
        try:
            return await _hear_out(provider.stream(request), listener)
        except ProviderError as error:
            wait = error.retry_after if error.retry_after is not None else 0.5 * 2**attempt
            is_last = attempt == ATTEMPTS or wait > LONGEST_WAIT_SECONDS
            if is_last or not error.is_worth_a_retry or listener.answer.has_begun:
                raise
            log.info("Model call of turn %s: %s, again in %.1f s", turn.pk, error.kind, wait)
            await asyncio.sleep(wait)


async def _hear_out(stream: AsyncIterator[ModelEvent], listener: Listener) -> None:
    passed("K4")
    async with aclosing(cast(Any, stream)):
        async for event in stream:
            listener.take(event)
    if not listener.answer.finish_reason:
        raise ProviderError(
            kind="protocol",
            message="The model stopped in the middle of its answer.",
            hint="What it wrote is kept. Send another message to go on.",
        )


def _note_failure(answer: Answer, error: ProviderError) -> None:
    """Keep what was said, drop calls that were not finished, and say what happened."""
    answer.finish_reason = ""
    answer.calls.clear()
    hint = error.hint
    if any(part.kind == "text" for part in answer.parts):
        hint = f"What it wrote so far is kept. {hint}".strip()
    position = len(answer.parts)
    answer.parts.append(SaidPart(kind="notice", position=position, text=error.message, hint=hint))


async def _store_interrupted(
    lease: Lease, step: OpenStep, listener: Listener, catalogue: Catalogue
) -> None:
    """Store a stopped answer even though this task is being cancelled."""
    listener.answer.finish_reason = ""
    listener.answer.calls.clear()
    await asyncio.shield(_keep(lease, step, listener, catalogue))


async def _keep(lease: Lease, step: OpenStep, listener: Listener, catalogue: Catalogue) -> None:
    """The words first, so that none of them follows the end of its step."""
    await listener.commit.flush(listener.draft)
    await in_database(close_step, lease, step, listener.answer, catalogue)
