"""Decisions about calls: the first committed one counts, and only about what was shown."""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connection
from django.db.models.functions import Now

from chatapp.approvals import decisions
from chatapp.conversations import intake
from chatapp.engine import sweep
from chatapp.models import Approval, Member, ToolCall, Turn
from chatapp.people.refused import Refused

pytestmark = pytest.mark.django_db(transaction=True)
BINDING = "b" * 64


@pytest.fixture
def call(turn: Turn) -> ToolCall:
    """A call that waits for its person."""
    Turn.objects.filter(pk=turn.pk).update(state=Turn.State.WAITING)
    call = ToolCall.objects.create(
        turn=turn,
        step=1,
        position=0,
        provider_call_id="call_1",
        tool_id="shop_delete_order",
        tool_name="delete_order",
        arguments="{}",
        state=ToolCall.State.AWAITING_APPROVAL,
    )
    Approval.objects.create(tool_call=call, binding=BINDING, expires_at="2099-01-01T00:00Z")
    return call


def state_of(call: ToolCall) -> str:
    return ToolCall.objects.values_list("state", flat=True).get(pk=call.pk)


def test_granting_moves_the_call_and_queues_the_turn(call: ToolCall, owner: Member) -> None:
    decisions.grant(call, by=owner, binding=BINDING, shown_at=None)
    approval = Approval.objects.get(tool_call=call)
    assert (approval.state, approval.decided_by) == (Approval.State.GRANTED, owner)
    assert state_of(call) == ToolCall.State.APPROVED
    assert Turn.objects.get().state == Turn.State.QUEUED


def test_denying_keeps_the_word_to_the_assistant(call: ToolCall, owner: Member) -> None:
    decisions.deny(call, by=owner, binding=BINDING, reason="  Not today. ")
    assert Approval.objects.get(tool_call=call).reason == "Not today."
    assert state_of(call) == ToolCall.State.DENIED


def test_a_decision_sooner_than_a_person_can_read_is_refused(call: ToolCall, owner: Member) -> None:
    with pytest.raises(Refused, match="before you could read"):
        decisions.grant(call, by=owner, binding=BINDING, shown_at=time.time() - 0.1)
    assert state_of(call) == ToolCall.State.AWAITING_APPROVAL
    decisions.grant(call, by=owner, binding=BINDING, shown_at=time.time() - 0.5)
    assert state_of(call) == ToolCall.State.APPROVED


def test_a_decision_about_something_else_than_was_shown_is_refused(
    call: ToolCall, owner: Member
) -> None:
    with pytest.raises(Refused, match="changed after you opened it"):
        decisions.grant(call, by=owner, binding="c" * 64, shown_at=None)
    assert state_of(call) == ToolCall.State.AWAITING_APPROVAL
    assert Turn.objects.get().state == Turn.State.WAITING


def test_the_second_answer_is_told_about_the_first(call: ToolCall, owner: Member) -> None:
    decisions.deny(call, by=owner, binding=BINDING)
    with pytest.raises(Refused, match="Already denied by owner"):
        decisions.grant(call, by=owner, binding=BINDING, shown_at=None)
    assert state_of(call) == ToolCall.State.DENIED


def test_twenty_answers_at_once_give_one_decision(call: ToolCall, owner: Member) -> None:
    """At the same moment, in many tabs, with opposite answers."""

    def answer(number: int) -> bool:
        try:
            if number % 2:
                decisions.grant(call, by=owner, binding=BINDING, shown_at=None)
            else:
                decisions.deny(call, by=owner, binding=BINDING)
        except Refused:
            return False
        finally:
            connection.close()
        return True

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(answer, range(20))) == 1
    approval = Approval.objects.get(tool_call=call)
    agreed = {
        Approval.State.GRANTED: ToolCall.State.APPROVED,
        Approval.State.DENIED: ToolCall.State.DENIED,
    }
    assert state_of(call) == agreed[Approval.State(approval.state)]


def test_silence_expires_and_never_runs_anything(call: ToolCall, owner: Member) -> None:
    Approval.objects.update(expires_at=Now())
    sweep.expire_approvals()
    assert state_of(call) == ToolCall.State.EXPIRED
    assert Turn.objects.get().state == Turn.State.QUEUED
    with pytest.raises(Refused, match="expired"):
        decisions.grant(call, by=owner, binding=BINDING, shown_at=None)


def test_an_answer_after_the_time_is_refused_even_before_the_sweep(
    call: ToolCall, owner: Member
) -> None:
    Approval.objects.update(expires_at=Now())
    with pytest.raises(Refused):
        decisions.grant(call, by=owner, binding=BINDING, shown_at=None)
    assert state_of(call) == ToolCall.State.AWAITING_APPROVAL


def test_stop_withdraws_the_question(call: ToolCall, owner: Member) -> None:
    intake.stop(call.turn.conversation)
    with pytest.raises(Refused, match="withdrawn"):
        decisions.grant(call, by=owner, binding=BINDING, shown_at=None)
    assert state_of(call) == ToolCall.State.WITHDRAWN


@pytest.mark.parametrize(
    ("verdict", "state"), [("worked", "succeeded"), ("did-not", "failed"), ("again", "approved")]
)
def test_a_person_settles_an_unknown_outcome(
    call: ToolCall, owner: Member, verdict: decisions.Verdict, state: str
) -> None:
    ToolCall.objects.update(state=ToolCall.State.UNKNOWN, attempt=1)
    decisions.resolve(call, by=owner, verdict=verdict)
    call.refresh_from_db()
    assert (call.state, call.resolution, call.resolved_by) == (state, verdict, owner)
    assert call.resolved_at is not None
    with pytest.raises(Refused, match="already known"):
        decisions.resolve(call, by=owner, verdict="again")


def test_nothing_runs_again_once_the_turn_is_over(call: ToolCall, owner: Member) -> None:
    ToolCall.objects.update(state=ToolCall.State.UNKNOWN, attempt=1)
    Turn.objects.update(state=Turn.State.STOPPED)
    with pytest.raises(Refused, match="has ended"):
        decisions.resolve(call, by=owner, verdict="again")
    decisions.resolve(call, by=owner, verdict="worked")
    assert state_of(call) == ToolCall.State.SUCCEEDED


def test_a_call_that_was_sent_once_is_never_called_cancelled(call: ToolCall, owner: Member) -> None:
    """Stopped before it is sent again, its first attempt may still have taken effect."""
    ToolCall.objects.update(state=ToolCall.State.UNKNOWN, attempt=1)
    decisions.resolve(call, by=owner, verdict="again")
    intake.stop(call.turn.conversation)
    assert state_of(call) == ToolCall.State.UNKNOWN
