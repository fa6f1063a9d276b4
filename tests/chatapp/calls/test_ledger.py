"""The ledger's own rules: progress belongs to one attempt, and a tool that is safe to repeat is not
repeated for ever."""

from collections.abc import Callable

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from chatapp.calls.attempts import MAX_ATTEMPTS
from chatapp.calls.ledger import Sending, begin_sending, record_progress, settle_orphans
from chatapp.calls.pausing import pause_for_answer, pause_for_task
from chatapp.calls.recheck import reopen_decisions
from chatapp.calls.remote_tasks import accept_report, claim_due
from chatapp.journal.lease import Lease, acquire
from chatapp.models import JournalEvent, RemoteTask, ToolCall, Turn
from mcpconfig.models import Service, ToolDefinition, ToolSetting
from mcpconfig.values.results import InputRequest, InputRequired, Progress, TaskReport, TaskStarted
from tests.turns.acts import bind_call, grant_call

pytestmark = pytest.mark.django_db(transaction=True)
State = ToolCall.State


@pytest.fixture
def call(turn: Turn) -> ToolCall:
    """An approved call of a tool that an admin marked as safe to repeat."""
    service = Service.objects.create(
        name="shop", url="https://shop.example/mcp", visibility="everyone"
    )
    definition = ToolDefinition.objects.create(service=service, name="read_order", hash="h")
    ToolSetting.objects.create(
        service=service, name="read_order", is_safe_to_repeat=True, confirmed_hash="h"
    )
    made = ToolCall.objects.create(
        turn=turn,
        step=1,
        position=0,
        provider_call_id="call_1",
        tool_id="shop_read_order",
        tool_name="read_order",
        service=service,
        definition=definition,
        arguments="{}",
        state=State.APPROVED,
    )
    return bind_call(made)


def taken(turn: Turn) -> Lease:
    Turn.objects.filter(pk=turn.pk).update(lease_until=None)
    lease = acquire(turn.pk)
    assert lease is not None
    return lease


def begun(turn: Turn, call: ToolCall) -> tuple[Lease, Sending]:
    lease = taken(turn)
    sending = begin_sending(lease, call.pk)
    assert sending is not None
    return lease, sending


def told(call: ToolCall) -> list[str]:
    events = JournalEvent.objects.filter(kind=JournalEvent.Kind.TOOL_CALL)
    return [event.data["state"] for event in events if event.data["call"] == str(call.pk)]


def test_what_only_a_later_attempt_has_is_not_asked_for_at_the_first(
    turn: Turn, call: ToolCall
) -> None:
    lease = taken(turn)
    with CaptureQueriesContext(connection) as sent:
        assert begin_sending(lease, call.pk)
    statements = [each["sql"] for each in sent.captured_queries]
    assert not [sql for sql in statements if "chatapp_remotetask" in sql]
    assert not [sql for sql in statements if "chatapp_question" in sql]
    assert len([sql for sql in statements if 'JOIN "chatapp_approval"' in sql]) <= 2
    assert not [sql for sql in statements if 'FROM "chatapp_approval" WHERE' in sql]


def test_progress_is_stored_and_told(turn: Turn, call: ToolCall) -> None:
    lease, sending = begun(turn, call)
    record_progress(lease, sending, Progress(done=1, message="half way"))
    call.refresh_from_db()
    assert call.progress == "1: half way"
    assert told(call) == [State.SENDING, State.SENDING]


@pytest.mark.parametrize(
    "since", [{"state": State.UNKNOWN}, {"attempt": 2}], ids=["over", "sent again"]
)
def test_progress_of_an_attempt_that_is_over_changes_and_tells_nothing(
    turn: Turn, call: ToolCall, since: dict[str, object]
) -> None:
    lease, sending = begun(turn, call)
    ToolCall.objects.filter(pk=call.pk).update(**since)
    before = told(call)
    record_progress(lease, sending, Progress(done=1, message="half way"))
    call.refresh_from_db()
    assert (call.progress, told(call)) == ("", before)


def test_a_call_that_is_safe_to_repeat_is_sent_again_by_whoever_finds_it(
    turn: Turn, call: ToolCall
) -> None:
    begun(turn, call)
    settle_orphans(taken(turn))
    call.refresh_from_db()
    assert (call.state, call.attempt) == (State.APPROVED, 1)


def test_a_call_that_ends_every_worker_is_not_repeated_for_ever(turn: Turn, call: ToolCall) -> None:
    """Even where an admin allows it: after a few attempts a person is asked."""
    sends = 0
    while call.state == State.APPROVED:
        begun(turn, call)
        sends += 1
        assert sends <= MAX_ATTEMPTS, "It is sent for ever."
        settle_orphans(taken(turn))
        call.refresh_from_db()
    assert (call.state, call.attempt, sends) == (State.UNKNOWN, MAX_ATTEMPTS, MAX_ATTEMPTS)
    assert call.error is not None
    assert call.error["kind"] == "worker_died"


