"""Whole turns through the engine: a scripted model, the real notebook, the real database."""

import asyncio
import json

import pytest

from chatapp.demo.seed import seed
from chatapp.models import Approval, Member, Message, Note, Part, Permit, Step, ToolCall, Turn
from chatapp.providers.events import ProviderError, TextDelta
from chatapp.turns import answers, intake
from chatapp.turns.history import history_of
from chatapp.turns.refusals import Refused
from chatapp.turns.storage import in_database
from chatapp.turns.workplace import Workplace, close_workplace, open_workplace
from mcpconfig.models import Service, ToolDefinition
from tests import scripted
from tests.scripted import Pause, calls, text

pytestmark = pytest.mark.django_db(transaction=True)
DELETE = ("notebook_delete_note", '{"title": "Old ideas"}')
READ = ("notebook_read_note", '{"title": "Old ideas"}')


@pytest.fixture
def notebook(transactional_db: None) -> Service:
    seed()
    Note.objects.update_or_create(title="Old ideas", defaults={"text": "Nothing of worth."})
    return Service.objects.get(name="notebook")


async def rest(workplace: Workplace, turn: Turn) -> Turn:
    """The turn once it has come to rest."""
    async with asyncio.timeout(20):
        while True:
            await workplace.engine.finished(turn.pk)
            await workplace.engine.advance(turn.pk)
            now = await in_database(Turn.objects.get, pk=turn.pk)
            if now.state not in (Turn.State.QUEUED, Turn.State.RUNNING):
                return now


async def only_call(turn: Turn) -> ToolCall:
    return await in_database(ToolCall.objects.select_related("approval").get, turn=turn)


def said(turn: Turn) -> str:
    parts = Part.objects.filter(message_id=turn.answer_id, kind=Part.Kind.TEXT)
    return "".join(part.text for part in parts)


def notices(turn: Turn) -> list[str]:
    parts = Part.objects.filter(message_id=turn.answer_id, kind=Part.Kind.NOTICE)
    return [part.text for part in parts]


async def test_a_plain_question_is_answered(workplace: Workplace, turn: Turn) -> None:
    scripted.scenes.append(text("Hello ", "there."))
    done = await rest(workplace, turn)
    assert (done.state, done.reason) == (Turn.State.DONE, "complete")
    assert await in_database(said, turn) == "Hello there."


async def test_a_low_risk_tool_runs_by_itself_and_the_model_reads_its_result(
    workplace: Workplace, notebook: Service, turn: Turn
) -> None:
    scripted.scenes += [calls(READ), text("It says nothing of worth.")]
    done = await rest(workplace, turn)
    assert done.state == Turn.State.DONE
    call = await only_call(turn)
    assert call.state == ToolCall.State.SUCCEEDED
    outcome = scripted.requests[1].history[-1]
    assert "Nothing of worth." in outcome.text  # type: ignore[union-attr]


async def test_a_high_risk_tool_waits_and_nothing_is_sent(
    workplace: Workplace, notebook: Service, turn: Turn
) -> None:
    scripted.scenes.append(calls(DELETE))
    waiting = await rest(workplace, turn)
    assert waiting.state == Turn.State.WAITING
    assert waiting.lease_owner == ""
    call = await only_call(turn)
    assert (call.state, call.risk) == (ToolCall.State.AWAITING_APPROVAL, "high")
    assert call.reasons
    assert call.why
    assert await in_database(Note.objects.filter(title="Old ideas").exists)
    assert not await in_database(Permit.objects.exists)


async def test_an_approved_call_runs_once_under_one_permit(
    workplace: Workplace, notebook: Service, turn: Turn
) -> None:
    scripted.scenes += [calls(DELETE), text("It is gone.")]
    await rest(workplace, turn)
    call = await only_call(turn)
    await in_database(
        answers.grant, call, by=call_owner(turn), binding=call.approval.binding, shown_at=None
    )
    done = await rest(workplace, turn)
    assert done.state == Turn.State.DONE
    assert not await in_database(Note.objects.filter(title="Old ideas").exists)
    permit = await in_database(Permit.objects.get)
    assert (permit.attempt, permit.binding) == (1, call.approval.binding)
    assert permit.used_at is not None


