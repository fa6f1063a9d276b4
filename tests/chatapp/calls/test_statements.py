"""How many statements a tool call adds to a turn. What pages read is in
`tests/chatapp/live/test_feed_statements.py`.

The trace is counted apart. Tests store it after each call, a server once for all operations of a
quarter of a second.
"""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from chatapp.approvals import decisions
from chatapp.calls import execution
from chatapp.calls.beginning import decide_and_begin
from chatapp.calls.ledger import record_outcome
from chatapp.conversations import intake
from chatapp.engine import engine
from chatapp.engine.runtime import EngineRuntime
from chatapp.models import ToolCall, Turn
from chatapp.server.database import in_database
from chatapp.telemetry.database_statements import TRANSACTION_STATEMENTS
from mcpconfig.models import ToolSetting
from tests import scripted
from tests.chatapp.telemetry.reading import Increase
from tests.peers.gate import Gate, application
from tests.peers.serving import Served
from tests.scripted import Scene, calls, text
from tests.turns.acts import (
    create_offered_service,
    get_only_call,
    wait_for_rest,
    wait_until,
    wait_until_released,
)

# How often background tasks run depends on the machine.
pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("no_polls")]
BESIDE = (*TRANSACTION_STATEMENTS, "COMMIT")
OF_A_CALL = 15
OF_A_CALL_IN_A_STEP = 13
OF_A_DECISION_AND_A_RUN = 15
OF_A_STEP_WITH_A_CALL = 58
OF_AN_APPROVED_CALL = 115
OF_THE_TRACE = 2


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with Served(application(Gate())) as found:
        yield found


@pytest.fixture
def chat(turn: Turn, served: Served) -> Turn:
    """The first turn of a chat that may use a tool."""
    create_offered_service("gate", served.url, "read_at_once")
    return turn


async def run_turn(
    runtime: EngineRuntime, chat: Turn, *scenes: Scene, is_approved: bool = False
) -> float:
    """Run one more turn of the chat and count its statements."""
    await wait_for_rest(runtime, chat)
    scripted.scenes[:] = scenes
    increase = Increase()
    owner = chat.conversation.owner
    more = await in_database(
        intake.receive, owner, chat.conversation, text="Go on", model=scripted.MODEL
    )
    if is_approved:
        await wait_for_rest(runtime, more)
        call = await get_only_call(more)
        binding = call.approval.binding
        await in_database(decisions.grant, call, by=owner, binding=binding, shown_at=None)
    # Other ways to wait for the end read rows.
    await wait_until(lambda: increase.of("turns_ended_total", reason="complete") == 1)
    await wait_until_released(runtime.engine, more.pk)
    sent = increase.of("database_statements_total")
    states = await in_database(lambda: [*more.tool_calls.values_list("state", flat=True)])
    assert {*states} <= {ToolCall.State.SUCCEEDED, ToolCall.State.FAILED}
    return sent


def read(*names: str) -> Scene:
    return calls(*(("gate_read_at_once", f'{{"name": "{name}"}}') for name in names))


async def test_a_decision_with_a_permit_takes_nine_statements_and_an_outcome_six(
    runtime: EngineRuntime, chat: Turn, monkeypatch: pytest.MonkeyPatch
) -> None:
    await run_turn(runtime, chat, read("first"), text("Done."))
    counts: dict[str, int] = {}

    def count(work: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*args: Any, **values: Any) -> Any:
            with CaptureQueriesContext(connection) as sent:
                found = work(*args, **values)
            sql = [each["sql"] for each in sent.captured_queries]
            counts[work.__name__] = sum(not each.startswith(BESIDE) for each in sql)
            return found

        return counted

    monkeypatch.setattr(engine, "decide_and_begin", count(decide_and_begin))
    monkeypatch.setattr(execution, "record_outcome", count(record_outcome))
    await run_turn(runtime, chat, read("a"), text("Done."))
    assert sum(counts.values()) <= OF_A_CALL
    assert counts == {"decide_and_begin": 9, "record_outcome": 6}


async def test_each_further_call_of_a_step_adds_few_statements(
    runtime: EngineRuntime, chat: Turn
) -> None:
    await run_turn(runtime, chat, read("first"), text("Done."))
    one = await run_turn(runtime, chat, read("a"), text("Done."))
    three = await run_turn(runtime, chat, read("a", "b", "c"), text("Done."))
    assert three - one <= 2 * (OF_A_CALL_IN_A_STEP + OF_THE_TRACE)


async def test_a_call_that_is_decided_and_runs_adds_few_to_one_that_fails_at_once(
    runtime: EngineRuntime, chat: Turn
) -> None:
    """Both turns have two steps, so the second model call does not count. The call that fails has
    entries in the logs, too."""
    await run_turn(runtime, chat, read("first"), text("Done."))
    failed = await run_turn(runtime, chat, calls(("gate_unknown", "{}")), text("Done."))
    ran = await run_turn(runtime, chat, read("a"), text("Done."))
    assert ran - failed <= OF_A_DECISION_AND_A_RUN + OF_THE_TRACE


async def test_a_step_with_a_call_adds_few_statements_to_a_turn(
    runtime: EngineRuntime, chat: Turn
) -> None:
    """The call, and the model call that reads its outcome."""
    await run_turn(runtime, chat, read("first"), text("Done."))
    none = await run_turn(runtime, chat, text("Done."))
    three = await run_turn(runtime, chat, read("a"), read("b"), read("c"), text("Done."))
    assert three - none <= 3 * (OF_A_STEP_WITH_A_CALL + OF_THE_TRACE)


async def test_an_approval_adds_few_statements(runtime: EngineRuntime, chat: Turn) -> None:
    await run_turn(runtime, chat, read("first"), text("Done."))
    await in_database(lambda: ToolSetting.objects.update(level="medium"))
    none = await run_turn(runtime, chat, text("Done."))
    asked = await run_turn(runtime, chat, read("a"), text("Done."), is_approved=True)
    assert asked - none <= OF_AN_APPROVED_CALL + OF_THE_TRACE