def test_a_person_may_have_it_sent_once_more_all_the_same(turn: Turn, call: ToolCall) -> None:
    ToolCall.objects.filter(pk=call.pk).update(attempt=MAX_ATTEMPTS)
    _lease, sending = begun(turn, call)
    assert sending.attempt == MAX_ATTEMPTS + 1


# --- bound to what was decided -------------------------------------------------------------------
def moved_elsewhere(call: ToolCall) -> None:
    Service.objects.filter(toolcall=call).update(url="https://elsewhere.example/mcp")


def arguments_changed(call: ToolCall) -> None:
    ToolCall.objects.filter(pk=call.pk).update(arguments='{"all": true}')


def definition_changed(call: ToolCall) -> None:
    ToolDefinition.objects.filter(toolcall=call).update(hash="another")


def never_decided(call: ToolCall) -> None:
    ToolCall.objects.filter(pk=call.pk).update(binding="")


@pytest.mark.parametrize(
    "change", [moved_elsewhere, arguments_changed, definition_changed, never_decided]
)
def test_what_policy_allowed_runs_only_as_it_was_allowed(
    turn: Turn, call: ToolCall, change: Callable[[ToolCall], None]
) -> None:
    change(call)
    assert begin_sending(taken(turn), call.pk) is None
    call.refresh_from_db()
    assert (call.state, call.attempt) == (State.WITHDRAWN, 0)
    assert call.error is not None and "changed after the decision" in call.error["message"]


def test_policy_decides_anew_about_what_it_allowed_before_a_pause(
    turn: Turn, call: ToolCall
) -> None:
    reopen_decisions(taken(turn))
    call.refresh_from_db()
    assert call.state == State.PROPOSED
    assert told(call) == [State.PROPOSED]


def test_what_a_person_allowed_or_was_sent_before_is_not_decided_anew(
    turn: Turn, call: ToolCall
) -> None:
    lease = taken(turn)
    ToolCall.objects.filter(pk=call.pk).update(attempt=1)
    reopen_decisions(lease)
    ToolCall.objects.filter(pk=call.pk).update(attempt=0)
    grant_call(call)
    reopen_decisions(lease)
    call.refresh_from_db()
    assert call.state == State.APPROVED


# --- cancelled while it was under way ------------------------------------------------------------
def test_a_call_that_was_to_be_cancelled_is_not_repeated_by_whoever_finds_it(
    turn: Turn, call: ToolCall
) -> None:
    begun(turn, call)
    ToolCall.objects.filter(pk=call.pk).update(cancel_requested=True)
    settle_orphans(taken(turn))
    call.refresh_from_db()
    assert call.state == State.UNKNOWN


ASKED = InputRequest(key="why", mode="form", message="Why?", schema={"type": "object"})


@pytest.mark.parametrize("requests", [(), (ASKED,)], ids=["again later", "a question"])
def test_a_call_that_was_to_be_cancelled_does_not_pause(
    turn: Turn, call: ToolCall, requests: tuple[InputRequest, ...]
) -> None:
    lease, sending = begun(turn, call)
    ToolCall.objects.filter(pk=call.pk).update(cancel_requested=True)
    pause_for_answer(lease, sending, InputRequired(requests=requests))
    call.refresh_from_db()
    assert (call.state, call.questions.count()) == (State.CANCELLED, 0)


@pytest.mark.parametrize("is_unwanted", [True, False])
def test_a_task_that_began_while_its_call_was_cancelled_is_to_be_cancelled(
    turn: Turn, call: ToolCall, is_unwanted: bool
) -> None:
    lease, sending = begun(turn, call)
    ToolCall.objects.filter(pk=call.pk).update(cancel_requested=is_unwanted)
    pause_for_task(lease, sending, TaskStarted(task_id="t1", status="working", poll_seconds=60))
    task = RemoteTask.objects.get(tool_call=call)
    assert task.wants_cancel is is_unwanted
    assert (task in claim_due()) is is_unwanted


@pytest.mark.parametrize("task_id", ["t1", "t2"])
def test_what_came_of_an_earlier_task_says_nothing_about_a_later_one(
    turn: Turn, call: ToolCall, task_id: str
) -> None:
    lease, sending = begun(turn, call)
    pause_for_task(lease, sending, TaskStarted(task_id="t1", status="working", poll_seconds=60))
    polled = RemoteTask.objects.select_related("tool_call").get(tool_call=call)
    RemoteTask.objects.filter(tool_call=call).update(task_id=task_id)
    accept_report(polled, TaskReport(status="cancelled", poll_seconds=1))
    call.refresh_from_db()
    assert call.state == (State.CANCELLED if task_id == "t1" else State.AWAITING_TASK)