async def test_a_denied_call_tells_the_model_why(
    workplace: Workplace, notebook: Service, turn: Turn
) -> None:
    scripted.scenes += [calls(DELETE), text("Then it stays.")]
    await rest(workplace, turn)
    call = await only_call(turn)
    await in_database(
        answers.deny,
        call,
        by=call_owner(turn),
        binding=call.approval.binding,
        reason="Keep it until Friday.",
    )
    done = await rest(workplace, turn)
    assert done.state == Turn.State.DONE
    outcome = scripted.requests[1].history[-1]
    assert "Keep it until Friday." in outcome.text  # type: ignore[union-attr]
    assert await in_database(Note.objects.filter(title="Old ideas").exists)


async def test_parallel_calls_are_decided_one_by_one_and_run_together(
    workplace: Workplace, notebook: Service, turn: Turn
) -> None:
    scripted.scenes += [calls(READ, DELETE), text("Done.")]
    await rest(workplace, turn)
    read, delete = await in_database(lambda: list(ToolCall.objects.all()))
    assert read.state == ToolCall.State.APPROVED
    assert delete.state == ToolCall.State.AWAITING_APPROVAL
    approval = await in_database(Approval.objects.get)
    await in_database(
        answers.grant, delete, by=call_owner(turn), binding=approval.binding, shown_at=None
    )
    done = await rest(workplace, turn)
    assert done.state == Turn.State.DONE
    after = await in_database(lambda: dict(ToolCall.objects.values_list("tool_name", "attempt")))
    assert after == {"read_note": 1, "delete_note": 1}
    assert len(scripted.requests[1].history) == 4


@pytest.mark.parametrize(
    "arguments", ["not json", "[1]", '{"title": "a", "title": "b"}', '{"n": NaN}']
)
async def test_arguments_that_cannot_be_read_are_never_run(
    workplace: Workplace, notebook: Service, turn: Turn, arguments: str
) -> None:
    scripted.scenes += [calls((DELETE[0], arguments)), text("I will try differently.")]
    done = await rest(workplace, turn)
    assert done.state == Turn.State.DONE
    call = await only_call(turn)
    assert call.state == ToolCall.State.FAILED
    assert call.attempt == 0


async def test_a_tool_that_is_not_offered_is_never_run(
    workplace: Workplace, notebook: Service, turn: Turn
) -> None:
    scripted.scenes += [calls(("notebook_format_disk", "{}")), text("Sorry.")]
    done = await rest(workplace, turn)
    assert done.state == Turn.State.DONE
    assert "no tool named" in scripted.requests[1].history[-1].text  # type: ignore[union-attr]


async def test_a_call_of_an_answer_that_was_cut_off_is_never_run(
    workplace: Workplace, notebook: Service, turn: Turn
) -> None:
    scene = calls(READ)
    scene[-1] = scripted.text(reason="length")[-1]
    scripted.scenes += [scene, text("Shorter now.")]
    await rest(workplace, turn)
    call = await only_call(turn)
    assert (call.state, call.attempt) == (ToolCall.State.FAILED, 0)


async def test_a_failing_model_call_keeps_the_words_and_says_what_happened(
    workplace: Workplace, turn: Turn
) -> None:
    error = ProviderError(kind="bad_request", message="The provider refused.", hint="Ask less.")
    scripted.scenes.append([TextDelta(text="So far "), TextDelta(text="so good"), error])
    done = await rest(workplace, turn)
    assert (done.state, done.reason) == (Turn.State.FAILED, "failed")
    assert await in_database(said, turn) == "So far so good"
    assert await in_database(notices, turn) == ["The provider refused."]


