"""A request that the model can read: what is too long is shortened, then summarised, and said."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass, replace

from chatapp.models import Turn
from chatapp.providers.estimate import tokens_in, tokens_of
from chatapp.providers.events import Finished, ModelEvent, ProviderError, TextDelta, Usage
from chatapp.providers.request import ModelRequest, UserMessage
from chatapp.storage import in_database

from . import summaries, usage
from .lease import Lease, fenced
from .metering import Meter
from .model_choice import ChosenModel
from .patience import uninterrupted
from .shortening import (
    INSTRUCTIONS,
    results_shortened,
    transcript,
    turns_to_summarise,
    with_summary,
)
from .usage import price_of

# Of what a model can read, kept free for its answer where an admin set no limit for that.
MOST_FOR_ANSWER = 8_192
# After a provider refused a request as too long without saying what it reads: how much of that
# request is tried next. Together they come to a tenth.
AFTER_REFUSALS = (0.7, 0.45, 0.33)
SUMMARY_TOKENS = 4_000
LEAST_TRANSCRIPT_TOKENS = 350
MOST_ROUNDS = 10
CHARACTERS_A_TOKEN = 3


class CannotFit(ProviderError):
    """Nothing that fits is left to be asked, so nothing smaller is tried."""


ONE_QUESTION_TOO_LONG = CannotFit(
    kind="too_long",
    message="The latest messages, with what tools gave for them, are longer than the model reads.",
    hint="Start a new chat with less, switch off some tools, or choose a model that reads more.",
)
STILL_TOO_LONG = CannotFit(
    kind="too_long",
    message="This chat is longer than the model can read, even with its older part summarised.",
    hint="Start a new chat, switch off some tools, or choose a model that reads more.",
)
NO_ROOM_TO_SUMMARISE = CannotFit(
    kind="too_long",
    message="This chat is longer than the model can read, which is too little to summarise it.",
    hint="Start a new chat, or choose a model that reads more.",
)
NOT_SUMMARISED = CannotFit(
    kind="too_long",
    message="This chat is longer than the model can read, and it wrote no summary of its older "
    "part.",
    hint="Try again, start a new chat, or choose another model.",
)
SUMMARY_CUT_OFF = CannotFit(
    kind="too_long",
    message="This chat is longer than the model can read, and the summary of its older part was "
    "cut off, so it is not used.",
    hint="Try again, start a new chat, or choose another model.",
)
NOT_ALL_YET = CannotFit(
    kind="too_long",
    message="This chat is much longer than the model can read; a part of it is summarised so far.",
    hint="Try again to go on from there, or choose a model that reads more.",
)
UNDONE = CannotFit(
    kind="too_long",
    message="This chat is longer than the model can read, and you took its summary back.",
    hint="Use the summary again, start a new chat, or choose a model that reads more.",
)

Stream = Callable[[ModelRequest], AsyncGenerator[ModelEvent, None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Asking:
    """One model call about to be made. `stream` asks the provider; `say` tells the page why that
    takes a moment."""

    lease: Lease
    turn: Turn
    model: ChosenModel
    stream: Stream
    say: Callable[[str], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """What the model is told instead of the first `turns` turns."""

    turns: int = 0
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitted:
    """The request to send. `shortened` counts the results that were cut in it."""

    request: ModelRequest
    shortened: int = 0


def room_of(model: ChosenModel) -> int | None:
    """How many tokens a request may have; None where nobody knows."""
    return _room_in(model, model.context_tokens) if model.context_tokens else None


def _room_in(model: ChosenModel, context_tokens: int) -> int:
    """What of its context is left beside its answer."""
    facts = model.facts
    said = (facts.asked_tokens or facts.output_tokens) if facts else None
    return max(
        1, context_tokens - min(said or MOST_FOR_ANSWER, MOST_FOR_ANSWER, context_tokens // 4)
    )


def room_after_refusal(
    model: ChosenModel, refused: int, share: float, limit_tokens: int | None
) -> int:
    """Less than the `refused` tokens: what the provider said that it reads, else a share of them.
    That it names more than it refused means that its tokens are smaller than those counted here."""
    named = _room_in(model, limit_tokens) if limit_tokens else refused
    return named if named < refused else int(refused * share)


async def fitted(asking: Asking, request: ModelRequest, room: int | None) -> Fitted:
    """The request as it is, or with as little left out as makes it fit. Raises ProviderError."""
    memory = await in_database(_memory_of, asking.turn)
    return _with_less(request, memory, room) or await _summarised(asking, request, memory, room)


def _memory_of(turn: Turn) -> Memory:
    summary = summaries.summary_for(turn.conversation)
    return Memory(turns=summary.turns, text=summary.text) if summary else Memory()


def _with_less(request: ModelRequest, memory: Memory, room: int | None) -> Fitted | None:
    """The request with what is known by heart and, where that is still too long, with short
    results; None where that is not enough."""
    if memory.turns:
        history = with_summary(request.history, memory.turns, memory.text)
        request = replace(request, history=history)
    if room is None or tokens_of(request) <= room:
        return Fitted(request=request)
    short = _with_short_results(request, room)
    return short if tokens_of(short.request) <= room else None


def _with_short_results(request: ModelRequest, room: int) -> Fitted:
    """Results of earlier turns first; those of this turn only where that is not enough."""
    short = results_shortened(request.history, of_this_turn=False)
    if tokens_of(replace(request, history=short.items)) > room:
        short = results_shortened(request.history, of_this_turn=True)
    return Fitted(request=replace(request, history=short.items), shortened=short.count)


async def _summarised(
    asking: Asking, request: ModelRequest, memory: Memory, room: int | None
) -> Fitted:
    """Have the model note its older turns, as many at a time as it can read, until what is left
    fits. Each round is kept, so that what fails later need not be done again."""
    if room is None or not turns_to_summarise(request.history, memory.turns):
        raise replace(STILL_TOO_LONG if memory.turns else ONE_QUESTION_TOO_LONG)
    if await in_database(summaries.was_undone, asking.turn.conversation):
        raise replace(UNDONE)
    await asking.say("Summarising the older part of this chat, so that it fits.")
    try:
        for _ in range(MOST_ROUNDS):
            memory = await _extended(asking, request, memory, room)
            if found := _with_less(request, memory, room):
                return found
            if not turns_to_summarise(request.history, memory.turns):
                raise replace(STILL_TOO_LONG)
    finally:
        await asking.say("")
    raise replace(NOT_ALL_YET)


async def _extended(asking: Asking, request: ModelRequest, memory: Memory, room: int) -> Memory:
    """The memory with the turns that follow on it, stored."""
    most = min(SUMMARY_TOKENS, room // 4)
    left = room - tokens_in(INSTRUCTIONS) - tokens_in(memory.text) - most
    if left < LEAST_TRANSCRIPT_TOKENS:
        raise replace(NO_ROOM_TO_SUMMARISE)
    turns = turns_to_summarise(request.history, memory.turns)
    told = transcript(turns, left * CHARACTERS_A_TOKEN)
    before = f"The notes so far:\n\n{memory.text}\n\n" if memory.turns else ""
    words = f"Write at most {most // 2:,} words.\n\n{before}The transcript:\n\n{told.text}"
    question = ModelRequest(
        model=request.model,
        system=INSTRUCTIONS,
        history=(UserMessage(text=words),),
        # Thoughts would count as part of an answer that is short on purpose.
        parameters=replace(request.parameters, output_tokens=most, effort="off"),
    )
    text = await _noted(asking, question)
    longer = Memory(turns=memory.turns + told.turns, text=text)
    await in_database(summaries.keep, asking.lease, longer.turns, longer.text, asking.turn.model)
    return longer


async def _noted(asking: Asking, question: ModelRequest) -> str:
    """The notes, whole. What they took is counted in any case."""
    meter = Meter()
    try:
        async with aclosing(meter.read(question, asking.stream(question))) as stream:
            events = [event async for event in stream]
    finally:
        await uninterrupted(in_database(_count, asking, meter.used))
    text = "".join(event.text for event in events if isinstance(event, TextDelta)).strip()
    reason = next((event.reason for event in events if isinstance(event, Finished)), "")
    if reason in {"refused", "filtered"} or not text:
        raise replace(NOT_SUMMARISED)
    if reason != "stop":
        raise replace(SUMMARY_CUT_OFF)
    return text


def _count(asking: Asking, used: Usage) -> None:
    if used.input_tokens or used.output_tokens:
        with fenced(asking.lease):
            price = price_of(asking.model.facts)
            usage.count(asking.turn.conversation.owner_id, asking.turn.model, used, price)
            usage.count_summary(asking.turn.pk, used, price)
