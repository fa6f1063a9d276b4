"""Limits of a day count all that one person does with a tool, wherever it is done."""

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from django.utils import timezone

from chatapp.engine.runtime import EngineRuntime
from chatapp.models import Member, ToolCall, ToolLimit, Trial, Turn
from chatapp.permissions import reasons
from chatapp.policy.daily_limits import count_uses_today
from chatapp.server.database import in_database
from mcpconfig.models import Service
from tests import scripted
from tests.scripted import calls, text
from tests.turns import rows
from tests.turns.acts import READ, get_only_call, get_owner, wait_for_rest

from .test_consents import allow, confirmed

__all__ = ["confirmed"]
pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(300)]
TOOL = "read_note"
Use = Callable[[Member, Service], object]


def in_another_chat(person: Member, service: Service, **fields: Any) -> None:
    other = rows.turn(person, Turn.State.WAITING)
    rows.call(other, **{"service": service, "tool_name": TOOL, **fields})


def by_hand(person: Member, service: Service) -> None:
    Trial.objects.create(person=person, service=service, tool_name=TOOL, arguments="{}")


def by_somebody_else(_person: Member, service: Service) -> None:
    stranger = Member.objects.create_user("stranger")
    in_another_chat(stranger, service, sent_at=timezone.now())
    by_hand(stranger, service)


CASES: list[tuple[str, Use, int]] = [
    ("sent", partial(in_another_chat, sent_at=timezone.now()), 1),
    ("about to be sent", partial(in_another_chat, state=ToolCall.State.APPROVED), 1),
    ("by hand", by_hand, 1),
    ("denied", partial(in_another_chat, state=ToolCall.State.DENIED), 0),
    ("yesterday", partial(in_another_chat, sent_at=timezone.now() - timedelta(days=1)), 0),
    ("another tool", partial(in_another_chat, sent_at=timezone.now(), tool_name="list_notes"), 0),
    ("somebody else", by_somebody_else, 0),
]


@pytest.mark.parametrize(
    ("use", "counted"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_each_use_counts_once(owner: Member, notebook: Service, use: Use, counted: int) -> None:
    use(owner, notebook)
    assert count_uses_today(owner, notebook.pk, TOOL) == counted


async def test_another_chat_uses_up_the_limit_of_this_one(
    runtime: EngineRuntime, turn: Turn, confirmed: Service
) -> None:
    def use() -> None:
        ToolLimit.objects.create(tool=TOOL, calls=1)
        in_another_chat(get_owner(turn), confirmed, state=ToolCall.State.APPROVED)

    await in_database(use)
    scripted.scenes += [calls(READ), text("Done.")]
    await wait_for_rest(runtime, turn)
    call = await get_only_call(turn)
    assert call.state == ToolCall.State.AWAITING_APPROVAL
    assert call.why == (reasons.USED_ONCE_TODAY % {"limit": 1})


async def test_what_is_allowed_later_takes_no_place_of_what_was_allowed_before(
    runtime: EngineRuntime, turn: Turn, confirmed: Service
) -> None:
    """Two of three calls run by themselves. The third asks, and is allowed before they are sent."""
    await in_database(lambda: ToolLimit.objects.create(tool=TOOL, calls=2))
    titles = ("Old ideas", "Groceries", "Ideas")
    reads = [("notebook_read_note", f'{{"title": "{title}"}}') for title in titles]
    scripted.scenes += [calls(*reads), text("Done.")]
    await wait_for_rest(runtime, turn)

    def asking() -> ToolCall:
        return ToolCall.objects.select_related("approval", "turn__conversation__owner").get(
            turn=turn, state=ToolCall.State.AWAITING_APPROVAL
        )

    third = await in_database(asking)
    owner = third.turn.conversation.owner
    await in_database(partial(allow, third, owner))
    await wait_for_rest(runtime, turn)
    states = await in_database(lambda: set(ToolCall.objects.values_list("state", flat=True)))
    assert states == {ToolCall.State.SUCCEEDED}


def test_a_lower_limit_leaves_the_earlier_of_two_allowed_calls_its_place(
    owner: Member, notebook: Service
) -> None:
    made = rows.turn(owner, Turn.State.WAITING)
    first, second = (
        rows.call(made, service=notebook, tool_name=TOOL, state=ToolCall.State.APPROVED)
        for _ in range(2)
    )
    in_another_chat(owner, notebook, state=ToolCall.State.APPROVED)
    used = [count_uses_today(owner, notebook.pk, TOOL, besides=each) for each in (first, second)]
    assert used == [0, 1]
    first.state = ToolCall.State.PROPOSED
    assert count_uses_today(owner, notebook.pk, TOOL, besides=first) == 1


@pytest.mark.parametrize("is_ours", [True, False])
async def test_a_limit_is_about_our_own_tool_or_about_those_of_a_service(
    runtime: EngineRuntime, turn: Turn, confirmed: Service, is_ours: bool
) -> None:
    whose: dict[str, Any] = {"is_core": True} if is_ours else {"service": confirmed}
    await in_database(partial(ToolLimit.objects.create, tool="current-time", calls=0, **whose))
    scripted.scenes += [calls(("current-time", '{"zone": "Europe/Rome"}')), text("Done.")]
    await wait_for_rest(runtime, turn)
    asks = (await get_only_call(turn)).state == ToolCall.State.AWAITING_APPROVAL
    assert asks is is_ours


async def test_a_call_is_no_use_before_itself(
    runtime: EngineRuntime, turn: Turn, confirmed: Service
) -> None:
    await in_database(lambda: ToolLimit.objects.create(tool=TOOL, calls=1))
    scripted.scenes += [calls(READ), text("Done.")]
    await wait_for_rest(runtime, turn)
    assert (await get_only_call(turn)).state == ToolCall.State.SUCCEEDED
