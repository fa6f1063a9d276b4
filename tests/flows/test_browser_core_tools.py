"""The assistant's own tools in a real browser: a form, a plan that is ticked, a fact and its page;
and the lasting ways to allow a tool, by keyboard."""

import pytest
from playwright.sync_api import expect

from tests.wire.script import Answer, Tool

from .browser import (
    Visit,
    ask,
    ask_in_new_chat,
    button,
    card,
    cards,
    expect_over,
    region,
    tick_as_read,
)
from .test_browser_cards import tab_to

pytestmark = [pytest.mark.gate, pytest.mark.timeout(300)]
FACT = "Reports go out on Mondays."
WAY = "Allow…"


def step(tool: str, **arguments: object) -> Answer:
    return Answer(tools=(Tool(name=tool, arguments=arguments),))


def test_a_form_is_answered_and_the_answer_goes_on_with_it(visit: Visit) -> None:
    tab = visit.tab()
    asked = [
        {"text": "Which room?", "kind": "one", "options": ["Blue room", "Green room"]},
        {"text": "Anything else?", "kind": "text"},
    ]
    form = step("ask-person", why="To book the room.", questions=asked)
    ask_in_new_chat(
        tab, visit.house.model.answers("Book a room", form, Answer(text="It is booked."))
    )
    question = tab.get_by_role("group", name="Question:")
    expect(question).to_contain_text("The assistant asks a question")
    expect(question).to_contain_text("To book the room.")
    tick_as_read(tab)
    question.get_by_label("Which room?").select_option("Green room")
    question.get_by_label("Anything else?").fill("A screen")
    button(question, "Answer").click()
    expect(region(tab)).to_contain_text("It is booked.")
    expect(question).to_have_count(0)
    expect_over(tab)


@pytest.mark.long
def test_a_plan_is_a_checklist_that_is_ticked_where_it_stands(visit: Visit) -> None:
    tab = visit.tab()
    made = step("make-plan", steps=["Collect", "Compare"], doing=1)
    done = step("make-plan", done=[1], doing=2)
    story = visit.house.model.answers("Plan it", made, done, Answer(text="Half of it is done."))
    ask_in_new_chat(tab, story)
    expect(region(tab)).to_contain_text("Half of it is done.")
    plan = tab.get_by_role("region", name="Plan", exact=True)
    expect(plan).to_have_count(1)
    expect(plan).to_contain_text("1 of 2 done")
    expect(plan.get_by_role("listitem")).to_have_text(["Collect done", "Compare in progress"])
    expect_over(tab)
    tab.reload()
    expect(plan).to_contain_text("1 of 2 done")


@pytest.mark.long
def test_a_fact_is_allowed_once_with_other_words_and_stands_on_its_page(visit: Visit) -> None:
    tab = visit.tab()
    keep = step("remember", text="Reports go out on Sundays.")
    story = visit.house.model.answers("Keep that in mind", keep, Answer(text="I keep it in mind."))
    ask_in_new_chat(tab, story)
    question = card(tab, "Remember", "the assistant")
    expect(question).to_contain_text("runs as you")
    expect(question.get_by_text(WAY)).to_have_count(0)
    question.get_by_text("Explain").click()
    expect(question).to_contain_text("Remember one lasting fact about this person")
    question.get_by_text("Edit values").click()
    question.get_by_label("text").fill(FACT)
    tick_as_read(tab)
    button(question, "Allow with these values").click()
    expect(region(tab)).to_contain_text(f"Saved to memory: {FACT}")
    expect(region(tab)).to_contain_text("I keep it in mind.")
    expect_over(tab)

    tab.get_by_role("link", name="Edit or delete").click()
    fact = tab.get_by_role("article", name=FACT)
    expect(fact).to_contain_text("From the chat Keep that in mind")
    fact.get_by_role("button", name="Delete").click()
    expect(fact).to_have_count(0)


@pytest.mark.long
def test_a_tool_is_allowed_for_the_chat_by_keyboard_alone(visit: Visit) -> None:
    def slow(name: str) -> str:
        call = step("things_slow_thing", name=name, seconds=0)
        return visit.house.model.answers(name, call, Answer(text=f"All is done with {name}."))

    tab = visit.tab()
    ask_in_new_chat(tab, slow("the first"))
    question = card(tab, "slow thing")
    expect(question).to_be_visible()
    tick_as_read(tab)
    way = button(question, "In this chat")
    expect(way).not_to_be_visible()
    tab_to(tab, question.locator("summary", has_text=WAY))
    tab.keyboard.press("Enter")
    expect(way).to_be_visible()
    tab_to(tab, way)
    tab.keyboard.press("Enter")
    expect(region(tab)).to_contain_text("All is done with the first.")
    expect_over(tab)
    ask(tab, slow("the second"))
    expect(region(tab)).to_contain_text("All is done with the second.")
    expect(cards(tab)).to_have_count(0)
    expect_over(tab)
