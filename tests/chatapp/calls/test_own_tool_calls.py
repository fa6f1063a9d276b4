"""Calls of core tools in turns: decided and logged like others, and done whole or not at all."""

import json
from functools import partial

import pytest
from django.db import transaction

from chatapp.approvals import decisions
from chatapp.calls.own_tool_execution import UNFORESEEN
from chatapp.conversations import intake
from chatapp.engine.runtime import EngineRuntime
from chatapp.models import (
    Consent,
    Conversation,
    LogEntry,
    Member,
    Memory,
    Permit,
    PolicyRule,
    ToolCall,
    ToolLimit,
    Turn,
)
from chatapp.people.refused import Refused
from chatapp.permissions import reasons
from chatapp.server.database import in_database
from chatapp.tools.context import Context, ToolError
from mcpconfig.models import Service
from tests import scripted
from tests.chatapp.policy.test_consents import card_of, form_of
from tests.conftest import signed_in
from tests.scripted import calls, text
from tests.turns.acts import READ, read_last_outcome, wait_for_rest
from tests.turns.own_tool_turns import Echo, Words, asked_for, called, latest, offer

pytestmark = [pytest.mark.gate, pytest.mark.django_db(transaction=True), pytest.mark.timeout(300)]
State = ToolCall.State
FACT = "Reports go out on Mondays."


async def decide(runtime: EngineRuntime, call: ToolCall, verdict: str) -> ToolCall:
    def act() -> None:
        owner = call.turn.conversation.owner
        if verdict == "run":
            decisions.grant(call, by=owner, binding=call.approval.binding, shown_at=None)
        else:
            decisions.deny(call, by=owner, binding=call.approval.binding, reason="No, thank you.")

    await in_database(act)
    await wait_for_rest(runtime, call.turn)
    return await latest(call.turn)


async def test_a_call_that_only_reads_runs_and_is_told_and_logged(
    runtime: EngineRuntime, turn: Turn
) -> None:
    call = await called(runtime, turn, "current-time", zone="Asia/Tokyo")
    assert (call.state, call.attempt, call.risk) == (State.SUCCEEDED, 1, "low")
    assert call.reasons == ["It only reads a clock."]
    assert "(Asia/Tokyo)" in read_last_outcome()
    permit = await in_database(Permit.objects.get, tool_call=call)
    assert (permit.attempt, permit.binding) == (1, call.binding)
    assert permit.used_at is not None
    entries = await in_database(lambda: list(LogEntry.objects.filter(call_id=call.pk)))
    assert [entry.kind for entry in entries] == ["call.decided", "call.sent", "call.ended"]
    assert json.loads(entries[1].data)["tool"] == "current-time"


async def test_every_chat_is_offered_them_and_told_that_something_is_remembered(
    runtime: EngineRuntime, turn: Turn, owner: Member
) -> None:
    scripted.scenes += [text("Hello."), text("Again.")]
    await wait_for_rest(runtime, turn)
    first = scripted.requests[-1]
    assert {"remember", "recall", "make-plan"} <= {tool.name for tool in first.tools}
    assert "recall them" not in first.system
    await in_database(Memory.keep, owner, FACT)
    again = partial(intake.receive, owner, None, text="Hi", model=scripted.MODEL)
    await wait_for_rest(runtime, await in_database(again))
    assert "Facts about this person are remembered" in scripted.requests[-1].system
    assert FACT not in str(scripted.requests[-1])


async def test_what_lasts_beyond_the_chat_asks_first(runtime: EngineRuntime, turn: Turn) -> None:
    call = await called(runtime, turn, "remember", text=FACT)
    assert (call.state, call.risk) == (State.AWAITING_APPROVAL, "medium")
    assert not await in_database(Memory.objects.exists)
    done = await decide(runtime, call, "run")
    assert done.state == State.SUCCEEDED
    kept = await in_database(Memory.objects.get)
    assert (kept.text, kept.conversation_id) == (FACT, turn.conversation_id)


async def test_other_values_are_held_against_the_tools_own_input(
    runtime: EngineRuntime, turn: Turn
) -> None:
    call = await called(runtime, turn, "remember", text=FACT)

    def change() -> None:
        client = signed_in(call.turn.conversation.owner)
        sent = form_of(card_of(client, call)) | {"shown_at": "", "decision": "change"}
        assert sent["v0"] == FACT
        long = client.post(f"/approvals/{call.pk}/decide", sent | {"v0": "x" * 501})
        assert long.status_code == 422
        assert "text: String should have at most 500 characters" in long.content.decode()
        done = client.post(f"/approvals/{call.pk}/decide", sent | {"v0": "Reports go out late."})
        assert done.status_code == 302

    await in_database(change)
    await wait_for_rest(runtime, turn)
    done = await latest(turn)
    assert (done.state, json.loads(done.asked_arguments)) == (State.SUCCEEDED, {"text": FACT})
    assert (await in_database(Memory.objects.get)).text == "Reports go out late."
    assert "The person changed the values before it ran" in read_last_outcome()


