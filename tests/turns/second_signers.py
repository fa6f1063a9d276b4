"""Two people for one call: a second signature that policy demands, its group, and what they do."""

from datetime import timedelta
from typing import Any

from django.contrib.auth.models import Group
from django.db.models import F
from django.utils import timezone

from chatapp.approvals import decisions
from chatapp.engine.runtime import EngineRuntime
from chatapp.models import Approval, HousePolicy, Member, SecondSignature, StandIn, ToolCall, Turn
from chatapp.people.second_signers import find_waiting_calls
from chatapp.server.database import in_database
from tests.chatapp.policy.test_consents import asked


def member(name: str, *groups: str) -> Member:
    """An active member of these groups."""
    made = Member.objects.filter(username=name).first()
    if made is None:
        made = Member.objects.create_user(name, password="a-long-password")
    made.groups.add(*(Group.objects.get_or_create(name=group)[0] for group in groups))
    return made


def second_signature(**fields: Any) -> SecondSignature:
    """Operations sign within a day; after four hours the managers may, too."""
    values: dict[str, Any] = {
        "approvers": Group.objects.get_or_create(name="Operations")[0],
        "deadline_hours": 24,
        "escalation": Group.objects.get_or_create(name="Managers")[0],
        "escalates_after_hours": 4,
    }
    made, _is_new = SecondSignature.objects.update_or_create(
        name="Operations", defaults=values | fields
    )
    return made


def two_sign(**fields: Any) -> SecondSignature:
    """From now on policy wants two people for high risks."""
    second = second_signature(**fields)
    HousePolicy(high_needs=second, consents_to_high=True).save()
    return second


def stand_in(approver: Member, other: Member, days: int = 1, since: int = 0) -> StandIn:
    today = timezone.localdate()
    return StandIn.objects.create(
        approver=approver,
        stand_in=other,
        begins_on=today + timedelta(days=since),
        ends_on=today + timedelta(days=since + days),
    )


def hours_pass(hours: float) -> None:
    """The requester signed that long ago."""
    span = timedelta(hours=hours)
    Approval.objects.update(
        first_at=F("first_at") - span,
        escalates_at=F("escalates_at") - span,
        expires_at=F("expires_at") - span,
    )


def waiting_for_second(turn: Turn) -> ToolCall:
    """The row of a call that its requester has signed."""
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
    second = second_signature()
    due = timezone.now() + timedelta(days=1)
    Approval.objects.create(tool_call=call, binding="b" * 64, second=second, expires_at=due)
    sign(call, turn.conversation.owner)
    return call


def open_list(person: Member) -> list[ToolCall]:
    """The calls that wait for this person's second signature."""
    return list(find_waiting_calls(person))


def sign(call: ToolCall, by: Member, **how: Any) -> None:
    """Say yes to what the card shows now."""
    binding = Approval.objects.get(pk=call.pk).binding
    decisions.grant(call, by=by, binding=binding, shown_at=None, **how)


def refuse(call: ToolCall, by: Member, reason: str = "") -> None:
    binding = Approval.objects.get(pk=call.pk).binding
    decisions.deny(call, by=by, binding=binding, reason=reason)


async def signed_first(
    runtime: EngineRuntime, turn: Turn, call: tuple[str, str]
) -> tuple[ToolCall, Member]:
    """A call whose requester has signed, and who waits for somebody else."""
    found, owner = await asked(runtime, turn, call)
    await in_database(sign, found, owner)
    return found, owner
