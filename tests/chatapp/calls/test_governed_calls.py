"""Calls in whole turns: nothing runs unasked, changed or twice, and the model is told why."""

from collections.abc import Callable

import pytest

from chatapp.approvals import decisions
from chatapp.conversations import intake
from chatapp.engine.runtime import EngineRuntime
from chatapp.models import Approval, Member, Note, Permit, ToolCall, Turn
from chatapp.people.refused import Refused
from chatapp.server.database import in_database
from mcpconfig.models import Service, ToolDefinition
from tests import scripted
from tests.scripted import calls, text
from tests.turns.acts import (
    DELETE,
    READ,
    get_only_call,
    get_owner,
    grant_and_change,
    wait_for_rest,
)

pytestmark = pytest.mark.django_db(transaction=True)


async def test_a_low_risk_tool_runs_by_itself_and_the_model_reads_its_result(
    runtime: EngineRuntime, notebook: Service, turn: Turn
) -> None:
    scripted.scenes += [calls(READ), text("It says nothing of worth.")]
    done = await wait_for_rest(runtime, turn)
    assert done.state == Turn.State.DONE
    call = await get_only_call(turn)
    assert call.state == ToolCall.State.SUCCEEDED
    outcome = scripted.requests[1].history[-1]
    assert "Nothing of worth." in outcome.text  # type: ignore[union-attr]


async def test_a_high_risk_tool_waits_and_nothing_is_sent(
    runtime: EngineRuntime, notebook: Service, turn: Turn
) -> None:
    scripted.scenes.append(calls(DELETE))
    waiting = await wait_for_rest(runtime, turn)
    assert waiting.state == Turn.State.WAITING
    assert waiting.lease_owner == ""
    call = await get_only_call(turn)
    assert (call.state, call.risk) == (ToolCall.State.AWAITING_APPROVAL, "high")
    assert call.reasons
    assert call.why
    assert await in_database(Note.objects.filter(title="Old ideas").exists)
    assert not await in_database(Permit.objects.exists)


async def test_an_approved_call_runs_once_under_one_permit(
    runtime: EngineRuntime, notebook: Service, turn: Turn
) -> None:
    scripted.scenes += [calls(DELETE), text("It is gone.")]
    await wait_for_rest(runtime, turn)
    call = await get_only_call(turn)
    await in_database(
        decisions.grant, call, by=get_owner(turn), binding=call.approval.binding, shown_at=None
    )
    done = await wait_for_rest(runtime, turn)
    assert done.state == Turn.State.DONE
    assert not await in_database(Note.objects.filter(title="Old ideas").exists)
    permit = await in_database(Permit.objects.get)
    assert (permit.attempt, permit.binding) == (1, call.approval.binding)
    assert permit.used_at is not None


async def test_a_denied_call_tells_the_model_why(
    runtime: EngineRuntime, notebook: Service, turn: Turn
) -> None:
    scripted.scenes += [calls(DELETE), text("Then it stays.")]
    await wait_for_rest(runtime, turn)
    call = await get_only_call(turn)
    await in_database(
        decisions.deny,
        call,
        by=get_owner(turn),
        binding=call.approval.binding,
        reason="Keep it until Friday.",
    )
    done = await wait_for_rest(runtime, turn)
    assert done.state == Turn.State.DONE
    outcome = scripted.requests[1].history[-1]
    assert "Keep it until Friday." in outcome.text  # type: ignore[union-attr]
    assert await in_database(Note.objects.filter(title="Old ideas").exists)


async def test_parallel_calls_are_decided_one_by_one_and_run_together(
    runtime: EngineRuntime, notebook: Service, turn: Turn
) -> None:
    scripted.scenes += [calls(READ, DELETE), text("Done.")]
    await wait_for_rest(runtime, turn)
    read, delete = await in_database(lambda: list(ToolCall.objects.all()))
    assert read.state == ToolCall.State.APPROVED
    assert delete.state == ToolCall.State.AWAITING_APPROVAL
    approval = await in_database(Approval.objects.get)
    await in_database(
        decisions.grant, delete, by=get_owner(turn), binding=approval.binding, shown_at=None
    )
    done = await wait_for_rest(runtime, turn)
    assert done.state == Turn.State.DONE
    after = await in_database(lambda: dict(ToolCall.objects.values_list("tool_name", "attempt")))
    assert after == {"read_note": 1, "delete_note": 1}
    assert len(scripted.requests[1].history) == 4


