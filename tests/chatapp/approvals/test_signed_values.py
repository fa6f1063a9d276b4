"""Two people for one call, with the values that the first chose and the name that both type."""

import json
from functools import partial

import pytest

from chatapp.approvals import decisions
from chatapp.engine.runtime import EngineRuntime
from chatapp.models import HousePolicy, Member, PolicyRule, ToolCall, Turn
from chatapp.people.refused import Refused
from chatapp.server.database import in_database
from mcpconfig.models import Service
from tests.chatapp.policy.test_consents import APPEND, asked, confirmed
from tests.turns.acts import DELETE, get_only_call, wait_for_rest
from tests.turns.second_signers import member, second_signature, sign

__all__ = ["confirmed"]
pytestmark = [pytest.mark.gate, pytest.mark.django_db(transaction=True), pytest.mark.timeout(300)]
State = ToolCall.State


async def test_the_second_sees_and_signs_the_values_that_the_first_chose(
    runtime: EngineRuntime, turn: Turn, confirmed: Service
) -> None:
    def ruled() -> Member:
        rule = PolicyRule(name="Notes", effect="ask", tool="append_to_note")
        rule.second = second_signature()
        rule.save()
        return member("ada", "Operations")

    ada = await in_database(ruled)
    call, owner = await asked(runtime, turn, APPEND)
    shown = call.approval.binding
    other = '{"title": "Old ideas", "text": "less"}'
    await in_database(partial(sign, call, owner, arguments=other))
    with pytest.raises(Refused, match="changed after you opened it"):
        await in_database(partial(decisions.grant, call, by=ada, binding=shown, shown_at=None))
    with pytest.raises(Refused, match="with the values shown"):
        await in_database(partial(sign, call, ada, arguments=APPEND[1]))
    await in_database(sign, call, ada)
    await wait_for_rest(runtime, turn)
    call = await get_only_call(turn)
    assert call.state == State.SUCCEEDED
    assert json.loads(call.arguments) == json.loads(other)


async def test_changed_values_may_be_what_takes_a_second_person(
    runtime: EngineRuntime, turn: Turn, confirmed: Service
) -> None:
    def ruled() -> None:
        rule = PolicyRule(name="Notes", effect="ask", condition='text == "less"')
        rule.second = second_signature()
        rule.save()

    await in_database(ruled)
    call, owner = await asked(runtime, turn, APPEND)
    assert call.approval.second_id is None
    other = '{"title": "Old ideas", "text": "less"}'
    await in_database(partial(sign, call, owner, arguments=other))
    await wait_for_rest(runtime, turn)
    call = await get_only_call(turn)
    assert call.state == State.AWAITING_APPROVAL
    assert call.approval.waits_for_second


async def test_what_the_changed_values_want_typed_both_must_type(
    runtime: EngineRuntime, turn: Turn, confirmed: Service
) -> None:
    def ruled() -> Member:
        PolicyRule.objects.create(
            name="Notes",
            effect="ask",
            condition='text == "less"',
            second=second_signature(),
            wants_typing=True,
        )
        return member("ada", "Operations")

    ada = await in_database(ruled)
    call, owner = await asked(runtime, turn, APPEND)
    other = {"arguments": '{"title": "Old ideas", "text": "less"}', "typed": "append_to_note"}
    await in_database(partial(sign, call, owner, **other))
    with pytest.raises(Refused, match="type the tool’s name"):
        await in_database(sign, call, ada)
    await in_database(partial(sign, call, ada, typed="append_to_note"))
    await wait_for_rest(runtime, turn)
    assert (await get_only_call(turn)).state == State.SUCCEEDED


async def test_what_must_be_typed_both_must_type(
    runtime: EngineRuntime, turn: Turn, confirmed: Service, ada: Member
) -> None:
    await in_database(lambda: HousePolicy.objects.update(types_high=True))
    call, owner = await asked(runtime, turn, DELETE)
    for by in (owner, ada):
        with pytest.raises(Refused, match="type the tool’s name"):
            await in_database(sign, call, by)
        await in_database(partial(sign, call, by, typed="delete_note"))
    await wait_for_rest(runtime, turn)
    assert (await get_only_call(turn)).state == State.SUCCEEDED
