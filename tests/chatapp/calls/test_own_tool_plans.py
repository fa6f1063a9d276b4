"""The plan in a chat: set down once, ticked live where it stands, the same after a reload."""

import asyncio
from typing import Any

import pytest

from chatapp.conversations import intake
from chatapp.engine.runtime import EngineRuntime
from chatapp.live.hub import Viewer
from chatapp.live.page_facts import render_call
from chatapp.models import Conversation, Member, Plan, ToolCall, Turn
from chatapp.server.database import in_database
from tests import scripted
from tests.conftest import signed_in
from tests.dom import Tab
from tests.dom_tree import Element, parse
from tests.scripted import calls, text
from tests.turns import own_tool_turns
from tests.turns.acts import read_last_outcome, wait_for_rest
from tests.turns.own_tool_turns import asked_for, called
from tests.turns.tabs import assert_as_reloaded, latest, loaded

pytestmark = [pytest.mark.gate, pytest.mark.django_db(transaction=True), pytest.mark.timeout(300)]
STEPS = ["Collect them", "Compare them", "Report"]
PLAN = asked_for("make-plan", steps=STEPS, doing=1)
TICK = asked_for("make-plan", done=[1], doing=2)


def states(plan: Plan) -> list[str]:
    return [step["state"] for step in plan.steps]


def on_page(turn: Turn) -> Element:
    person = turn.conversation.owner
    return parse(signed_in(person).get(f"/c/{turn.conversation_id}/").content.decode())


async def followed(tab: Tab, viewer: Viewer, conversation: Conversation) -> None:
    """Until the tab has the conversation's last frame."""
    last = await latest(conversation)
    async with asyncio.timeout(60):
        while tab.last < last:
            tab.take(await viewer.frames.get())


async def test_a_plan_is_shown_and_ticked_where_it_stands(
    runtime: EngineRuntime, turn: Turn, conversation: Conversation
) -> None:
    scripted.scenes += [calls(PLAN), calls(TICK), text("On it.")]
    tab = await loaded(conversation)
    viewer = await runtime.hub.join(conversation.pk, tab.last)
    await wait_for_rest(runtime, turn)
    await followed(tab, viewer, conversation)
    await assert_as_reloaded(tab, conversation)
    plan = await in_database(Plan.objects.get)
    assert states(plan) == ["done", "doing", "open"]
    shown = tab.soup.find(id=f"tool-call-{plan.call_id}")
    assert shown is not None and "1 of 3 done" in shown.text
    assert read_last_outcome().startswith("1 of 3 steps are done.\n1. [done] Collect them")


async def test_after_a_reload_it_says_the_same_in_words(runtime: EngineRuntime, turn: Turn) -> None:
    scripted.scenes += [calls(PLAN), calls(TICK), text("On it.")]
    await wait_for_rest(runtime, turn)
    plan = await in_database(Plan.objects.get)
    shown = await in_database(lambda: on_page(turn).one("section", id=f"tool-call-{plan.call_id}"))
    steps = [(each["data-state"], " ".join(each.text.split())) for each in shown.all("li")]
    assert steps == [
        ("done", "Collect them done"),
        ("doing", "Compare them in progress"),
        ("open", "Report to do"),
    ]


async def test_a_call_that_ticks_is_a_row_that_says_how_far_it_is(
    runtime: EngineRuntime, turn: Turn
) -> None:
    scripted.scenes += [calls(PLAN), calls(TICK), text("On it.")]
    await wait_for_rest(runtime, turn)
    tick = await own_tool_turns.latest(turn)
    row = parse(await in_database(render_call, tick)).one("summary")
    assert row.one("b").text == "Plan"
    assert row.one("code").text == "1 of 3 done"


async def test_what_is_ticked_in_a_later_turn_changes_the_same_plan(
    runtime: EngineRuntime, turn: Turn, owner: Member
) -> None:
    await called(runtime, turn, "make-plan", steps=STEPS)
    scripted.scenes[:] = [calls(asked_for("make-plan", done=[1, 2, 3])), text("Done.")]
    conversation = turn.conversation
    tab = await loaded(conversation)
    viewer = await runtime.hub.join(conversation.pk, tab.last)

    def go_on() -> Turn:
        return intake.receive(owner, conversation, text="Go on", model=scripted.MODEL)

    await wait_for_rest(runtime, await in_database(go_on))
    await followed(tab, viewer, conversation)
    await assert_as_reloaded(tab, conversation)
    plan = await in_database(Plan.objects.get)
    assert states(plan) == ["done"] * 3
    assert "3 of 3 done" in tab.soup.text


async def test_a_new_plan_leaves_the_old_one_as_it_was(runtime: EngineRuntime, turn: Turn) -> None:
    scripted.scenes += [
        calls(PLAN),
        calls(asked_for("make-plan", steps=["Another"])),
        calls(asked_for("make-plan", done=[1])),
        text("Done."),
    ]
    await wait_for_rest(runtime, turn)
    first, second = await in_database(lambda: list(Plan.objects.order_by("call__step")))
    assert (states(first), states(second)) == (["doing", "open", "open"], ["done"])


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({}, "Give the steps of a new plan"),
        ({"done": [1]}, "steps: There is no plan yet"),
        ({"steps": ["a"], "done": [2]}, "done: The plan has steps 1 to 1."),
        ({"steps": ["a"], "doing": 2}, "doing: The plan has steps 1 to 1."),
        ({"steps": [" "]}, "Each step has 1 to 200 characters."),
        ({"steps": ["a"] * 21}, "at most 20 items"),
    ],
)
async def test_a_plan_that_is_none_is_refused(
    runtime: EngineRuntime, turn: Turn, asked: dict[str, Any], says: str
) -> None:
    call = await called(runtime, turn, "make-plan", **asked)
    assert call.state == ToolCall.State.FAILED
    assert says in read_last_outcome()
    assert not await in_database(Plan.objects.exists)


async def test_nobody_ticks_the_plan_of_another_chat(runtime: EngineRuntime, turn: Turn) -> None:
    await called(runtime, turn, "make-plan", steps=STEPS)

    def strangers() -> Turn:
        stranger = Member.objects.create_user("stranger", password="stranger-password")
        return intake.receive(stranger, None, text="Tick it", model=scripted.MODEL)

    scripted.scenes[:] = [calls(asked_for("make-plan", done=[1])), text("Hm.")]
    theirs = await in_database(strangers)
    await wait_for_rest(runtime, theirs)
    assert "There is no plan yet" in read_last_outcome()
    assert states(await in_database(Plan.objects.get)) == ["open"] * 3


async def test_words_of_a_plan_are_words(runtime: EngineRuntime, turn: Turn) -> None:
    call = await called(runtime, turn, "make-plan", steps=["<b>bold</b>\u202e"])
    html = await in_database(render_call, call)
    assert "&lt;b&gt;" in html
    assert "U+202E" in html