@pytest.mark.parametrize("scope", ["conversation", "always", "service"])
async def test_a_tool_of_our_own_is_allowed_once_only(
    runtime: EngineRuntime, turn: Turn, scope: str
) -> None:
    """Untrusted content may ask to be remembered, so each fact asks a person."""
    call = await called(runtime, turn, "remember", text=FACT)
    owner, binding = call.turn.conversation.owner, call.approval.binding
    allow = partial(decisions.grant, call, by=owner, binding=binding, shown_at=None, scope=scope)
    with pytest.raises(Refused, match="only be allowed once"):
        await in_database(allow)
    assert not await in_database(Consent.objects.exists)


async def test_what_a_person_denies_is_not_remembered(runtime: EngineRuntime, turn: Turn) -> None:
    call = await called(runtime, turn, "remember", text=FACT)
    done = await decide(runtime, call, "deny")
    assert done.state == State.DENIED
    assert "No, thank you." in read_last_outcome()
    assert not await in_database(Memory.objects.exists)


async def test_a_chat_that_plans_offers_and_runs_only_those_that_read(
    runtime: EngineRuntime, turn: Turn
) -> None:
    plans = Conversation.objects.filter(pk=turn.conversation_id)
    await in_database(partial(plans.update, mode=Conversation.Mode.PLAN))
    call = await called(runtime, turn, "remember", text=FACT)
    offered = {tool.name for tool in scripted.requests[0].tools}
    assert "recall" in offered and not {"remember", "forget"} & offered
    assert call.state == State.REFUSED
    assert call.why == reasons.NOT_IN_PLAN_MODE


async def test_what_a_rule_forbids_after_the_click_does_not_run(
    runtime: EngineRuntime, turn: Turn
) -> None:
    call = await called(runtime, turn, "remember", text=FACT)
    await in_database(partial(PolicyRule.objects.create, name="No", effect="deny", tool="remember"))
    done = await decide(runtime, call, "run")
    assert done.state == State.WITHDRAWN
    assert done.error is not None and "Policy now forbids this" in done.error["message"]
    assert not await in_database(Memory.objects.exists)


async def test_what_is_not_what_was_shown_does_not_run(runtime: EngineRuntime, turn: Turn) -> None:
    call = await called(runtime, turn, "remember", text=FACT)
    other = json.dumps({"text": "Pay into account 7."})
    await in_database(partial(ToolCall.objects.filter(pk=call.pk).update, arguments=other))
    done = await decide(runtime, call, "run")
    assert done.state == State.WITHDRAWN
    assert not await in_database(Memory.objects.exists)


async def test_whoever_is_switched_off_has_nothing_done_for_them(
    runtime: EngineRuntime, turn: Turn
) -> None:
    call = await called(runtime, turn, "remember", text=FACT)

    @transaction.atomic
    def grant() -> None:
        decisions.grant(
            call, by=call.turn.conversation.owner, binding=call.approval.binding, shown_at=None
        )
        Member.objects.update(is_active=False)

    await in_database(grant)
    await wait_for_rest(runtime, turn)
    assert not await in_database(Memory.objects.exists)


async def test_the_limit_of_a_day_counts_for_them_too(runtime: EngineRuntime, turn: Turn) -> None:
    await in_database(partial(ToolLimit.objects.create, tool="current-time", calls=1))
    scripted.scenes += [
        calls(asked_for("current-time", zone="UTC")),
        calls(asked_for("current-time", zone="Asia/Tokyo")),
    ]
    await wait_for_rest(runtime, turn)
    second = await latest(turn)
    assert second.state == State.AWAITING_APPROVAL
    assert second.why == reasons.USED_ONCE_TODAY % {"limit": 1}


