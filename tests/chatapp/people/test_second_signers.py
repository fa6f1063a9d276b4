"""Two people for one call: nothing runs before the second has signed, and only who may sign can."""

from datetime import timedelta
from functools import partial

import pytest
from django.contrib.auth.models import Group
from django.db import transaction
from django.utils import timezone

from chatapp.approvals import decisions
from chatapp.calls import recheck
from chatapp.conversations import intake
from chatapp.engine import sweep
from chatapp.engine.runtime import EngineRuntime
from chatapp.models import (
    Approval,
    HousePolicy,
    Member,
    Note,
    Permit,
    PolicyRule,
    StandIn,
    ToolCall,
    Turn,
)
from chatapp.people import second_signers
from chatapp.people.refused import Refused
from chatapp.people.second_signers import find_waiting_calls
from chatapp.server.database import in_database
from mcpconfig.models import Service
from tests.chatapp.policy.test_consents import APPEND, asked, confirmed
from tests.turns.acts import DELETE, get_only_call, read_last_outcome, wait_for_rest
from tests.turns.second_signers import (
    hours_pass,
    member,
    open_list,
    refuse,
    second_signature,
    sign,
    signed_first,
    stand_in,
    two_sign,
)

__all__ = ["confirmed"]
pytestmark = [pytest.mark.gate, pytest.mark.django_db(transaction=True), pytest.mark.timeout(300)]
State = ToolCall.State


def is_there() -> bool:
    return Note.objects.filter(title="Old ideas").exists()


# --- the way of a call ---------------------------------------------------------------------
async def test_nothing_runs_before_both_have_signed(
    runtime: EngineRuntime, turn: Turn, confirmed: Service, ada: Member
) -> None:
    call, owner = await signed_first(runtime, turn, DELETE)
    waiting = await wait_for_rest(runtime, turn)
    assert waiting.state == Turn.State.WAITING
    call = await get_only_call(turn)
    assert call.state == State.AWAITING_APPROVAL
    assert (call.approval.state, call.approval.first_by_id) == (Approval.State.OPEN, owner.pk)
    assert await in_database(is_there)
    assert not await in_database(Permit.objects.exists)
    await in_database(sign, call, ada)
    assert (await wait_for_rest(runtime, turn)).state == Turn.State.DONE
    call = await get_only_call(turn)
    assert (call.state, call.attempt) == (State.SUCCEEDED, 1)
    assert (call.approval.decided_by_id, call.approval.signed_for_id) == (ada.pk, ada.pk)
    assert not await in_database(is_there)
    assert (await in_database(Permit.objects.get)).granted_by == "owner and ada"


async def test_a_rule_may_demand_it_of_a_tool_that_asks(
    runtime: EngineRuntime, turn: Turn, confirmed: Service
) -> None:
    def ruled() -> Member:
        rule = PolicyRule(name="Notes", effect="ask", tool="append_to_note")
        rule.second = second_signature()
        rule.save()
        return member("ada", "Operations")

    ada = await in_database(ruled)
    call, _owner = await signed_first(runtime, turn, APPEND)
    assert await in_database(partial(open_list, ada)) == [call]
    await in_database(sign, call, ada)
    await wait_for_rest(runtime, turn)
    assert (await get_only_call(turn)).state == State.SUCCEEDED


@pytest.mark.parametrize("who", ["owner", "ada"])
async def test_either_may_still_say_no_and_the_assistant_hears_why(
    runtime: EngineRuntime, turn: Turn, confirmed: Service, ada: Member, who: str
) -> None:
    call, owner = await signed_first(runtime, turn, DELETE)
    by = {"owner": owner, "ada": ada}[who]
    await in_database(refuse, call, by, "Keep it until Friday.")
    await wait_for_rest(runtime, turn)
    assert (await get_only_call(turn)).state == State.DENIED
    assert "Keep it until Friday." in read_last_outcome()
    assert await in_database(is_there)


