"""Two tabs and two people at once: at most one decision each, and at most one execution."""

import asyncio
import random
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
from django.db import connection
from django.db.models import Max

from chatapp.approvals import decisions
from chatapp.conversations import intake
from chatapp.engine import sweep
from chatapp.engine.runtime import EngineRuntime
from chatapp.models import Approval, Conversation, LogEntry, Member, Permit, ToolCall, Turn
from chatapp.people.refused import Refused
from chatapp.server.database import in_database
from mcpconfig.models import Service
from tests.chatapp.policy.test_consents import asked, confirmed
from tests.turns.acts import DELETE, get_only_call, wait_for_rest
from tests.turns.second_signers import (
    hours_pass,
    member,
    refuse,
    sign,
    two_sign,
    waiting_for_second,
)

__all__ = ["confirmed"]
pytestmark = [pytest.mark.gate, pytest.mark.django_db(transaction=True), pytest.mark.timeout(300)]
State = ToolCall.State
FINAL = {
    Approval.State.GRANTED: State.APPROVED,
    Approval.State.DENIED: State.DENIED,
    Approval.State.EXPIRED: State.EXPIRED,
    Approval.State.WITHDRAWN: State.WITHDRAWN,
}


def counted(act: Callable[[], object]) -> bool:
    """Whether it was done, and not refused."""
    try:
        act()
    except Refused:
        return False
    finally:
        connection.close()
    return True


def at_once(acts: Sequence[Callable[[], object]]) -> int:
    """How many of these, all done at the same moment, were not refused."""
    with ThreadPoolExecutor(8) as pool:
        return sum(pool.map(counted, acts))


def waiting(turn: Turn, *, is_signed: bool) -> ToolCall:
    """A call that waits, for both or for the second person only."""
    two_sign()
    Turn.objects.update(state=Turn.State.WAITING)
    call = waiting_for_second(turn)
    if not is_signed:
        Approval.objects.update(first_by=None, first_at=None, escalates_at=None)
    return call


def test_a_requester_in_many_tabs_signs_once(turn: Turn, owner: Member) -> None:
    call = waiting(turn, is_signed=False)
    assert at_once([lambda: sign(call, owner)] * 16) == 1
    approval = Approval.objects.get()
    assert (approval.state, approval.first_by) == (Approval.State.OPEN, owner)
    assert LogEntry.objects.filter(kind=LogEntry.Kind.SIGNED).count() == 2  # one when it was made
    assert ToolCall.objects.get().state == State.AWAITING_APPROVAL


def test_of_many_approvers_who_sign_and_refuse_at_once_one_decides(turn: Turn) -> None:
    call = waiting(turn, is_signed=True)
    people = [member(name, "Operations") for name in ("ada", "ben", "cleo", "dan")]
    acts = [partial(act, call, by) for by in people for act in (sign, refuse, sign)]
    assert at_once(acts) == 1
    approval = Approval.objects.get()
    assert ToolCall.objects.get().state == FINAL[Approval.State(approval.state)]
    assert approval.decided_by in people
    assert approval.signed_for == approval.decided_by


def test_the_requester_takes_it_back_while_another_signs(turn: Turn, owner: Member) -> None:
    call = waiting(turn, is_signed=True)
    ada = member("ada", "Operations")
    assert at_once([lambda: refuse(call, owner), lambda: sign(call, ada)] * 4) == 1
    assert ToolCall.objects.get().state in (State.APPROVED, State.DENIED)


def test_nobody_signs_second_before_somebody_has_signed_first(turn: Turn, owner: Member) -> None:
    call = waiting(turn, is_signed=False)
    ada = member("ada", "Operations")
    at_once([lambda: sign(call, ada), lambda: sign(call, owner)] * 6)
    approval = Approval.objects.get()
    assert approval.first_by == owner
    if approval.state == Approval.State.GRANTED:
        assert approval.decided_by == ada
        assert approval.decided_at is not None and approval.first_at is not None
        assert approval.decided_at >= approval.first_at


def stepped(act: Callable[[], object], owner: Member) -> bool:
    """Do it; whether it decided. Whoever allows the call then may, and is the second."""
    before = Approval.objects.get().state
    may = set(Member.objects.filter(groups__name="Operations")) - {owner}
    try:
        act()
    except Refused:
        assert Approval.objects.get().state == before
    after = Approval.objects.get()
    if after.state == Approval.State.GRANTED != before:
        assert (after.first_by, after.decided_by in may) == (owner, True)
    return after.state != before


def test_in_any_order_of_things_there_is_one_decision_by_those_who_may(
    turn: Turn, owner: Member
) -> None:
    """For two people: 60 orders of what may happen, each checked step by step."""
    call = waiting(turn, is_signed=False)
    ada, ben = member("ada", "Operations"), member("ben", "Operations")
    fresh = Approval.objects.values().get()
    acts: list[Callable[[], object]] = [
        lambda: sign(call, owner),
        lambda: sign(call, owner),
        lambda: sign(call, ada),
        lambda: sign(call, ben),
        lambda: refuse(call, ben),
        lambda: refuse(call, owner),
        lambda: decisions.grant(call, by=ada, binding="c" * 64, shown_at=None),
        lambda: hours_pass(5),
        lambda: hours_pass(24),
        sweep.expire_approvals,
        lambda: intake.stop(Conversation.objects.get()),
        lambda: ada.groups.clear(),
    ]
    chance, seen = random.Random(6), set()  # noqa: S311
    for _ in range(60):
        ada.groups.set(ben.groups.all())
        Approval.objects.filter(pk=call.pk).update(**fresh)
        ToolCall.objects.update(state=State.AWAITING_APPROVAL)
        Turn.objects.update(state=Turn.State.WAITING, stop_requested=False)
        order = chance.sample(acts, len(acts))
        assert sum(stepped(act, owner) for act in order) <= 1
        final = Approval.State(Approval.objects.get().state)
        state = ToolCall.objects.get().state
        assert state in (FINAL[final], State.CANCELLED if final == "granted" else "")
        seen.add(final)
    assert set(FINAL) == seen


@pytest.mark.parametrize("seed", range(6))
async def test_whoever_answers_at_once_it_is_sent_at_most_once(
    runtime: EngineRuntime, turn: Turn, confirmed: Service, seed: int
) -> None:
    await in_database(two_sign)
    call, owner = await asked(runtime, turn, DELETE)
    ada = await in_database(member, "ada", "Operations")
    ben = await in_database(member, "ben", "Operations")
    await in_database(sign, call, owner)
    acts = [
        lambda: sign(call, ada),
        lambda: sign(call, ben),
        lambda: sign(call, owner),
        lambda: refuse(call, owner if seed % 2 else ben),
    ] * 2
    random.Random(seed).shuffle(acts)  # noqa: S311

    async def tried(act: Callable[[], object]) -> bool:
        try:
            await in_database(act)
        except Refused:
            return False
        return True

    assert sum(await asyncio.gather(*map(tried, acts))) == 1
    await wait_for_rest(runtime, turn)
    done = await get_only_call(turn)
    assert done.state in (State.SUCCEEDED, State.DENIED)
    permits = await in_database(Permit.objects.aggregate, last=Max("attempt"))
    assert (permits["last"] or 0) == done.attempt == (done.state == State.SUCCEEDED)
