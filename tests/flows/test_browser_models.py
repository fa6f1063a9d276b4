"""A person chooses a model from the long list, by keyboard and without JavaScript, in a real
browser."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.wire.script import Answer

from .browser import House, Visit, ask, both_looks, box, button, expect_over, region, write

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]
MODELS = {"sol": "Sol with eyes", "luna": "Luna the blind"}
ADD = """
from chatapp.models import ChatModel, ModelProvider
team = ModelProvider.objects.create(
    slug="team", kind="openai-chat", label="Team", base_url="{url}", key_place="none"
)
for name, label in {models}.items():
    ChatModel.objects.create(
        provider=team, name=name, label=label, takes_pictures=name == "sol", context_tokens=128000
    )
"""
REMOVE = "from chatapp.models import ModelProvider; ModelProvider.objects.all().delete()"


@pytest.fixture(scope="module")
def team(chromium: Browser, house: House) -> Iterator[None]:
    """Models of which something is known; the house is as it was afterwards."""
    house.installation.manage("shell", "-c", ADD.format(url=house.model.url, models=MODELS))
    yield
    house.installation.manage("shell", "-c", REMOVE)


def asked(house: House) -> str:
    """The name under which the last request went out."""
    return str(house.model.requests[-1].body["model"])


def open_list(tab: Page) -> None:
    tab.get_by_role("button", name="Model: ").click()


def choose(tab: Page, label: str) -> None:
    open_list(tab)
    tab.get_by_role("group", name="Models").get_by_role("button", name=label).click()
    expect(tab.get_by_role("button", name=f"Model: {label}")).to_be_visible()


@both_looks
def test_a_model_is_found_and_chosen_by_keyboard_and_asked(
    visit: Visit, house: House, team: None
) -> None:
    tab = visit.tab()
    house.model.answers("Who are you?", Answer(text="Luna."))
    tab.goto("/")
    box(tab).fill("Who are you?")
    open_list(tab)
    search = tab.get_by_role("searchbox", name="Search models")
    expect(search).to_be_focused()
    tab.keyboard.type("no images")
    found = tab.get_by_role("group", name="Models").get_by_role("button")
    expect(found).to_have_count(1)
    expect(found).to_contain_text("Luna the blind no images team:luna 128k context")
    # The button, the four needs and the choice for new chats come before the list.
    for _stop in range(7):
        tab.keyboard.press("Tab")
    expect(found).to_be_focused()
    tab.keyboard.press("Enter")
    expect(tab.locator("#picker")).to_be_empty()
    chosen = tab.get_by_role("button", name="Model: Luna the blind. Choose another")
    expect(chosen).to_be_focused()
    expect(box(tab)).to_have_value("Who are you?")
    button(tab, "Send").click()
    tab.wait_for_url("**/c/*/")
    expect(region(tab)).to_contain_text("Luna.")
    assert asked(house) == "luna"
    expect(chosen).to_be_visible()


def test_a_need_and_a_search_cut_the_list_together(visit: Visit, house: House, team: None) -> None:
    tab = visit.tab()
    tab.goto("/")
    open_list(tab)
    found = tab.get_by_role("group", name="Models").get_by_role("button")
    need = tab.get_by_role("checkbox", name="Images")
    need.focus()
    tab.keyboard.press("Space")
    expect(found.filter(has_text="Luna")).to_have_count(0)
    expect(need).to_be_focused()
    tab.get_by_role("searchbox").fill("team")
    expect(found).to_have_count(1)
    expect(found).to_contain_text("Sol with eyes")


def test_a_model_chosen_for_new_chats_is_in_the_next_one(
    visit: Visit, house: House, team: None
) -> None:
    tab = visit.tab()
    tab.goto("/")
    open_list(tab)
    tab.get_by_role("checkbox", name="Use for new chats").check()
    tab.get_by_role("group", name="Models").get_by_role("button", name="Luna the blind").click()
    expect(tab.get_by_role("button", name="Model: Luna the blind")).to_be_visible()
    tab.goto("/")
    expect(tab.get_by_role("button", name="Model: Luna the blind")).to_be_visible()


@both_looks
def test_another_model_goes_on_with_the_conversation(
    visit: Visit, house: House, team: None
) -> None:
    tab = visit.tab()
    house.model.answers("First", Answer(text="One."))
    house.model.answers("Second", Answer(text="Two."))
    tab.goto("/")
    choose(tab, "Luna the blind")
    write(tab, "First")
    tab.wait_for_url("**/c/*/")
    expect_over(tab)
    assert asked(house) == "luna"
    choose(tab, "Sol with eyes")
    ask(tab, "Second")
    expect_over(tab)
    assert asked(house) == "sol"
    tab.reload()
    expect(tab.get_by_role("button", name="Model: Sol with eyes")).to_be_visible()


def test_without_javascript_the_list_is_a_page(visit: Visit, house: House, team: None) -> None:
    tab = visit.tab(java_script_enabled=False)
    house.model.answers("Who is there?", Answer(text="Sol."))
    tab.goto("/")
    box(tab).fill("Who is there?")
    open_list(tab)
    expect(tab.get_by_role("heading", name="Choose a model", level=1)).to_be_visible()
    tab.get_by_role("searchbox").fill("sol with")
    button(tab.get_by_role("main"), "Search").click()
    tab.get_by_role("group", name="Models").get_by_role("button").click()
    expect(box(tab)).to_have_value("Who is there?")
    button(tab, "Send").click()
    tab.wait_for_url("**/c/*/")
    expect(region(tab)).to_contain_text("Sol.")
    assert asked(house) == "sol"