@pytest.mark.parametrize("scope", ["conversation", "always", "service"])
async def test_no_consent_is_given_by_a_first_or_a_second_signature(
    runtime: EngineRuntime, turn: Turn, confirmed: Service, ada: Member, scope: str
) -> None:
    call, owner = await asked(runtime, turn, DELETE)
    with pytest.raises(Refused, match="only be allowed once"):
        await in_database(partial(sign, call, owner, scope=scope))
    await in_database(sign, call, owner)
    with pytest.raises(Refused, match="for one run"):
        await in_database(partial(sign, call, ada, scope=scope))
    assert (await get_only_call(turn)).state == State.AWAITING_APPROVAL


# --- time ----------------------------------------------------------------------------------
async def test_the_earlier_of_both_deadlines_counts(
    runtime: EngineRuntime, turn: Turn, confirmed: Service, ada: Member
) -> None:
    call, _owner = await signed_first(runtime, turn, DELETE)
    left = (await get_only_call(turn)).approval.expires_at - timezone.now()
    assert timedelta(hours=23, minutes=58) < left <= timedelta(hours=24)
    assert await in_database(find_waiting_calls(ada).exists)


async def test_a_longer_deadline_than_the_approvals_gives_no_more_time(
    runtime: EngineRuntime, turn: Turn, confirmed: Service
) -> None:
    await in_database(lambda: two_sign(deadline_hours=24 * 300))
    call, owner = await asked(runtime, turn, DELETE)
    before = call.approval.expires_at
    await in_database(sign, call, owner)
    assert (await get_only_call(turn)).approval.expires_at == before


async def test_silence_of_the_second_expires_and_nothing_runs(
    runtime: EngineRuntime, turn: Turn, confirmed: Service, ada: Member
) -> None:
    call, owner = await signed_first(runtime, turn, DELETE)
    await in_database(hours_pass, 24.1)
    assert not await in_database(find_waiting_calls(ada).exists)
    for by in (ada, owner):
        with pytest.raises(Refused, match="expired"):
            await in_database(sign, call, by)
    await in_database(sweep.expire_approvals)
    await wait_for_rest(runtime, turn)
    assert (await get_only_call(turn)).state == State.EXPIRED
    assert await in_database(is_there)


async def test_stop_withdraws_what_waits_for_the_second(
    runtime: EngineRuntime, turn: Turn, confirmed: Service, ada: Member
) -> None:
    call, _owner = await signed_first(runtime, turn, DELETE)
    await in_database(intake.stop, turn.conversation)
    with pytest.raises(Refused, match="withdrawn"):
        await in_database(sign, call, ada)
    await wait_for_rest(runtime, turn)
    assert (await get_only_call(turn)).state == State.WITHDRAWN


# --- when it runs --------------------------------------------------------------------------
def loses_it(name: str, ada: Member) -> None:
    match name:
        case "left the group":
            ada.groups.clear()
        case "was deactivated":
            Member.objects.filter(pk=ada.pk).update(is_active=False)
        case "another group signs now":
            second_signature(approvers=Group.objects.create(name="Finance"))
        case "another signature is demanded now":
            other = second_signature()
            other.pk, other.name = None, "Legal"
            other.save()
            HousePolicy.objects.update(high_needs=other)
        case "was taken over by the requester":
            Approval.objects.update(decided_by=Member.objects.get(username="owner"))
        case _:
            Approval.objects.update(first_by=None)


@transaction.atomic
def signs_and_loses_it(name: str, call: ToolCall, ada: Member) -> None:
    """The turn is woken when both are stored, so it does not run in between."""
    sign(call, ada)
    loses_it(name, ada)


LOSSES = [
    "left the group",
    "was deactivated",
    "another group signs now",
    "another signature is demanded now",
    "was taken over by the requester",
    "the first signature is gone",
]


@pytest.mark.parametrize("name", LOSSES)
async def test_both_signatures_must_hold_when_it_runs(
    runtime: EngineRuntime, turn: Turn, confirmed: Service, ada: Member, name: str
) -> None:
    call, _owner = await signed_first(runtime, turn, DELETE)
    await in_database(signs_and_loses_it, name, call, ada)
    await wait_for_rest(runtime, turn)
    call = await get_only_call(turn)
    assert (call.state, call.attempt) == (State.WITHDRAWN, 0)
    assert "so it was not run" in str(call.error)
    assert await in_database(is_there)


