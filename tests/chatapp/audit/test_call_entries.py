"""What the log says of calls: every decision, permit and outcome, by whom, and no secret."""

import hashlib
import json
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from chatapp.approvals import questions
from chatapp.approvals.decisions import deny, grant, resolve
from chatapp.audit import audit_log, call_entries
from chatapp.engine.runtime import EngineRuntime
from chatapp.journal import journal
from chatapp.models import Approval, LogEntry, Member, Question, ToolCall, Trial, Turn
from chatapp.server.database import in_database
from chatapp.simulation import manual_runs
from mcpconfig.models import Service
from mcpconfig.secrets import credentials
from tests import scripted
from tests.scripted import calls, text
from tests.turns.acts import DELETE, READ, get_only_call, get_owner, wait_for_rest

pytestmark = [pytest.mark.gate, pytest.mark.django_db(transaction=True)]


def kinds() -> list[str]:
    """Of entries about calls."""
    return [entry.kind for entry in of_calls()]


def of_calls() -> list[LogEntry]:
    return list(LogEntry.objects.exclude(call_id=None))


def find_entry(kind: str) -> dict[str, Any]:
    """The data of the only entry of this kind."""
    found: dict[str, Any] = json.loads(LogEntry.objects.get(kind=kind).data)
    return found


async def asked(runtime: EngineRuntime, turn: Turn) -> ToolCall:
    """A call that waits for approval."""
    scripted.scenes += [calls(DELETE), text("Done.")]
    runtime.engine.wake(turn.pk)
    await wait_for_rest(runtime, turn)
    return await get_only_call(turn)


async def test_a_call_that_runs_by_itself_leaves_decision_permit_and_outcome(
    runtime: EngineRuntime, notebook: Service, turn: Turn
) -> None:
    scripted.scenes += [calls(READ), text("Read.")]
    runtime.engine.wake(turn.pk)
    await wait_for_rest(runtime, turn)
    call = await get_only_call(turn)
    entries = await in_database(of_calls)
    assert [entry.kind for entry in entries] == ["call.decided", "call.sent", "call.ended"]
    decided, sent, ended = (json.loads(entry.data) for entry in entries)
    assert (decided["effect"], decided["reason"]) == ("allow", call.why)
    assert decided["arguments"] == call.arguments
    assert sent["binding"] == decided["binding"] == call.binding
    assert (ended["state"], ended["error"]) == ("succeeded", None)
    assert {entry.person_name for entry in entries} == {"owner"}
    assert {entry.call_id for entry in entries} == {call.pk}
    assert await in_database(audit_log.verify) == (await in_database(audit_log.read_end), "")


@pytest.mark.parametrize(
    ("says_yes", "expected"),
    [
        (True, ["call.decided", "approval.granted", "call.sent", "call.ended"]),
        (False, ["call.decided", "approval.denied", "call.ended"]),
    ],
)
async def test_who_allowed_or_denied_what_is_in_the_log(
    runtime: EngineRuntime, notebook: Service, turn: Turn, says_yes: bool, expected: list[str]
) -> None:
    call = await asked(runtime, turn)
    person = await in_database(get_owner, turn)
    binding = call.approval.binding
    if says_yes:
        await in_database(grant, call, by=person, binding=binding, shown_at=None)
    else:
        await in_database(deny, call, by=person, binding=binding, reason="Not that one")
    await wait_for_rest(runtime, turn)
    entries = await in_database(of_calls)
    assert [entry.kind for entry in entries] == expected
    answer = entries[1]
    assert (answer.actor_name, answer.actor_id) == ("owner", person.pk)
    assert json.loads(answer.data)["binding"] == binding
    assert json.loads(answer.data)["reason"] == ("" if says_yes else "Not that one")


async def test_values_that_a_person_changed_are_in_the_log_as_they_ran(
    runtime: EngineRuntime, notebook: Service, turn: Turn
) -> None:
    call = await asked(runtime, turn)
    person = await in_database(get_owner, turn)
    other = '{"title":"Newer ideas"}'
    binding = call.approval.binding
    await in_database(
        lambda: grant(call, by=person, binding=binding, shown_at=None, arguments=other)
    )
    await wait_for_rest(runtime, turn)
    expected = ["call.decided", "approval.changed", "approval.granted", "call.sent", "call.ended"]
    assert await in_database(kinds) == expected
    changed, ran = (
        await in_database(find_entry, "approval.changed"),
        await in_database(find_entry, "call.sent"),
    )
    assert changed["arguments"] == other
    assert changed["arguments_hash"] == ran["arguments_hash"] != changed["asked_arguments_hash"]
    assert changed["binding"] == ran["binding"] != binding


async def test_an_approval_that_stop_withdraws_is_in_the_log(
    runtime: EngineRuntime, notebook: Service, turn: Turn
) -> None:
    await asked(runtime, turn)
    await in_database(lambda: Turn.objects.filter(pk=turn.pk).update(stop_requested=True))
    await in_database(lambda: Turn.objects.filter(pk=turn.pk).update(state="queued"))
    await wait_for_rest(runtime, turn)
    assert await in_database(kinds) == ["call.decided", "approval.withdrawn", "call.ended"]


