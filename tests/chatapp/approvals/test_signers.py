"""Who may sign second: the approvers, their stand-ins, and others after a while; nobody else."""

from functools import partial

import pytest

from chatapp.engine.runtime import EngineRuntime
from chatapp.models import Approval, Member, ToolCall, Turn
from chatapp.people.refused import Refused
from chatapp.people.second_signers import find_waiting_calls
from chatapp.server.database import in_database
from mcpconfig.models import Service
from tests.chatapp.policy.test_consents import asked, confirmed
from tests.turns.acts import DELETE, get_only_call, wait_for_rest
from tests.turns.second_signers import (
    hours_pass,
    member,
    open_list,
    refuse,
    second_signature,
    sign,
    signed_first,
    stand_in,
    waiting_for_second,
)

__all__ = ["confirmed"]
pytestmark = [pytest.mark.gate, pytest.mark.django_db(transaction=True), pytest.mark.timeout(300)]
State = ToolCall.State


def outsider(name: str) -> Member:
    """A person who may not sign, for one reason each."""
    match name:
        case "stranger":
            return member("stranger")
        case "admin":
            return Member.objects.create_superuser("admin", password="admin-password")
        case "other group":
            return member("bob", "Finance")
        case "not escalated yet":
            return member("mia", "Managers")
        case "deactivated":
            gone = member("gone", "Operations")
            Member.objects.filter(pk=gone.pk).update(is_active=False)
            return gone  # as their page still knows them
        case "removed from the group":
            left = member("left", "Operations")
            left.groups.clear()
            return left
        case "stand-in of yesterday":
            return stand_in(member("eve", "Operations"), member("yes"), since=-3).stand_in
        case "stand-in of tomorrow":
            return stand_in(member("eve", "Operations"), member("tom"), since=1).stand_in
        case "stand-in of a deactivated approver":
            eve = member("eve", "Operations")
            Member.objects.filter(pk=eve.pk).update(is_active=False)
            return stand_in(eve, member("sub")).stand_in
        case "stand-in of one who left the group":
            return stand_in(member("eve"), member("sub")).stand_in
        case _:  # the requester's own stand-in, where the requester is an approver
            owner = member("owner", "Operations")
            return stand_in(owner, member("mate")).stand_in


OUTSIDERS = [
    "stranger",
    "admin",
    "other group",
    "not escalated yet",
    "deactivated",
    "removed from the group",
    "stand-in of yesterday",
    "stand-in of tomorrow",
    "stand-in of a deactivated approver",
    "stand-in of one who left the group",
    "stand-in of the requester",
]


@pytest.fixture
def signed(turn: Turn, ada: Member) -> ToolCall:
    """A call that its requester has signed."""
    Turn.objects.update(state=Turn.State.WAITING)
    return waiting_for_second(turn)


@pytest.mark.parametrize("name", OUTSIDERS)
def test_nobody_else_signs_or_refuses(signed: ToolCall, ada: Member, name: str) -> None:
    """Only the owner or a named approver."""
    other = outsider(name)
    assert not find_waiting_calls(other).exists()
    for answer in (sign, refuse):
        with pytest.raises(Refused, match="cannot approve"):
            answer(signed, other)
    assert ToolCall.objects.get().state == State.AWAITING_APPROVAL
    sign(signed, ada)  # whom the same check lets through
    assert ToolCall.objects.get().state == State.APPROVED


async def test_the_requester_is_no_second_person_even_as_an_approver_or_as_a_stand_in(
    runtime: EngineRuntime, turn: Turn, confirmed: Service, ada: Member
) -> None:
    def everything() -> None:
        stand_in(ada, member("owner", "Operations", "Managers"))

    await in_database(everything)
    call, owner = await signed_first(runtime, turn, DELETE)
    await in_database(hours_pass, 5)
    assert not await in_database(find_waiting_calls(owner).exists)
    with pytest.raises(
        Refused, match="already approved this. It still needs a second approval from “Oper"
    ):
        await in_database(sign, call, owner)
    assert (await get_only_call(turn)).state == State.AWAITING_APPROVAL


async def test_an_approver_answers_nothing_that_its_requester_has_not_signed(
    runtime: EngineRuntime, turn: Turn, confirmed: Service, ada: Member
) -> None:
    call, _owner = await asked(runtime, turn, DELETE)
    assert not await in_database(find_waiting_calls(ada).exists)
    for answer in (sign, refuse):
        with pytest.raises(Refused):
            await in_database(answer, call, ada)
    approval = (await get_only_call(turn)).approval
    assert (approval.state, approval.first_at) == (Approval.State.OPEN, None)


async def test_an_approver_has_no_say_in_a_call_that_takes_one_person(
    runtime: EngineRuntime, turn: Turn, confirmed: Service
) -> None:
    ada = await in_database(member, "ada", "Operations")
    await in_database(second_signature)
    call, _owner = await asked(runtime, turn, DELETE)
    for answer in (sign, refuse):
        with pytest.raises(Refused, match="cannot approve"):
            await in_database(answer, call, ada)
    assert (await get_only_call(turn)).approval.state == Approval.State.OPEN


async def test_a_stand_in_signs_in_the_approvers_right(
    runtime: EngineRuntime, turn: Turn, confirmed: Service, ada: Member
) -> None:
    call, _owner = await signed_first(runtime, turn, DELETE)
    ben = (await in_database(lambda: stand_in(ada, member("ben")))).stand_in
    assert await in_database(partial(open_list, ben)) == [call]
    await in_database(sign, call, ben)
    await wait_for_rest(runtime, turn)
    call = await get_only_call(turn)
    assert call.state == State.SUCCEEDED
    assert (call.approval.decided_by_id, call.approval.signed_for_id) == (ben.pk, ada.pk)


async def test_after_a_while_others_may_sign_too_without_anybody_doing_anything(
    runtime: EngineRuntime, turn: Turn, confirmed: Service, ada: Member
) -> None:
    call, _owner = await signed_first(runtime, turn, DELETE)
    mia = await in_database(member, "mia", "Managers")
    assert not await in_database(find_waiting_calls(mia).exists)
    await in_database(hours_pass, 4.1)
    for person in (mia, ada):
        assert await in_database(partial(open_list, person)) == [call]
    await in_database(sign, call, mia)
    await wait_for_rest(runtime, turn)
    assert (await get_only_call(turn)).state == State.SUCCEEDED
