"""What a model says among its calls goes back in the order in which it was said, though pages show
calls behind words; and a thought never goes back without what it led to."""

import asyncio
from typing import Any

import pytest

from chatapp.context.history import build_history
from chatapp.conversations import intake
from chatapp.engine.runtime import EngineRuntime
from chatapp.models import Part, Turn
from chatapp.providers.events import (
    Finished,
    OpaqueData,
    ProviderError,
    ReasoningDelta,
    TextDelta,
    ToolCallReady,
    ToolCallStarted,
    Usage,
)
from chatapp.providers.request import (
    AskedTool,
    AssistantMessage,
    HistoryItem,
    SaidReasoning,
    SaidText,
    ToolOutcome,
)
from chatapp.server.database import in_database
from tests import scripted
from tests.scripted import Pause, Scene, text
from tests.turns.acts import wait_for_rest

pytestmark = pytest.mark.django_db(transaction=True)


def thought(words: str) -> Scene:
    sealed = {"provider": "openai", "data": {"seals": words}}
    return [ReasoningDelta(text=words), OpaqueData(kind="reasoning", data=sealed)]


def begun(index: int) -> ToolCallStarted:
    return ToolCallStarted(index=index, name="gone")


def whole(index: int) -> ToolCallReady:
    return ToolCallReady(index=index, call_id=f"call_{index}", name="gone", arguments="{}")


def end(reason: Any) -> Scene:
    return [Usage(output_tokens=5), Finished(reason=reason)]


def order_of(items: tuple[HistoryItem, ...]) -> list[str]:
    """What the assistant said, thoughts that are still sealed in brackets, and results."""
    found: list[str] = []
    for item in items:
        match item:
            case AssistantMessage(parts=parts):
                found += map(_word, parts)
            case ToolOutcome(call_id=call_id):
                found.append(f"result of {call_id}")
    return found


def _word(part: SaidText | SaidReasoning | AskedTool) -> str:
    match part:
        case SaidReasoning(text=words, opaque=opaque):
            return f"[{words}]" if opaque else words
        case SaidText(text=words):
            return words
        case AskedTool(call_id=call_id):
            return call_id


def told(turn: Turn) -> list[str]:
    return order_of(build_history(turn))


def on_the_page(turn: Turn) -> list[str]:
    parts = Part.objects.filter(message_id=turn.answer_id).exclude(kind=Part.Kind.NOTICE)
    return [part.text or part.kind for part in parts]


@pytest.mark.parametrize("is_ready_at_the_end", [False, True])
async def test_words_and_thoughts_keep_their_place_among_calls(
    runtime: EngineRuntime, turn: Turn, is_ready_at_the_end: bool
) -> None:
    first: Scene = [] if is_ready_at_the_end else [whole(0)]
    second: Scene = [whole(0), whole(1)] if is_ready_at_the_end else [whole(1)]
    scripted.scenes.append(
        [
            *thought("One."),
            begun(0),
            *first,
            TextDelta(text="Now "),
            TextDelta(text="the other."),
            *thought("Two."),
            begun(1),
            *second,
            *end("tool_calls"),
        ]
    )
    scripted.scenes.append(text("Done."))
    await wait_for_rest(runtime, turn)
    results = ["result of call_0", "result of call_1"]
    said = ["[One.]", "call_0", "Now the other.", "[Two.]", "call_1"]
    assert order_of(scripted.requests[1].history) == [*said, *results]
    shown = ["One.", "Now the other.", "Two.", "tool_call", "tool_call", "Done."]
    assert await in_database(on_the_page, turn) == shown


async def test_words_on_both_sides_of_a_call_are_two_parts(
    runtime: EngineRuntime, turn: Turn
) -> None:
    words: Scene = [TextDelta(text="Before"), begun(0), TextDelta(text="after"), whole(0)]
    scripted.scenes += [[*words, *end("tool_calls")], text("Done.")]
    await wait_for_rest(runtime, turn)
    assert order_of(scripted.requests[1].history)[:3] == ["Before", "call_0", "after"]


async def test_results_follow_in_the_order_of_their_calls(
    runtime: EngineRuntime, turn: Turn
) -> None:
    """Of two that were begun apart, the second may be whole first."""
    scene = [begun(0), TextDelta(text="and"), begun(1), whole(1), whole(0), *end("tool_calls")]
    scripted.scenes += [scene, text("Done.")]
    await wait_for_rest(runtime, turn)
    assert order_of(scripted.requests[1].history) == [
        *("call_0", "and", "call_1", "result of call_0", "result of call_1")
    ]


async def test_calls_that_were_stored_without_a_place_follow_the_words(
    runtime: EngineRuntime, turn: Turn
) -> None:
    scripted.scenes += [[whole(0), TextDelta(text="after"), *end("tool_calls")], text("Done.")]
    await wait_for_rest(runtime, turn)
    assert (await in_database(told, turn))[:2] == ["call_0", "after"]
    await Part.objects.aupdate(place=None)
    assert (await in_database(told, turn))[:2] == ["after", "call_0"]


UNANSWERED: Scene = [
    *thought("One."),
    *thought("One more."),
    begun(0),
    whole(0),
    *thought("Two."),
    TextDelta(text="Half"),
]


async def test_stop_leaves_no_thought_sealed_whose_call_nobody_runs(
    runtime: EngineRuntime, turn: Turn
) -> None:
    pause = Pause()
    scripted.scenes.append([*UNANSWERED, pause, *text("never")])
    runtime.engine.wake(turn.pk)
    async with asyncio.timeout(60):
        await pause.reached.wait()
    await in_database(intake.stop, turn.conversation)
    await wait_for_rest(runtime, turn)
    assert await in_database(told, turn) == ["One.", "One more.", "[Two.]", "Half"]


async def test_a_failure_leaves_no_thought_sealed_whose_call_nobody_runs(
    runtime: EngineRuntime, turn: Turn
) -> None:
    scripted.scenes.append([*UNANSWERED, ProviderError(kind="bad_request", message="Broken.")])
    await wait_for_rest(runtime, turn)
    assert await in_database(told, turn) == ["One.", "One more.", "[Two.]", "Half"]


async def test_a_call_that_was_cut_off_takes_its_own_thought_along(
    runtime: EngineRuntime, turn: Turn
) -> None:
    """Not that of the call before it; and of two that one thought led to, one is enough."""
    parallel = [*thought("One."), begun(0), begun(1), whole(0)]
    scripted.scenes.append([*parallel, *thought("Two."), begun(2), *end("length")])
    await wait_for_rest(runtime, turn)
    said = (await in_database(told, turn))[:3]
    assert said == ["[One.]", "call_0", "Two."]


async def test_an_attempt_that_failed_leaves_no_place_behind(
    runtime: EngineRuntime, turn: Turn
) -> None:
    failing = ProviderError(kind="overloaded", message="Busy.", retry_after=0)
    scripted.scenes.append([begun(0), failing])
    scripted.scenes.append([*thought("One."), begun(0), whole(0), *end("tool_calls")])
    scripted.scenes.append(text("Done."))
    await wait_for_rest(runtime, turn)
    assert order_of(scripted.requests[-1].history)[:2] == ["[One.]", "call_0"]