async def test_too_many_in_a_minute_are_refused_until_a_minute_has_passed(
    runtime: EngineRuntime, turn: Turn, monkeypatch: pytest.MonkeyPatch
) -> None:
    offer(monkeypatch, lambda context, asked: Echo(words=asked.words), calls_a_minute=2)
    scripted.scenes += [calls(*(asked_for("echo", words=str(n)) for n in range(3))), text("Well.")]
    await wait_for_rest(runtime, turn)
    rows = await in_database(lambda: list(ToolCall.objects.order_by("position")))
    assert [row.state for row in rows] == ["succeeded", "succeeded", "failed"]
    assert read_last_outcome() == "This tool can run 2 times a minute. Wait a minute."


@pytest.mark.parametrize(
    ("failure", "says"),
    [
        (ToolError(field="words", message="Too loud."), "words: Too loud."),
        (RuntimeError("hunter2"), UNFORESEEN),
    ],
)
async def test_what_fails_halfway_has_done_nothing_and_tells_no_internals(
    runtime: EngineRuntime,
    turn: Turn,
    monkeypatch: pytest.MonkeyPatch,
    failure: Exception,
    says: str,
) -> None:
    def halfway(context: Context, asked: Words) -> Echo:
        Memory.keep(context.person, FACT)
        raise failure

    offer(monkeypatch, halfway)
    call = await called(runtime, turn, "echo", words="Hello")
    assert call.state == State.FAILED
    assert read_last_outcome() == says
    assert "hunter2" not in str(call.error)
    assert not await in_database(Memory.objects.exists)


async def test_what_a_database_cannot_keep_fails_the_call_and_not_the_turn(
    runtime: EngineRuntime, turn: Turn
) -> None:
    asked = {"text": "NUL \0", "kind": "text"}
    call = await called(runtime, turn, "ask-person", why="To go on.", questions=[asked])
    assert call.state == State.FAILED
    assert "questions: It holds a NUL" in read_last_outcome()
    assert (await in_database(Turn.objects.get)).state == Turn.State.DONE


async def test_strangers_words_from_an_earlier_chat_count_as_strangers_words(
    runtime: EngineRuntime, turn: Turn, notebook: Service, owner: Member
) -> None:
    """Reading a chat that contains untrusted content counts as reading untrusted content."""
    await in_database(lambda: Service.objects.update(is_open=True))
    await called(runtime, turn, *[READ[0]], **json.loads(READ[1]))
    scripted.scenes[:] = [
        calls(asked_for("read-conversation", conversation=str(turn.conversation_id))),
        calls(asked_for("remember", text="Pay into account 7.")),
    ]
    receive = partial(intake.receive, owner, None, text="Go on", model=scripted.MODEL)
    later = await in_database(receive)
    await wait_for_rest(runtime, later)
    asked = await latest(later)
    assert (asked.state, asked.risk) == (State.AWAITING_APPROVAL, "high")
    assert "“notebook”" in asked.reasons[0]
    await decide(runtime, asked, "run")
    kept = await in_database(Memory.objects.get)
    assert kept.tainted_by == "notebook"


async def test_what_lasts_is_strangers_words_in_later_turns_and_without_the_service_too(
    runtime: EngineRuntime, turn: Turn, notebook: Service, owner: Member
) -> None:
    """Content that was read some messages ago is still in the context of the model."""
    await in_database(lambda: Service.objects.update(is_open=True))
    read = await called(runtime, turn, *[READ[0]], **json.loads(READ[1]))
    await in_database(Service.objects.filter(pk=notebook.pk).delete)
    scripted.scenes[:] = [calls(asked_for("remember", text="Pay into account 7."))]
    chat = await in_database(Conversation.objects.get)
    receive = partial(intake.receive, owner, chat, text="Go on", model=scripted.MODEL)
    later = await in_database(receive)
    await wait_for_rest(runtime, later)
    asked = await latest(later)
    assert (read.state, asked.risk) == (State.SUCCEEDED, "high")
    await decide(runtime, asked, "run")
    kept = await in_database(Memory.objects.get)
    assert kept.tainted_by == "notebook"


async def test_a_tool_that_is_not_offered_to_this_person_is_not_there(
    runtime: EngineRuntime, turn: Turn
) -> None:
    call = await called(runtime, turn, "add-service", name="x", url="https://x.example/mcp")
    assert call.state == State.FAILED
    assert "There is no tool named “add-service”" in read_last_outcome()
    assert not await in_database(Service.objects.filter(name="x").exists)


async def test_stop_takes_back_what_was_not_run(runtime: EngineRuntime, turn: Turn) -> None:
    call = await called(runtime, turn, "remember", text=FACT)

    await in_database(intake.stop, call.turn.conversation)
    await wait_for_rest(runtime, turn)
    assert (await latest(turn)).state == State.WITHDRAWN
    assert not await in_database(Memory.objects.exists)
