"""A person completes `@` while they write: by keyboard, by a tap, and without losing a word."""

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.wire.script import Answer

from .browser import House, Visit, ask_in_new_chat, both_looks, box, expect_over, region

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]


def choices(tab: Page) -> Locator:
    return tab.get_by_role("region", name="Mention").get_by_role("listitem").get_by_role("button")


def begin(tab: Page, text: str) -> None:
    """Write this, key by key, and wait for what is offered for its last word."""
    box(tab).press_sequentially(text)
    wait_for_choices(tab, text.split(" ")[-1])


def wait_for_choices(tab: Page, word: str) -> None:
    """The page takes nothing from a list that was offered for a shorter word."""
    expect(tab.locator(f'[data-typed="{word}"]')).to_be_visible()
    expect(choices(tab).first).to_be_visible()


@both_looks
def test_the_keyboard_alone_finds_and_chooses_a_tool(visit: Visit) -> None:
    tab = visit.tab()
    tab.goto("/")
    begin(tab, "Please ask @thi")
    expect(choices(tab).first).to_contain_text("@things")
    expect(choices(tab).filter(has_text="@things/delete_thing")).to_contain_text("High risk")
    expect(tab.locator("[data-announcements]")).to_contain_text("suggestion")
    expect(box(tab)).to_be_focused()

    box(tab).press_sequentially("ngs/re")
    wait_for_choices(tab, "@things/re")
    expect(choices(tab)).to_have_count(1)
    box(tab).press("ArrowDown")
    expect(choices(tab).first).to_be_focused()
    tab.keyboard.press("Enter")

    expect(box(tab)).to_have_value("Please ask @things/read_thing ")
    expect(box(tab)).to_be_focused()
    expect(choices(tab)).to_have_count(0)
    tab.keyboard.type("now")
    expect(box(tab)).to_have_value("Please ask @things/read_thing now")


def test_arrow_keys_go_round_and_back_to_the_message(visit: Visit) -> None:
    tab = visit.tab()
    tab.goto("/")
    begin(tab, "@things/")
    count = choices(tab).count()
    tab.keyboard.press("ArrowUp")
    expect(choices(tab).last).to_be_focused()
    tab.keyboard.press("ArrowDown")
    expect(box(tab)).to_be_focused()
    for number in range(count):
        tab.keyboard.press("ArrowDown")
        expect(choices(tab).nth(number)).to_be_focused()


@pytest.mark.parametrize("key", ["Enter", "Tab"])
def test_enter_takes_the_first_and_sends_nothing(visit: Visit, key: str) -> None:
    tab = visit.tab()
    tab.goto("/")
    begin(tab, "@thing")
    box(tab).press(key)
    expect(box(tab)).to_have_value("@things ")
    expect(box(tab)).to_be_focused()
    expect(tab.get_by_role("heading", name="Hello, owner.")).to_be_visible()


@pytest.mark.parametrize("key", ["Tab", "ArrowDown"])
def test_an_offer_for_what_stood_there_before_is_not_taken(visit: Visit, key: str) -> None:
    """No answer comes for the longer word, so the list is still that of the shorter one."""
    tab = visit.tab()
    tab.goto("/")
    begin(tab, "@thi")
    tab.route("**/attach/typed", lambda route: None)
    box(tab).press_sequentially("x\"'")
    expect(choices(tab).first).to_be_visible()
    box(tab).press(key)
    expect(box(tab)).to_have_value("@thix\"'")
    expect(tab.locator("[data-typed] :focus")).to_have_count(0)


@pytest.mark.parametrize("is_in_list", [False, True])
def test_escape_closes_and_keeps_what_was_written(visit: Visit, is_in_list: bool) -> None:
    tab = visit.tab()
    tab.goto("/")
    begin(tab, "Ask @thing")
    if is_in_list:
        tab.keyboard.press("ArrowDown")
        expect(choices(tab).first).to_be_focused()
    tab.keyboard.press("Escape")
    expect(choices(tab)).to_have_count(0)
    expect(box(tab)).to_have_value("Ask @thing")
    expect(box(tab)).to_be_focused()


def test_a_mention_in_the_middle_leaves_the_rest_alone(visit: Visit) -> None:
    tab = visit.tab()
    tab.goto("/")
    box(tab).fill("Ask  about the weather, mail a@b.example")
    for _ in range(len(" about the weather, mail a@b.example")):
        box(tab).press("ArrowLeft")
    begin(tab, "@thing")
    choices(tab).first.click()
    expect(box(tab)).to_have_value("Ask @things  about the weather, mail a@b.example")


def test_an_address_offers_nothing_and_the_list_goes_with_the_word(visit: Visit) -> None:
    tab = visit.tab()
    tab.goto("/")
    begin(tab, "@thing")
    with tab.expect_response("**/attach/typed"):
        box(tab).press_sequentially(" and more")
    expect(choices(tab)).to_have_count(0)
    asked: list[str] = []
    tab.on("request", lambda request: asked.append(request.url))
    box(tab).press_sequentially(", write to me@things")
    expect(box(tab)).to_have_value("@thing and more, write to me@things")
    tab.wait_for_timeout(400)  # longer than the pause after which it would ask
    assert [url for url in asked if "typed" in url] == []


def test_a_thumb_chooses_on_a_phone(visit: Visit, house: House) -> None:
    tab = visit.tab(viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    tab.goto("/")
    box(tab).tap()
    begin(tab, "@things/del")
    size = choices(tab).first.bounding_box()
    assert size is not None and size["height"] >= 44
    assert size["x"] >= 0 and size["x"] + size["width"] <= 390
    choices(tab).first.tap()
    expect(box(tab)).to_have_value("@things/delete_thing ")


@both_looks
def test_what_was_chosen_is_sent_and_the_next_message_is_another(
    visit: Visit, house: House
) -> None:
    tab = visit.tab()
    first = house.model.answers("Hello there", Answer(text="Yes?"))
    house.model.answers("Tell @things more", Answer(text="More."))
    house.model.answers("And then", Answer(text="Nothing."))
    ask_in_new_chat(tab, first)
    expect_over(tab)
    begin(tab, "Tell @thin")
    box(tab).press("Enter")
    box(tab).press_sequentially("more")
    for words, answer in (("", "More."), ("And then", "Nothing.")):
        box(tab).press_sequentially(words)
        box(tab).press("Enter")
        expect(region(tab)).to_contain_text(answer)
        expect(box(tab)).to_have_value("")
        expect_over(tab)


def test_prompts_after_a_slash_are_reached_by_arrow_keys(visit: Visit) -> None:
    tab = visit.tab()
    tab.goto("/")
    with tab.expect_response(lambda answer: "%2Fthi" in (answer.request.post_data or "")):
        box(tab).press_sequentially("/thi")
    prompts = tab.locator("#picker [data-typed]").get_by_role("button")
    expect(prompts).to_have_count(1)
    box(tab).press("ArrowDown")
    expect(prompts.first).to_be_focused()
    tab.keyboard.press("Escape")
    expect(tab.locator("#picker")).to_be_empty()
    expect(box(tab)).to_have_value("/thi")
