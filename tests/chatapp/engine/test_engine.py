"""Whole turns through the engine: a scripted model, the real notebook, the real database."""

import asyncio
import json

import pytest

from chatapp.calls import execution
from chatapp.calls.ledger import UNFORESEEN, record_outcome
from chatapp.context.history import build_history
from chatapp.conversations import intake
from chatapp.engine.runtime import EngineRuntime, close_engine_runtime, open_engine_runtime
from chatapp.models import Message, Part, Step, ToolCall, Turn
from chatapp.providers.events import ProviderError, TextDelta
from chatapp.server.database import in_database
from mcpconfig.models import Service
from tests import scripted
from tests.scripted import Pause, calls, text
from tests.turns.acts import (
    READ,
    get_owner,
    read_notices,
    read_text,
    wait_for_rest,
    wait_until_released,
)
from tests.turns.faults import Failing

pytestmark = pytest.mark.django_db(transaction=True)


async def test_a_plain_question_is_answered(runtime: EngineRuntime, turn: Turn) -> None:
    scripted.scenes.append(text("Hello ", "there."))
    done = await wait_for_rest(runtime, turn)
    assert (done.state, done.reason) == (Turn.State.DONE, "complete")
    assert await in_database(read_text, turn) == "Hello there."


async def test_a_failing_model_call_keeps_the_words_and_says_what_happened(
    runtime: EngineRuntime, turn: Turn
) -> None:
    error = ProviderError(kind="bad_request", message="The provider refused.", hint="Ask less.")
    scripted.scenes.append([TextDelta(text="So far "), TextDelta(text="so good"), error])
    done = await wait_for_rest(runtime, turn)
    assert (done.state, done.reason) == (Turn.State.FAILED, "failed")
    assert await in_database(read_text, turn) == "So far so good"
    assert await in_database(read_notices, turn) == ["The provider refused."]


async def test_a_busy_provider_is_asked_again_before_the_first_word_only(
    runtime: EngineRuntime, turn: Turn
) -> None:
    busy = ProviderError(kind="overloaded", message="Busy.", retry_after=0.01)
    scripted.scenes += [[busy], text("Here I am.")]
    done = await wait_for_rest(runtime, turn)
    assert done.state == Turn.State.DONE
    assert len(scripted.requests) == 2


async def test_a_provider_that_fails_after_the_first_word_is_not_asked_again(
    runtime: EngineRuntime, turn: Turn
) -> None:
    busy = ProviderError(kind="overloaded", message="Busy.", retry_after=0.01)
    scripted.scenes += [[TextDelta(text="I was"), busy], text("never said")]
    done = await wait_for_rest(runtime, turn)
    assert done.state == Turn.State.FAILED
    assert len(scripted.requests) == 1


async def test_a_stream_without_an_end_is_a_failure(runtime: EngineRuntime, turn: Turn) -> None:
    scripted.scenes.append([TextDelta(text="Once upon")])
    done = await wait_for_rest(runtime, turn)
    assert done.state == Turn.State.FAILED
    assert await in_database(read_text, turn) == "Once upon"


async def test_an_unforeseen_error_ends_the_turn_visibly(
    runtime: EngineRuntime, turn: Turn
) -> None:
    scripted.scenes.append([RuntimeError("a bug")])
    done = await wait_for_rest(runtime, turn)
    assert done.state == Turn.State.FAILED
    assert "internal error" in (await in_database(read_notices, turn))[0]


async def test_stop_ends_a_streaming_answer_and_keeps_its_words(
    runtime: EngineRuntime, turn: Turn
) -> None:
    pause = Pause()
    scripted.scenes.append([TextDelta(text="Half an ans"), pause, TextDelta(text="wer")])
    runtime.engine.wake(turn.pk)
    async with asyncio.timeout(60):
        await pause.reached.wait()
        await in_database(intake.stop, turn.conversation)
    async with asyncio.timeout(30):
        await wait_until_released(runtime.engine, turn.pk)
    done = await in_database(Turn.objects.get, pk=turn.pk)
    assert (done.state, done.reason) == (Turn.State.STOPPED, "stopped")
    assert await in_database(read_text, turn) == "Half an ans"
    assert scripted.closed == [True]