@pytest.mark.parametrize("name", ["left the group", "another signature is demanded now"])
async def test_without_the_check_at_the_permit_it_would_run(
    runtime: EngineRuntime,
    turn: Turn,
    confirmed: Service,
    ada: Member,
    name: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The planted fault: the test above can fail."""
    monkeypatch.setattr(second_signers, "find_flaw", lambda *_: "")
    monkeypatch.setattr(recheck, "_judge", lambda *_: "run")
    call, _owner = await signed_first(runtime, turn, DELETE)
    await in_database(signs_and_loses_it, name, call, ada)
    await wait_for_rest(runtime, turn)
    assert (await get_only_call(turn)).attempt == 1


async def test_a_stand_in_who_was_dismissed_before_it_ran_signed_nothing(
    runtime: EngineRuntime, turn: Turn, confirmed: Service, ada: Member
) -> None:
    call, _owner = await signed_first(runtime, turn, DELETE)
    ben = (await in_database(lambda: stand_in(ada, member("ben")))).stand_in

    @transaction.atomic
    def signs_and_is_dismissed() -> None:
        sign(call, ben)
        StandIn.objects.all().delete()

    await in_database(signs_and_is_dismissed)
    await wait_for_rest(runtime, turn)
    assert (await get_only_call(turn)).state == State.WITHDRAWN


async def test_what_one_person_allowed_does_not_run_once_policy_wants_two(
    runtime: EngineRuntime, turn: Turn, confirmed: Service
) -> None:
    call, owner = await asked(runtime, turn, DELETE)

    @transaction.atomic
    def signs_too_early() -> None:
        sign(call, owner)
        two_sign()

    await in_database(signs_too_early)
    await wait_for_rest(runtime, turn)
    call = await get_only_call(turn)
    assert (call.state, call.attempt) == (State.WITHDRAWN, 0)
    assert "another approval" in str(call.error)


async def test_what_two_signed_once_is_not_sent_again_on_the_word_of_one(
    runtime: EngineRuntime, turn: Turn, confirmed: Service, ada: Member
) -> None:
    call, owner = await signed_first(runtime, turn, DELETE)
    await in_database(lambda: ToolCall.objects.update(state=State.UNKNOWN, attempt=1))
    for by in (owner, ada):
        with pytest.raises(Refused, match="start a new request"):
            await in_database(partial(decisions.resolve, call, by=by, verdict="again"))
    await in_database(partial(decisions.resolve, call, by=owner, verdict="worked"))
    assert (await get_only_call(turn)).state == State.SUCCEEDED


async def own_tool(runtime: EngineRuntime, turn: Turn) -> tuple[ToolCall, Member]:
    """A call of a tool of this server that takes two people, and whose requester has signed."""

    def ruled() -> None:
        rule = PolicyRule(name="Time", effect="ask", tool="current-time")
        rule.second = second_signature()
        rule.save()

    await in_database(ruled)
    call, _owner = await signed_first(runtime, turn, ("current-time", '{"zone": "Europe/Rome"}'))
    return call, await in_database(member, "ada", "Operations")


@pytest.mark.parametrize(("leaves", "state"), [(False, State.SUCCEEDED), (True, State.WITHDRAWN)])
async def test_a_tool_of_this_server_runs_on_two_signatures_that_hold(
    runtime: EngineRuntime, turn: Turn, notebook: Service, leaves: bool, state: str
) -> None:
    call, ada = await own_tool(runtime, turn)
    await wait_for_rest(runtime, turn)
    assert (await get_only_call(turn)).state == State.AWAITING_APPROVAL

    @transaction.atomic
    def signs() -> None:
        sign(call, ada)
        if leaves:
            ada.groups.clear()

    await in_database(signs)
    await wait_for_rest(runtime, turn)
    assert (await get_only_call(turn)).state == state
