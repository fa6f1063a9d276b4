"""Calls in whole turns: nothing runs unasked, changed or twice, and the model is told why."""

import pytest

from chatapp.models import Approval, Note, Permit, ToolCall, Turn
from chatapp.storage import in_database
from chatapp.turns import answers, intake
from chatapp.turns.refusals import Refused
from chatapp.turns.workplace import Workplace
from mcpconfig.models import Service, ToolDefinition
from tests import scripted
from tests.scripted import calls, text

from .acts import DELETE, READ, call_owner, only_call, rest

pytestmark = pytest.mark.django_db(transaction=True)


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


async def test_the_third_identical_call_asks(
    workplace: Workplace, notebook: Service, turn: Turn
) -> None:
    scripted.scenes += [calls(READ), calls(READ), calls(READ)]
    waiting = await rest(workplace, turn)
    assert waiting.state == Turn.State.WAITING
    states = await in_database(lambda: list(ToolCall.objects.values_list("state", flat=True)))
    assert states == ["succeeded", "succeeded", "awaiting_approval"]