@pytest.mark.parametrize(
    "arguments", ["not json", "[1]", '{"title": "a", "title": "b"}', '{"n": NaN}']
)
async def test_arguments_that_cannot_be_read_are_never_run(
    runtime: EngineRuntime, notebook: Service, turn: Turn, arguments: str
) -> None:
    scripted.scenes += [calls((DELETE[0], arguments)), text("I will try differently.")]
    done = await wait_for_rest(runtime, turn)
    assert done.state == Turn.State.DONE
    call = await get_only_call(turn)
    assert call.state == ToolCall.State.FAILED
    assert call.attempt == 0


async def test_a_tool_that_is_not_offered_is_never_run(
    runtime: EngineRuntime, notebook: Service, turn: Turn
) -> None:
    scripted.scenes += [calls(("notebook_format_disk", "{}")), text("Sorry.")]
    done = await wait_for_rest(runtime, turn)
    assert done.state == Turn.State.DONE
    assert "no tool named" in scripted.requests[1].history[-1].text  # type: ignore[union-attr]


async def test_a_call_of_an_answer_that_was_cut_off_is_never_run(
    runtime: EngineRuntime, notebook: Service, turn: Turn
) -> None:
    scene = calls(READ)
    scene[-1] = scripted.text(reason="length")[-1]
    scripted.scenes += [scene, text("Shorter now.")]
    await wait_for_rest(runtime, turn)
    call = await get_only_call(turn)
    assert (call.state, call.attempt) == (ToolCall.State.FAILED, 0)


async def test_stop_withdraws_an_open_approval(
    runtime: EngineRuntime, notebook: Service, turn: Turn
) -> None:
    scripted.scenes.append(calls(DELETE))
    await wait_for_rest(runtime, turn)
    await in_database(intake.stop, turn.conversation)
    call = await get_only_call(turn)
    assert call.state == ToolCall.State.WITHDRAWN
    assert call.approval.state == Approval.State.WITHDRAWN
    with pytest.raises(Refused):
        await in_database(
            decisions.grant, call, by=get_owner(turn), binding=call.approval.binding, shown_at=None
        )


async def test_a_new_message_withdraws_what_waits_and_starts_a_new_turn(
    runtime: EngineRuntime, notebook: Service, turn: Turn
) -> None:
    scripted.scenes += [calls(DELETE), text("All right.")]
    await wait_for_rest(runtime, turn)
    second = await in_database(
        intake.receive,
        get_owner(turn),
        turn.conversation,
        text="Leave it.",
        model=scripted.MODEL,
    )
    await wait_for_rest(runtime, second)
    call = await get_only_call(turn)
    assert call.state == ToolCall.State.WITHDRAWN
    assert "withdrawn" in scripted.requests[1].history[-2].text  # type: ignore[union-attr]


async def test_a_definition_that_changed_after_the_approval_is_not_run(
    runtime: EngineRuntime, notebook: Service, turn: Turn
) -> None:
    scripted.scenes += [calls(DELETE), text("It was not run.")]
    await wait_for_rest(runtime, turn)
    call = await get_only_call(turn)

    def change() -> None:
        ToolDefinition.objects.filter(name=call.tool_name).update(is_current=False)

    await in_database(grant_and_change, call, change)
    await wait_for_rest(runtime, turn)
    call = await get_only_call(turn)
    assert (call.state, call.attempt) == (ToolCall.State.WITHDRAWN, 0)
    assert await in_database(Note.objects.filter(title="Old ideas").exists)


@pytest.mark.parametrize("change", ["arguments", "service", "person"])
async def test_anything_that_changed_between_showing_and_running_stops_the_call(
    runtime: EngineRuntime, notebook: Service, turn: Turn, change: str
) -> None:
    scripted.scenes += [calls(DELETE), text("It was not run.")]
    await wait_for_rest(runtime, turn)
    call = await get_only_call(turn)
    tamper: dict[str, Callable[[], object]] = {
        "arguments": lambda: ToolCall.objects.update(arguments='{"title":"Precious"}'),
        "service": lambda: Service.objects.update(is_enabled=False),
        "person": lambda: Member.objects.update(is_active=False),
    }
    await in_database(grant_and_change, call, tamper[change])
    await wait_for_rest(runtime, turn)
    call = await get_only_call(turn)
    assert (call.state, call.attempt) == (ToolCall.State.WITHDRAWN, 0)
    assert await in_database(Note.objects.filter(title="Old ideas").exists)


async def test_the_third_identical_call_asks(
    runtime: EngineRuntime, notebook: Service, turn: Turn
) -> None:
    scripted.scenes += [calls(READ), calls(READ), calls(READ)]
    waiting = await wait_for_rest(runtime, turn)
    assert waiting.state == Turn.State.WAITING
    states = await in_database(lambda: list(ToolCall.objects.values_list("state", flat=True)))
    assert states == ["succeeded", "succeeded", "awaiting_approval"]
