"""Making a request fit the model's context: long results are shortened, then older turns are
summarised, and the page says so."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from chatapp.journal.db_retry import run_uninterrupted
from chatapp.journal.lease import Lease, lock_turn
from chatapp.models import Turn
from chatapp.providers.access import usage
from chatapp.providers.access.model_choice import ChosenModel
from chatapp.providers.access.observed_calls import ObservedCall
from chatapp.providers.access.usage import find_price
from chatapp.providers.estimate import count_text_tokens, count_tokens
from chatapp.providers.events import Finished, ModelEvent, ProviderError, TextDelta, Usage
from chatapp.providers.request import HistoryItem, ModelRequest, UserMessage
from chatapp.server.database import in_database

from . import summaries
from .calibration import UNCALIBRATED, Calibration
from .metering import Meter
from .shortening import (
    INSTRUCTIONS,
    Transcript,
    insert_summary,
    list_turns_to_summarise,
    shorten_results,
    write_transcript,
)

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

# Tokens of the context kept free for the answer if an admin set no limit for it.
MAX_FOR_ANSWER = 8_192
# After a provider refused a request as too long without naming its limit: the share of that request
# to try next. Multiplied, the three come to a tenth.
AFTER_REFUSALS = (0.7, 0.45, 0.33)
SUMMARY_TOKENS = 4_000
MIN_TRANSCRIPT_TOKENS = 350
MAX_ROUNDS = 10
CHARACTERS_A_TOKEN = 4


class CannotFit(ProviderError):
    """Nothing smaller can be sent, so no smaller request is tried."""


def _cannot_fit(sentence: "tuple[StrOrPromise, StrOrPromise]") -> CannotFit:
    message, hint = sentence
    return CannotFit(kind="too_long", message=str(message), hint=str(hint))


ONE_QUESTION_TOO_LONG = (
    gettext_lazy("The latest messages and tool results exceed the model’s context."),
    gettext_lazy("Start a new chat, switch off tools, or choose a model with more context."),
)
STILL_TOO_LONG = (
    gettext_lazy("This chat exceeds the model’s context, even with a summary of its older part."),
    gettext_lazy("Start a new chat, switch off tools, or choose a model with more context."),
)
NO_ROOM_TO_SUMMARISE = (
    gettext_lazy("This chat exceeds the model’s context, which is too small for a summary."),
    gettext_lazy("Start a new chat, or choose a model with more context."),
)
NOT_SUMMARISED = (
    gettext_lazy("This chat exceeds the model’s context, and the model wrote no summary."),
    gettext_lazy("Try again, start a new chat, or choose another model."),
)
SUMMARY_CUT_OFF = (
    gettext_lazy("This chat exceeds the model’s context, and its summary was cut off."),
    gettext_lazy("Try again, start a new chat, or choose another model."),
)
NOT_ALL_YET = (
    gettext_lazy("This chat far exceeds the model’s context. Only a part is summarised so far."),
    gettext_lazy("Try again to continue, or choose a model with more context."),
)
UNDONE = (
    gettext_lazy("This chat exceeds the model’s context, and you removed its summary."),
    gettext_lazy("Use the summary again, start a new chat, or choose a model with more context."),
)

Stream = Callable[[ModelRequest], AsyncGenerator[ModelEvent, None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingCall:
    """One model call about to be made. `calibration` corrects what is estimated here. `stream`
    calls the provider; `say` shows on the page why it takes a moment."""

    lease: Lease
    turn: Turn
    model: ChosenModel
    calibration: Calibration
    stream: Stream
    say: Callable[[str], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryText:
    """The text that replaces the first `turns` turns."""

    turns: int = 0
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedRequest:
    """The request to send. `shortened` counts the results that were cut in it."""

    request: ModelRequest
    shortened: int = 0


def calculate_room(model: ChosenModel, calibration: Calibration = UNCALIBRATED) -> int | None:
    """Return how many tokens a request may have by our estimate; None if the size of the context
    is unknown."""
    context = model.context_tokens
    return _calculate_room_in(model, calibration, context) if context else None


def _calculate_room_in(model: ChosenModel, calibration: Calibration, context_tokens: int) -> int:
    """Return the tokens of the context without those for the answer."""
    facts = model.facts
    said = (facts.asked_tokens or facts.output_tokens) if facts else None
    left = context_tokens - min(said or MAX_FOR_ANSWER, MAX_FOR_ANSWER, context_tokens // 4)
    return max(1, calibration.to_estimate(left))


def reduce_room(
    model: ChosenModel,
    refused: int,
    share: float,
    limit_tokens: int | None,
    calibration: Calibration = UNCALIBRATED,
) -> int:
    """Return less than the `refused` tokens: the limit that the provider named, otherwise a share
    of them.

    A named limit above the refused size means that the provider's tokens are smaller than those
    counted here.
    """
    named = _calculate_room_in(model, calibration, limit_tokens) if limit_tokens else refused
    return named if named < refused else int(refused * share)


async def fit_request(
    asking: PendingCall,
    request: ModelRequest,
    room: int | None,
    summary: SummaryText | None = None,
) -> FittedRequest:
    """Return the request as it is, or shortened as little as needed. Raise ProviderError.

    `summary` is the stored one if it was read just now."""
    if summary is None:
        summary = await in_database(load_summary, asking.turn)
    return _shorten(request, summary, room) or await _summarise(asking, request, summary, room)


def load_summary(turn: Turn) -> SummaryText:
    summary = summaries.load_summary(turn.conversation)
    return SummaryText(turns=summary.turns, text=summary.text) if summary else SummaryText()


def _shorten(request: ModelRequest, summary: SummaryText, room: int | None) -> FittedRequest | None:
    """Return the request with the stored summary and, if that is not enough, with short results;
    None if it still does not fit."""
    if summary.turns:
        history = insert_summary(request.history, summary.turns, summary.text)
        request = replace(request, history=history)
    if room is None or count_tokens(request) <= room:
        return FittedRequest(request=request)
    short = _shorten_results(request, room)
    return short if count_tokens(short.request) <= room else None


def _shorten_results(request: ModelRequest, room: int) -> FittedRequest:
    """Shorten results of earlier turns first; those of this turn only if that is not enough."""
    short = shorten_results(request.history, of_this_turn=False)
    if count_tokens(replace(request, history=short.items)) > room:
        short = shorten_results(request.history, of_this_turn=True)
    return FittedRequest(request=replace(request, history=short.items), shortened=short.count)


async def _summarise(
    asking: PendingCall, request: ModelRequest, summary: SummaryText, room: int | None
) -> FittedRequest:
    """Have the model summarise its older turns, as many at a time as it can read, until the rest
    fits. Each round is stored, so that a later failure does not repeat it."""
    if room is None or not list_turns_to_summarise(request.history, summary.turns):
        raise _cannot_fit(STILL_TOO_LONG if summary.turns else ONE_QUESTION_TOO_LONG)
    if await in_database(summaries.was_undone, asking.turn.conversation):
        raise _cannot_fit(UNDONE)
    await asking.say(_("Summarising the older part of this chat, so that it fits."))
    try:
        for _round in range(MAX_ROUNDS):
            summary = await _extend_summary(asking, request, summary, room)
            if found := _shorten(request, summary, room):
                return found
            if not list_turns_to_summarise(request.history, summary.turns):
                raise _cannot_fit(STILL_TOO_LONG)
    finally:
        await asking.say("")
    raise _cannot_fit(NOT_ALL_YET)


async def _extend_summary(
    asking: PendingCall, request: ModelRequest, summary: SummaryText, room: int
) -> SummaryText:
    """Summarise the turns that follow the summary, store the result and return it."""
    most = min(SUMMARY_TOKENS, room // 4)
    left = room - count_text_tokens(INSTRUCTIONS) - count_text_tokens(summary.text) - most
    if left < MIN_TRANSCRIPT_TOKENS:
        raise _cannot_fit(NO_ROOM_TO_SUMMARISE)
    turns = list_turns_to_summarise(request.history, summary.turns)
    told = _write_transcript_in(turns, left)
    before = f"The notes so far:\n\n{summary.text}\n\n" if summary.turns else ""
    words = f"Write at most {most // 2:,} words.\n\n{before}The transcript:\n\n{told.text}"
    question = ModelRequest(
        model=request.model,
        system=INSTRUCTIONS,
        history=(UserMessage(text=words),),
        # Reasoning would count against the small answer limit, and notes should not vary.
        parameters=replace(request.parameters, output_tokens=most, effort="off", temperature=None),
    )
    text = await _write_notes(asking, question)
    longer = SummaryText(turns=summary.turns + told.turns, text=text)
    await in_database(
        summaries.store_summary, asking.lease, longer.turns, longer.text, asking.turn.model
    )
    return longer


def _write_transcript_in(turns: Sequence[Sequence[HistoryItem]], tokens: int) -> Transcript:
    characters = tokens * CHARACTERS_A_TOKEN
    told = write_transcript(turns, characters)
    while (count := count_text_tokens(told.text)) > tokens:
        characters = int(0.95 * characters * tokens / count)
        told = write_transcript(turns, characters)
    return told


async def _write_notes(asking: PendingCall, question: ModelRequest) -> str:
    """Return the complete notes. Their tokens are counted also if this fails."""
    meter = Meter()
    try:
        observed = ObservedCall(asking.model, "summary")
        async with aclosing(meter.read(question, asking.stream(question), observed)) as stream:
            events = [event async for event in stream]
    finally:
        await run_uninterrupted(in_database(_count_usage, asking, meter.used))
    text = "".join(event.text for event in events if isinstance(event, TextDelta)).strip()
    reason = next((event.reason for event in events if isinstance(event, Finished)), "")
    if reason in {"refused", "filtered"} or not text:
        raise _cannot_fit(NOT_SUMMARISED)
    if reason != "stop":
        raise _cannot_fit(SUMMARY_CUT_OFF)
    return text


def _count_usage(asking: PendingCall, used: Usage) -> None:
    if used.input_tokens or used.output_tokens:
        with lock_turn(asking.lease):
            price = find_price(asking.model.facts)
            usage.add_usage(asking.turn.conversation.owner_id, asking.turn.model, used, price)
            usage.add_summary_usage(asking.turn.pk, used, price)
