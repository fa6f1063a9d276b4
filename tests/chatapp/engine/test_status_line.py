"""The line below an answer follows its turn on open pages, as it does after a reload."""

import asyncio
from functools import partial

import pytest

from chatapp.approvals import decisions
from chatapp.engine.runtime import EngineRuntime
from chatapp.models import ToolCall, Turn
from chatapp.rendering import page_values
from chatapp.server.database import in_database
from mcpconfig.models import Service
from tests import scripted
from tests.dom import Tab
from tests.scripted import Pause, calls, text
from tests.turns.acts import DELETE, get_only_call, get_owner, wait_for_rest
from tests.turns.tabs import caught_up, loaded, told, watched

pytestmark = pytest.mark.django_db(transaction=True)


def decide(call: ToolCall, *, allows: bool) -> None:
    owner, binding = get_owner(call.turn), call.approval.binding
    if allows:
        decisions.grant(call, by=owner, binding=binding, shown_at=None)
    else:
        decisions.deny(call, by=owner, binding=binding)


def read_line(tab: Tab, turn: Turn) -> tuple[str, str]:
    """Return the line, and the buttons of the composer."""
    status = tab.text(page_values.status_id(turn.answer_id))
    return status, tab.text(page_values.COMPOSER_ID)


@pytest.mark.parametrize("allows", [True, False])
async def test_after_a_decision_the_line_says_that_the_assistant_works(
    runtime: EngineRuntime, turn: Turn, notebook: Service, *, allows: bool
) -> None:
    pause = Pause()
    scripted.scenes += [calls(DELETE), [pause, *text("Done.")]]
    await wait_for_rest(runtime, turn)
    feed, tab = await watched(turn)
    try:
        assert read_line(tab, turn)[0] == "Waiting for your approval"
        await in_database(partial(decide, await get_only_call(turn), allows=allows))
        async with asyncio.timeout(60):
            await pause.reached.wait()
        await told(feed, turn)
        await caught_up(tab, turn.conversation)
        line = read_line(tab, turn)
        assert line[0] == "Working…"
        assert line == read_line(await loaded(turn.conversation), turn)
    finally:
        feed.close()
        pause.ended.set()
    await wait_for_rest(runtime, turn)
