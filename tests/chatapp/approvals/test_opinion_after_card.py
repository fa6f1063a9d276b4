"""A second opinion that arrives after the card was shown counts when the call is about to run."""

import json

import pytest

from chatapp.engine.runtime import EngineRuntime
from chatapp.models import HousePolicy, Member, SecondOpinion, ToolCall, Turn
from chatapp.server.database import in_database
from chatapp.server.runtime import current_runtime
from chatapp.simulation import second_opinions
from mcpconfig.models import Service
from tests import scripted
from tests.chatapp.policy.test_consents import APPEND, asked, confirmed
from tests.scripted import Scene, text
from tests.turns.acts import get_only_call, wait_for_rest
from tests.turns.second_signers import sign, two_sign

__all__ = ["confirmed"]
pytestmark = [pytest.mark.gate, pytest.mark.django_db(transaction=True), pytest.mark.timeout(300)]
State = ToolCall.State
HIGH = text(json.dumps({"level": "high", "reasons": ["It may overwrite a note."]}))


async def give_opinion(call: ToolCall, scene: Scene) -> SecondOpinion:
    """Let an admin ask a model about the tool of this call, and let it answer."""

    def ask() -> SecondOpinion:
        HousePolicy.objects.update_or_create(defaults={"opinion_model": scripted.MODEL})
        admin = Member.objects.create_superuser("admin", password="a-long-password")
        (row,) = second_opinions.ask([call.definition] if call.definition else [], admin)
        return row

    row = await in_database(ask)
    scripted.scenes.insert(0, scene)
    await second_opinions.answer(row.definition_id, row.asked_at)
    await in_database(row.refresh_from_db)
    return row


@pytest.mark.parametrize(
    ("scene", "needs_two", "state"),
    [
        pytest.param(HIGH, True, State.WITHDRAWN, id="a higher level that two people approve"),
        pytest.param(HIGH, False, State.SUCCEEDED, id="a higher level that one person approves"),
        pytest.param(text("No."), True, State.SUCCEEDED, id="no opinion that counts"),
    ],
)
@pytest.mark.parametrize("is_clicked_first", [False, True])
async def test_an_opinion_counts_that_comes_after_the_card(
    runtime: EngineRuntime,
    turn: Turn,
    confirmed: Service,
    scene: Scene,
    needs_two: bool,
    state: str,
    is_clicked_first: bool,
) -> None:
    if needs_two:
        await in_database(two_sign)
    call, owner = await asked(runtime, turn, APPEND)
    assert (call.state, call.risk) == (State.AWAITING_APPROVAL, "medium")
    if is_clicked_first:
        current_runtime().wake_listeners.remove(runtime.engine.wake)  # it does not run yet
        await in_database(sign, call, owner)
        await give_opinion(call, scene)
        current_runtime().wake_listeners.append(runtime.engine.wake)
    else:
        await give_opinion(call, scene)
        await in_database(sign, call, owner)
    await wait_for_rest(runtime, turn)
    done = await get_only_call(turn)
    assert done.state == state
    assert (done.sent_at is None) == (state == State.WITHDRAWN)
