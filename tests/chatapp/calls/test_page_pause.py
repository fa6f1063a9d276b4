"""A handshake-era service that wants a page opened before it takes a call: the turn waits with the
address, and the same call goes on after the person has been there."""

from collections.abc import Iterator

import pytest
from django.test import override_settings

from chatapp.engine.runtime import EngineRuntime
from chatapp.models import ToolCall, Turn
from chatapp.server.database import in_database
from mcpconfig.models import Service
from tests import scripted
from tests.peers.serving import Served
from tests.peers.tollgate import PAGE, Tollgate
from tests.scripted import calls, text
from tests.turns.acts import create_offered_service, read_last_outcome, wait_for_rest
from tests.turns.questions import asked, card, finished, open_question, post

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(300)]
State = ToolCall.State
CROSS = ("gate_cross", '{"who": "Ada"}')


@pytest.fixture
def gate() -> Tollgate:
    return Tollgate()


@pytest.fixture
def service(transactional_db: None, gate: Tollgate) -> Iterator[Service]:
    with Served(gate.application()) as served:
        yield create_offered_service("gate", served.url, "cross", title="The gate")


async def test_the_card_shows_the_page_and_the_call_goes_on_after_it(
    runtime: EngineRuntime, service: Service, turn: Turn, gate: Tollgate
) -> None:
    question = await asked(runtime, turn, CROSS)
    shown = await in_database(card, question)
    assert shown.one("a", target="_blank")["href"] == PAGE["url"]
    assert shown.buttons() == ["Done", "Decline", "Close question"]
    assert not question.tool_call.may_have_run, "The service refused the call as a whole."

    gate.is_paid = True
    assert (await in_database(post, question, "accept")).status_code == 200
    call = await finished(runtime, question)
    assert (call.state, call.pauses, gate.passages) == (State.SUCCEEDED, 1, ["Ada"])


async def test_a_page_that_was_not_opened_is_asked_for_again(
    runtime: EngineRuntime, service: Service, turn: Turn, gate: Tollgate
) -> None:
    question = await asked(runtime, turn, CROSS)
    await in_database(post, question, "accept")
    assert (await finished(runtime, question)).state == State.AWAITING_INPUT
    again = await open_question(turn)
    assert (again.round, gate.passages) == (2, [])


@pytest.mark.parametrize("action", ["decline", "cancel"])
async def test_after_a_no_nothing_is_sent_and_the_model_is_told(
    runtime: EngineRuntime, service: Service, turn: Turn, gate: Tollgate, action: str
) -> None:
    question = await asked(runtime, turn, CROSS)
    gate.is_paid = True
    await in_database(post, question, action)
    call = await finished(runtime, question)
    assert (call.state, gate.passages) == (State.FAILED, [])
    assert "that was declined" in read_last_outcome()


@override_settings(QUESTION_ROUNDS=0)
async def test_the_rounds_are_counted(
    runtime: EngineRuntime, service: Service, turn: Turn, gate: Tollgate
) -> None:
    scripted.scenes += [calls(CROSS), text("It asks too many questions.")]
    await wait_for_rest(runtime, turn)
    assert (await in_database(ToolCall.objects.get, turn=turn)).state == State.FAILED
    assert gate.passages == []
