"""Tools that would fill too much of what a model can read are found, loaded and called."""

import json
from typing import Any

import pytest

from chatapp.conversations import intake
from chatapp.engine.runtime import EngineRuntime
from chatapp.live.page_facts import load_gauge
from chatapp.models import Member, Step, ToolCall, Turn
from chatapp.server.database import in_database
from mcpconfig.models import Service
from tests import scripted
from tests.conftest import signed_in
from tests.dom_tree import parse
from tests.scripted import calls, text
from tests.turns.acts import READ, wait_for_rest

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(300)]


@pytest.fixture
def crowded(notebook: Service, settings: Any) -> None:
    """Any tool is too much."""
    settings.TOOL_SHARE_PERCENT = 0.001


def find(query: str, **more: Any) -> tuple[str, str]:
    return ("find-tools", json.dumps({"query": query, **more}))


def told() -> list[str]:
    return [tool.name for tool in scripted.requests[-1].tools]


async def test_a_tool_is_found_loaded_and_called(
    runtime: EngineRuntime, turn: Turn, crowded: None, owner: Member
) -> None:
    scripted.scenes += [calls(find("read a note", limit=1)), calls(READ), text("Nothing of worth.")]
    done = await wait_for_rest(runtime, turn)
    assert done.state == Turn.State.DONE
    first, second, third = scripted.requests
    assert [tool.name for tool in first.tools] == ["find-tools"]
    assert "notebook (" in first.system
    assert [tool.name for tool in second.tools] == ["find-tools", "notebook_read_note"]
    assert [tool.name for tool in third.tools] == ["find-tools", "notebook_read_note"]
    outcome = second.history[-1]
    assert "notebook_read_note: [MCP:notebook]" in outcome.text  # type: ignore[union-attr]
    search, read = await in_database(lambda: list(ToolCall.objects.order_by("step")))
    assert (search.state, search.attempt, search.pauses) == ("succeeded", 2, 1)
    assert search.result is not None
    assert search.result["structured"]["tools"][0]["name"] == "notebook_read_note"
    assert read.state == "succeeded"
    page = await in_database(
        lambda: parse(signed_in(owner).get(f"/c/{turn.conversation_id}/").content.decode())
    )
    assert "tool search saves about" in page.one("details", id="gauge").text


async def test_the_order_of_loading_stays_from_step_to_step(
    runtime: EngineRuntime, turn: Turn, crowded: None
) -> None:
    scripted.scenes += [
        calls(find("search notes", limit=1)),
        calls(find("read a note", limit=1), find("search notes", limit=1)),
        text("Well."),
    ]
    await wait_for_rest(runtime, turn)
    assert told() == ["find-tools", "notebook_search_notes", "notebook_read_note"]


async def test_the_next_turn_begins_without_what_was_loaded(
    runtime: EngineRuntime, turn: Turn, crowded: None, owner: Member
) -> None:
    scripted.scenes += [calls(find("read a note")), text("Well."), text("Again.")]
    await wait_for_rest(runtime, turn)
    following = await in_database(
        lambda: intake.receive(owner, turn.conversation, text="And?", model=scripted.MODEL)
    )
    await wait_for_rest(runtime, following)
    assert told() == ["find-tools"]


async def test_few_tools_are_all_told_and_nothing_is_to_be_found(
    runtime: EngineRuntime, turn: Turn, notebook: Service
) -> None:
    scripted.scenes.append(text("Well."))
    await wait_for_rest(runtime, turn)
    assert "find-tools" not in told()
    assert "notebook_read_note" in told()
    step = await in_database(Step.objects.get, turn=turn)
    assert step.saved_tokens == 0
    assert (await in_database(load_gauge, turn.conversation)).saved_tokens == 0


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ('{"query": ""}', "query: String should have at least 1 character"),
        ('{"limit": 3}', "query: Field required"),
        ('{"query": "x", "limit": 99}', "limit: Input should be less than or equal to 10"),
        ("[]", "not a JSON object"),
    ],
)
async def test_bad_words_are_an_error_that_the_model_reads(
    runtime: EngineRuntime, turn: Turn, crowded: None, arguments: str, says: str
) -> None:
    scripted.scenes += [calls(("find-tools", arguments)), text("I see.")]
    await wait_for_rest(runtime, turn)
    outcome = scripted.requests[-1].history[-1]
    assert says in outcome.text  # type: ignore[union-attr]
    assert outcome.is_error  # type: ignore[union-attr]


async def test_a_search_that_finds_nothing_says_so(
    runtime: EngineRuntime, turn: Turn, crowded: None
) -> None:
    scripted.scenes += [calls(find("xylophone")), text("I see.")]
    await wait_for_rest(runtime, turn)
    outcome = scripted.requests[-1].history[-1]
    assert outcome.text.startswith("No tool fits these words.")  # type: ignore[union-attr]
    assert told() == ["find-tools"]