def test_whoever_settles_an_unknown_outcome_is_named(turn: Turn, notebook: Service) -> None:
    call = call_of(turn, notebook, state=ToolCall.State.UNKNOWN, attempt=1)
    resolve(call, by=get_owner(turn), verdict="worked")
    entry = LogEntry.objects.get(call_id=call.pk)
    assert (entry.kind, entry.actor_name) == ("call.resolved", "owner")
    assert find_entry("call.resolved")["verdict"] == "worked"


def test_a_call_that_is_to_run_again_and_cannot_has_an_outcome_all_the_same(
    turn: Turn, notebook: Service
) -> None:
    call = call_of(turn, notebook, attempt=1, resolution="again")
    journal.append_call(turn, call.pk, "approved")
    journal.append_call(turn, call.pk, "unknown")
    assert kinds() == ["call.resolved", "call.ended"]


def call_of(turn: Turn, service: Service, **values: Any) -> ToolCall:
    values = {"arguments": "{}", "tool_id": "notebook_delete_note"} | values
    return ToolCall.objects.create(turn=turn, step=1, position=0, service=service, **values)


def test_secrets_are_masked_and_only_the_hash_of_a_result_is_kept(
    turn: Turn, notebook: Service
) -> None:
    Service.objects.update(authentication="bearer")
    notebook.refresh_from_db()
    credentials.set_bearer(notebook, "canary-of-the-service")
    call = call_of(
        turn,
        notebook,
        arguments='{"password":"canary-by-name","title":"canary-of-the-service"}',
        error={"kind": "failed", "message": "No: canary-of-the-service"},
        result={"content": [{"type": "text", "text": "canary-in-result"}]},
    )
    journal.append_call(turn, call.pk, "awaiting_approval")
    journal.append_call(turn, call.pk, "failed")
    stored = " ".join(entry.data for entry in LogEntry.objects.all())
    assert "canary" not in stored
    assert find_entry("call.decided")["arguments"] == '{"password":"•••","title":"•••"}'
    assert find_entry("call.ended")["error"]["message"] == "No: •••"
    assert len(find_entry("call.ended")["result_hash"]) == 64


@pytest.mark.parametrize(
    ("minutes", "logged"), [(1, ["approval.granted"]), (-1, [])], ids=["after", "before"]
)
def test_an_approval_is_logged_when_it_is_given_and_not_again_when_a_call_goes_on(
    turn: Turn, notebook: Service, minutes: int, logged: list[str]
) -> None:
    """A call that paused is approved once more by the answer that it waited for."""
    sent = timezone.now()
    call = call_of(turn, notebook, attempt=1, pauses=1, sent_at=sent)
    Approval.objects.create(
        tool_call=call,
        state=Approval.State.GRANTED,
        decided_at=sent + timedelta(minutes=minutes),
        expires_at=sent,
    )
    journal.append_call(turn, call.pk, "approved")
    assert kinds() == logged


def test_an_answer_to_a_services_question_is_logged_by_its_hash(
    turn: Turn, notebook: Service
) -> None:
    call = call_of(turn, notebook, state=ToolCall.State.AWAITING_INPUT, attempt=1, pauses=1)
    late = timezone.now() + timedelta(days=1)
    question = Question.objects.create(tool_call=call, round=1, expires_at=late)
    questions.answer(question, by=get_owner(turn), action="decline", values={})
    entry = LogEntry.objects.get(kind="question.answered")
    assert (entry.actor_name, entry.call_id) == ("owner", call.pk)
    answers = hashlib.sha256(b"{}").hexdigest()
    assert (find_entry(entry.kind)["action"], find_entry(entry.kind)["answers_hash"]) == (
        "decline",
        answers,
    )


def test_a_tool_that_an_admin_tries_is_logged_with_its_outcome(
    owner: Member, notebook: Service
) -> None:
    trial = Trial.objects.create(
        person=owner, service=notebook, tool_id="x", tool_name="delete_note", risk="high",
        arguments='{"token":"canary"}', why="An admin tries it.", was_confirmed=True,
    )  # fmt: skip
    call_entries.log_trial(trial)
    Trial.objects.update(sent_at=timezone.now() - timedelta(days=1))
    manual_runs.settle()
    sent, ended = LogEntry.objects.filter(kind__startswith="trial.")
    assert (sent.kind, sent.actor_name) == ("trial.sent", "owner")
    assert find_entry("trial.sent")["arguments"] == '{"token":"•••"}'
    assert (ended.kind, find_entry("trial.ended")["state"]) == ("trial.ended", "unknown")


async def test_what_is_rolled_back_is_not_in_the_log(
    runtime: EngineRuntime, notebook: Service, turn: Turn, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The entry and the act are one transaction: a decision whose entry fails is not made."""
    call = await asked(runtime, turn)
    person = await in_database(get_owner, turn)

    def broken(*_: object) -> None:
        raise RuntimeError("the process ends here")

    monkeypatch.setattr(audit_log, "append", broken)
    with pytest.raises(RuntimeError):
        await in_database(grant, call, by=person, binding=call.approval.binding, shown_at=None)
    assert (await get_only_call(turn)).approval.state == Approval.State.OPEN
    assert await in_database(kinds) == ["call.decided"]