async def test_a_turn_that_always_asks_for_tools_stops_at_its_budget(
    runtime: EngineRuntime, notebook: Service, turn: Turn, settings: pytest.FixtureRequest
) -> None:
    settings.TURN_MAX_STEPS = 3  # type: ignore[attr-defined]
    for number in range(6):
        scripted.scenes.append(calls((READ[0], json.dumps({"title": f"Page {number}"}))))
    done = await wait_for_rest(runtime, turn)
    assert done.reason == "budget"
    assert len(scripted.requests) == 3
    notice = await in_database(Part.objects.get, kind=Part.Kind.NOTICE)
    assert notice.text == "This answer has called the model 3 times, which is the limit."
    assert notice.hint == "Send “go on” to continue."


async def test_a_step_whose_worker_died_is_asked_anew_and_nothing_is_shown_twice(
    runtime: EngineRuntime, turn: Turn
) -> None:
    pause = Pause()
    scripted.scenes += [[TextDelta(text="First try"), pause], text("Second try")]
    runtime.engine.wake(turn.pk)
    async with asyncio.timeout(60):
        await pause.reached.wait()
    await close_engine_runtime(runtime)
    successor = await open_engine_runtime(sweeps=False)
    done = await wait_for_rest(successor, turn)
    await close_engine_runtime(successor)
    assert done.state == Turn.State.DONE
    assert await in_database(read_text, turn) == "Second try"
    step = await in_database(Step.objects.get)
    assert step.attempt == 2


async def test_every_call_has_exactly_one_outcome_in_the_history(
    runtime: EngineRuntime, notebook: Service, turn: Turn
) -> None:
    scripted.scenes += [calls(READ, ("nowhere_at_all", "{}")), text("Fine.")]
    await wait_for_rest(runtime, turn)
    fresh = await in_database(Turn.objects.select_related("question", "answer").get, pk=turn.pk)
    history = await in_database(build_history, fresh)
    kinds = [type(item).__name__ for item in history]
    assert kinds == [
        "UserMessage",
        "AssistantMessage",
        "ToolOutcome",
        "ToolOutcome",
        "AssistantMessage",
    ]


async def test_messages_form_a_path(runtime: EngineRuntime, turn: Turn) -> None:
    scripted.scenes += [text("One."), text("Two.")]
    await wait_for_rest(runtime, turn)
    second = await in_database(
        intake.receive, get_owner(turn), turn.conversation, text="More", model=scripted.MODEL
    )
    await wait_for_rest(runtime, second)
    question = await in_database(Message.objects.get, pk=second.question_id)
    assert question.parent_id == turn.answer_id
    assert [type(item).__name__ for item in scripted.requests[1].history] == [
        "UserMessage",
        "AssistantMessage",
        "UserMessage",
    ]


async def test_painted_words_stay_when_a_step_is_cut_off(
    runtime: EngineRuntime, turn: Turn
) -> None:
    """What was shown is stored as a part, whatever ended the step."""
    scripted.scenes.append([TextDelta(text="Half an ans"), RuntimeError("a bug")])
    done = await wait_for_rest(runtime, turn)
    assert done.state == Turn.State.FAILED
    assert await in_database(read_text, turn) == "Half an ans"


async def test_a_call_whose_turn_ends_by_a_fault_of_ours_does_not_say_that_the_server_stopped(
    runtime: EngineRuntime, notebook: Service, turn: Turn, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing = Failing(record_outcome, lambda *_, **__: True, ValueError("a bug"))
    monkeypatch.setattr(execution, "record_outcome", failing)
    scripted.scenes.append(calls(READ))
    done = await wait_for_rest(runtime, turn)
    call = await in_database(turn.tool_calls.get)
    assert (done.state, call.state) == (Turn.State.FAILED, ToolCall.State.UNKNOWN)
    assert call.error == UNFORESEEN
