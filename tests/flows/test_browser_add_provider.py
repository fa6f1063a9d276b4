"""An admin adds a model provider step by step and sees a model answer, follows the exchanges live,
and hides an item of the overview, in a real browser."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from tests.wire.script import Answer, Tool

from .browser import MODEL, Visit, ask_in_new_chat, button, fill_house

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]

REMOVE = """
from chatapp.models import HiddenNeed, ModelProvider
from mcpconfig.models import Service
ModelProvider.objects.filter(slug="ourserver").delete()
HiddenNeed.objects.all().delete()
Service.objects.filter(name="lost").delete()
"""
LOSE = """
from mcpconfig.models import Service
Service.objects.create(name="lost", url="https://lost.example/mcp", last_error={
    "kind": "refused", "message": "It answered 401.", "at": "2026-01-01T00:00:00+00:00"})
"""
CHECK = """
from chatapp.models import ChatModel, ProviderDraft
(model,) = ChatModel.objects.filter(provider__slug="ourserver")
assert model.provider.stored_key() == "sk-typed-once", model.provider.key_place
assert (model.name, model.is_enabled, str(model.input_price)) == ("scripted", True, "2.500000")
assert not ProviderDraft.objects.exists()
"""
SENTENCE = "Hello, all of this works."


def shell(visit: Visit, code: str) -> None:
    visit.house.installation.manage("shell", "-v", "0", "-c", code)


@pytest.fixture
def swept(visit: Visit) -> Iterator[None]:
    yield
    shell(visit, REMOVE)


@pytest.mark.usefixtures("swept")
def test_a_provider_is_checked_answers_and_is_added(visit: Visit) -> None:
    model = visit.house.model
    visit.witness.excuse("422")
    tab = visit.tab("admin")
    tab.goto("/admin/chatapp/modelprovider/")
    tab.get_by_role("main").get_by_role("link", name="Add a provider").click()
    tab.get_by_role("link", name="Compatible server").click()
    tab.get_by_label("Name", exact=True).fill("Our server")
    tab.get_by_label("Address", exact=True).fill("http://127.0.0.1:1/v1")
    tab.get_by_label("Address", exact=True).press("Enter")
    steps = tab.get_by_role("list", name="Checks")
    expect(steps).to_contain_text("Not checked")
    expect(button(tab, "Add provider")).to_be_disabled()
    tab.get_by_label("Address", exact=True).fill(model.url)
    tab.get_by_label("Key location").select_option("stored")
    tab.get_by_label("Key", exact=True).fill("sk-typed-once")
    button(tab, "Check again").click()
    expect(steps).to_contain_text("1 model listed")
    model.answers("Say hello in one short sentence.", Answer(text=SENTENCE, delay_ms=20))
    button(tab, "Stream an answer").click()
    expect(tab.locator("#streamed")).to_have_text(SENTENCE)
    expect(tab.locator("#sample-facts")).to_contain_text("accepted")
    tab.get_by_role("link", name="Continue").click()
    expect(tab.locator(".streamed")).to_have_text(SENTENCE)
    tab.get_by_role("checkbox", name="scripted").check()
    tab.get_by_label("Input of scripted").fill("2.5")
    tab.get_by_label("Output of scripted").fill("10")
    tab.get_by_role("radio", name="Every member").check()
    button(tab, "Add provider").click()
    expect(tab.get_by_text("Added Our server with 1 model.")).to_be_visible()
    assert "sk-typed-once" not in tab.content()
    shell(visit, CHECK)
    expect(tab.get_by_role("heading", name="Cost so far")).to_be_visible()
    model.answers("Say hello in one short sentence.", Answer(text="It still works."))
    tab.get_by_label("Model for the answer").fill("scripted")
    button(tab, "Stream an answer").click()
    expect(tab.locator("#streamed")).to_have_text("It still works.")


def test_new_exchanges_appear_while_the_list_is_live_and_the_focus_stays(visit: Visit) -> None:
    installation = visit.house.installation
    fill_house(installation, ["mcp", "tools", "things", "--refresh"])
    tab = visit.tab("admin")
    tab.goto("/admin/mcpconfig/exchange/")
    tab.get_by_role("link", name="Show new exchanges as they come").click()
    rows = tab.locator("#result_list tbody tr")
    before, first = rows.count(), rows.first.locator("a").first
    kept = first.get_attribute("id")
    first.focus()
    fill_house(installation, ["mcp", "tools", "things", "--refresh"])
    expect(rows.first.locator("a").first).not_to_have_attribute("id", str(kept))
    assert rows.count() > before
    assert tab.evaluate("document.activeElement.id") == kept
    tab.get_by_role("link", name="Pause").click()
    expect(tab.get_by_role("link", name="Show new exchanges as they come")).to_be_visible()


@pytest.mark.usefixtures("swept")
def test_an_item_of_the_overview_is_hidden_for_one_admin(visit: Visit) -> None:
    shell(visit, LOSE)
    tab = visit.tab("admin")
    tab.goto("/admin/")
    item = tab.locator(".needs li").filter(has_text="lost fails")
    item.get_by_role("button", name="Hide…").click()
    button(item, "Snooze for a day").click()
    expect(tab.get_by_text("Snoozed for 1 day.")).to_be_visible()
    expect(item).to_have_count(0)
    button(tab, "Show again").click()
    expect(item).to_have_count(1)


def test_a_call_of_a_chat_is_found_and_opened_in_try_it(visit: Visit) -> None:
    """The admin looks for their own call, and finds its values in the form."""
    tab = visit.tab("admin")
    call = Tool(name="things_read_thing", arguments={"name": "a found paper"}, id="call_1")
    question = visit.house.model.answers(
        "Read the paper to find", Answer(tools=(call,)), Answer(text="Read.")
    )
    ask_in_new_chat(tab, question, MODEL)
    expect(tab.get_by_role("region", name="Conversation")).to_contain_text("Read.")
    tab.goto("/admin/chatapp/toolcall/")
    tab.locator("#result_list a", has_text="things_read_thing").first.click()
    number = tab.locator(".facts dd").first.inner_text()
    tab.get_by_role("searchbox", name=re.compile("^Search people")).fill(number)
    tab.keyboard.press("Enter")
    tab.get_by_role("main").get_by_role("link", name=re.compile("things_read_thing")).click()
    tab.get_by_role("link", name=re.compile("^Replay in Try it")).click()
    expect(tab.get_by_text("Nothing is sent until you run the tool.")).to_be_visible()
    expect(tab.get_by_label(re.compile("^name"))).to_have_value("a found paper")