async def test_a_busy_provider_is_asked_again_before_the_first_word_only(
    workplace: Workplace, turn: Turn
) -> None:
    busy = ProviderError(kind="overloaded", message="Busy.", retry_after=0.01)
    scripted.scenes += [[busy], text("Here I am.")]
    done = await rest(workplace, turn)
    assert done.state == Turn.State.DONE
    assert len(scripted.requests) == 2


async def test_a_provider_that_fails_after_the_first_word_is_not_asked_again(
    workplace: Workplace, turn: Turn
) -> None:
    busy = ProviderError(kind="overloaded", message="Busy.", retry_after=0.01)
    scripted.scenes += [[TextDelta(text="I was"), busy], text("never said")]
    done = await rest(workplace, turn)
    assert done.state == Turn.State.FAILED
    assert len(scripted.requests) == 1


async def test_a_stream_without_an_end_is_a_failure(workplace: Workplace, turn: Turn) -> None:
    scripted.scenes.append([TextDelta(text="Once upon")])
    done = await rest(workplace, turn)
    assert done.state == Turn.State.FAILED
    assert await in_database(said, turn) == "Once upon"


async def test_an_unforeseen_error_ends_the_turn_visibly(workplace: Workplace, turn: Turn) -> None:
    scripted.scenes.append([RuntimeError("a bug")])
    done = await rest(workplace, turn)
    assert done.state == Turn.State.FAILED
    assert "went wrong" in (await in_database(notices, turn))[0]


async def test_stop_ends_a_streaming_answer_within_a_second_and_keeps_its_words(
    workplace: Workplace, turn: Turn
) -> None:
    pause = Pause()
    scripted.scenes.append([TextDelta(text="Half an ans"), pause, TextDelta(text="wer")])
    workplace.engine.wake(turn.pk)
    async with asyncio.timeout(10):
        await pause.reached.wait()
        await in_database(intake.stop, turn.conversation)
    async with asyncio.timeout(2):
        await workplace.engine.finished(turn.pk)
    done = await in_database(Turn.objects.get, pk=turn.pk)
    assert (done.state, done.reason) == (Turn.State.STOPPED, "stopped")
    assert await in_database(said, turn) == "Half an ans"
    assert scripted.closed == [True]


async def test_stop_withdraws_an_open_approval(
    workplace: Workplace, notebook: Service, turn: Turn
) -> None:
    scripted.scenes.append(calls(DELETE))
    await rest(workplace, turn)
    await in_database(intake.stop, turn.conversation)
    call = await only_call(turn)
    assert call.state == ToolCall.State.WITHDRAWN
    assert call.approval.state == Approval.State.WITHDRAWN
    with pytest.raises(Refused):
        await in_database(
            answers.grant, call, by=call_owner(turn), binding=call.approval.binding, shown_at=None
        )


async def test_a_new_message_withdraws_what_waits_and_starts_a_new_turn(
    workplace: Workplace, notebook: Service, turn: Turn
) -> None:
    scripted.scenes += [calls(DELETE), text("All right.")]
    await rest(workplace, turn)
    second = await in_database(
        intake.receive,
        call_owner(turn),
        turn.conversation,
        text="Leave it.",
        model=scripted.MODEL,
    )
    await rest(workplace, second)
    call = await only_call(turn)
    assert call.state == ToolCall.State.WITHDRAWN
    assert "withdrawn" in scripted.requests[1].history[-2].text  # type: ignore[union-attr]


async def test_a_definition_that_changed_after_the_approval_is_not_run(
    workplace: Workplace, notebook: Service, turn: Turn
) -> None:
    scripted.scenes += [calls(DELETE), text("It was not run.")]
    await rest(workplace, turn)
    call = await only_call(turn)
    await in_database(
        answers.grant, call, by=call_owner(turn), binding=call.approval.binding, shown_at=None
    )
    await in_database(ToolDefinition.objects.filter(name=call.tool_name).update, is_current=False)
    await rest(workplace, turn)
    call = await only_call(turn)
    assert (call.state, call.attempt) == (ToolCall.State.WITHDRAWN, 0)
    assert await in_database(Note.objects.filter(title="Old ideas").exists)


@pytest.mark.parametrize("change", ["arguments", "service", "person"])
async def test_anything_that_changed_between_showing_and_running_stops_the_call(
    workplace: Workplace, notebook: Service, turn: Turn, change: str
) -> None:
    scripted.scenes += [calls(DELETE), text("It was not run.")]
    await rest(workplace, turn)
    call = await only_call(turn)
    owner = call_owner(turn)
    await in_database(answers.grant, call, by=owner, binding=call.approval.binding, shown_at=None)
    tamper = {
        "arguments": lambda: ToolCall.objects.update(arguments='{"title":"Precious"}'),
        "service": lambda: Service.objects.update(is_enabled=False),
        "person": lambda: type(owner).objects.update(is_active=False),
    }
    await in_database(tamper[change])
    await rest(workplace, turn)
    call = await only_call(turn)
    assert (call.state, call.attempt) == (ToolCall.State.WITHDRAWN, 0)
    assert await in_database(Note.objects.filter(title="Old ideas").exists)


async def test_a_turn_that_always_asks_for_tools_stops_at_its_budget(
    workplace: Workplace, notebook: Service, turn: Turn, settings: pytest.FixtureRequest
) -> None:
    settings.TURN_MAX_STEPS = 3  # type: ignore[attr-defined]
    for number in range(6):
        scripted.scenes.append(calls((READ[0], json.dumps({"title": f"Page {number}"}))))
    done = await rest(workplace, turn)
    assert done.reason == "budget"
    assert len(scripted.requests) == 3


async def test_the_third_identical_call_asks(
    workplace: Workplace, notebook: Service, turn: Turn
) -> None:
    scripted.scenes += [calls(READ), calls(READ), calls(READ)]
    waiting = await rest(workplace, turn)
    assert waiting.state == Turn.State.WAITING
    states = await in_database(lambda: list(ToolCall.objects.values_list("state", flat=True)))
    assert states == ["succeeded", "succeeded", "awaiting_approval"]


async def test_a_step_whose_worker_died_is_asked_anew_and_nothing_is_shown_twice(
    workplace: Workplace, turn: Turn
) -> None:
    pause = Pause()
    scripted.scenes += [[TextDelta(text="First try"), pause], text("Second try")]
    workplace.engine.wake(turn.pk)
    async with asyncio.timeout(10):
        await pause.reached.wait()
    await close_workplace(workplace)
    successor = await open_workplace(sweeps=False)
    done = await rest(successor, turn)
    await close_workplace(successor)
    assert done.state == Turn.State.DONE
    assert await in_database(said, turn) == "Second try"
    step = await in_database(Step.objects.get)
    assert step.attempt == 2


async def test_every_call_has_exactly_one_outcome_in_the_history(
    workplace: Workplace, notebook: Service, turn: Turn
) -> None:
    scripted.scenes += [calls(READ, ("nowhere_at_all", "{}")), text("Fine.")]
    await rest(workplace, turn)
    fresh = await in_database(Turn.objects.select_related("question", "answer").get, pk=turn.pk)
    history = await in_database(history_of, fresh)
    kinds = [type(item).__name__ for item in history]
    assert kinds == [
        "UserMessage",
        "AssistantMessage",
        "ToolOutcome",
        "ToolOutcome",
        "AssistantMessage",
    ]


async def test_messages_form_a_path(workplace: Workplace, turn: Turn) -> None:
    scripted.scenes += [text("One."), text("Two.")]
    await rest(workplace, turn)
    second = await in_database(
        intake.receive, call_owner(turn), turn.conversation, text="More", model=scripted.MODEL
    )
    await rest(workplace, second)
    question = await in_database(Message.objects.get, pk=second.question_id)
    assert question.parent_id == turn.answer_id
    assert [type(item).__name__ for item in scripted.requests[1].history] == [
        "UserMessage",
        "AssistantMessage",
        "UserMessage",
    ]


def call_owner(turn: Turn) -> Member:
    return turn.conversation.owner
