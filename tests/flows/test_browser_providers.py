"""One story with each provider in a real browser: thoughts, tools, an approval, Stop, and another
provider that goes on with what the first one said."""

import json
import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.chatapp.providers.accounts import BASE_URLS, KEYS
from tests.wire.formats import FORMATS, form_of
from tests.wire.script import Answer, Tool

from .browser import (
    House,
    Scribe,
    Visit,
    ask,
    box,
    button,
    card,
    cards,
    expect_over,
    open_house,
    region,
    tick_as_read,
)
from .server import eventually

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]
MODELS = {
    "openai": "openai:gpt-6-sol",
    "openai-chat": "openai-chat:scripted",
    "anthropic": "anthropic:claude-sonnet-5-5",
    "google": "google:gemini-flash-latest",
    "bedrock": "bedrock:anthropic.claude-sonnet-5-5-v1:0",
}
# Who goes on after Stop. Each form hands over once and takes over once.
NEXT = dict(zip(MODELS, [*list(MODELS)[1:], "openai"], strict=True))
THOUGHT = "Both can be done at once, so I ask for both."
GO_ON = "Go on where you stopped."
BUSY = Answer(status=503, error={"code": "overloaded", "message": "Busy"})
# With one more model the list is too long for a menu and becomes the one with a search.
ADD_MODEL = """
from chatapp.models import ChatModel, ModelProvider
team = ModelProvider.objects.create(
    slug="team", kind="openai-chat", label="Team", base_url="{}", key_place="none"
)
ChatModel.objects.create(provider=team, name="one-more", label="One more")
"""
NO_KEY = Answer(status=401, error={"code": "invalid_api_key", "message": "No such key"})


def all_providers(model: Scribe) -> dict[str, str]:
    addresses = {name: model.base_url(form) for form, name in BASE_URLS.items()}
    return {**addresses, **{name: key for keys in KEYS.values() for name, key in keys.items()}}


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """A house that has an account with every provider; all of them are the scripted model."""
    with open_house(tmp_path_factory.mktemp("providers"), all_providers) as made:
        made.installation.manage("shell", "-c", ADD_MODEL.format(made.model.url))
        yield made


def choose(tab: Page, model_id: str) -> None:
    """Search the list for a model by its whole id and take it."""
    tab.get_by_role("button", name="Model: ").click()
    tab.get_by_role("searchbox", name="Search models").fill(model_id)
    found = tab.get_by_role("group", name="Models").get_by_role("button")
    expect(found).to_have_count(1)
    expect(found).to_contain_text(model_id)
    found.click()
    expect(tab.locator("#model-choice [name=model]")).to_have_value(model_id)


def begin(tab: Page, text: str, model_id: str) -> None:
    """Ask this model in a new chat."""
    tab.goto("/")
    choose(tab, model_id)
    box(tab).fill(text)
    box(tab).press("Enter")
    tab.wait_for_url("**/c/*/")


def last_asked(house: House) -> tuple[str, str]:
    """The model id under which the last request went out, and all that it said."""
    request = house.model.requests[-1]
    asked = form_of(request)
    assert asked is not None
    prefix = next(prefix for prefix, form in FORMATS.items() if form is asked[0])
    return f"{prefix}:{asked[1]}", json.dumps(request.body)


def call_row(tab: Page, tool: str) -> Locator:
    return region(tab).get_by_role("group").filter(has_text=tool)


@pytest.mark.parametrize("form", MODELS)
def test_the_story_of_a_provider(visit: Visit, house: House, form: str) -> None:
    tab, name = visit.tab(), f"paper of {form}"
    _asks_for_two(tab, house, form, name)
    _is_stopped(tab, house, form)
    _is_succeeded(tab, house, NEXT[form], name)


def _asks_for_two(tab: Page, house: House, form: str, name: str) -> None:
    """A thought, one call that runs without asking beside one that asks, and an answer."""
    calls = tuple(
        Tool(name=f"things_{tool}_thing", arguments={"name": name}, id=f"call_{tool}")
        for tool in ("read", "delete")
    )
    question = house.model.answers(
        f"Read and delete the {name}",
        Answer(reasoning=THOUGHT, tools=calls, first_byte_ms=1_600),
        Answer(text="It is read and **gone**."),
    )
    begin(tab, question, MODELS[form])
    approval = card(tab, "delete thing")
    expect(approval).to_contain_text(name)
    expect(cards(tab)).to_have_count(1)
    thought = region(tab).locator("details.thought")
    expect(thought.locator("summary")).to_have_text(re.compile(r"^Thought for [2-9] seconds"))
    expect(thought.get_by_text(THOUGHT)).to_be_hidden()
    thought.locator("summary").click()
    expect(thought.get_by_text(THOUGHT)).to_be_visible()
    tick_as_read(tab)
    button(approval, "Allow once").click()
    expect(region(tab)).to_contain_text("It is read and gone.")
    expect_over(tab)
    for tool in ("Read thing", "Delete thing"):
        expect(call_row(tab, tool)).to_contain_text("done")
    effects = sorted(line for line in house.effects.lines if name in line)
    assert effects == [f"delete_thing {name}", f"read_thing {name}"]
    model, said = last_asked(house)
    assert model == MODELS[form]
    assert f"{name} is a thing" in said
    assert f"{name} is deleted" in said


def _is_stopped(tab: Page, house: House, form: str) -> None:
    long = " ".join(f"Word {number} of {form}." for number in range(1_000))
    left = house.model.aborted
    ask(tab, house.model.answers(f"Tell a long story, {form}", Answer(text=long, delay_ms=20)))
    expect(region(tab)).to_contain_text(f"Word 5 of {form}.")
    button(tab, "Stop").click()
    expect(tab.locator(".status").last).to_contain_text("Stopped")
    expect_over(tab)
    eventually(lambda: house.model.aborted == left + 1, "the provider sees its stream closed", 3)
    assert house.model.streaming == 0
    expect(region(tab)).not_to_contain_text("Word 999")


def _is_succeeded(tab: Page, house: House, form: str, name: str) -> None:
    """Another provider goes on, and then answers the next question: it takes the whole history."""
    house.model.answers(GO_ON, Answer(text="So I go on."))
    choose(tab, MODELS[form])
    button(tab, "Continue").click()
    expect(region(tab)).to_contain_text("So I go on.")
    expect_over(tab)
    question = house.model.answers(f"And then, {form}?", Answer(text="That was all."))
    ask(tab, question)
    expect(region(tab)).to_contain_text("That was all.")
    expect_over(tab)
    model, said = last_asked(house)
    assert model == MODELS[form]
    for words in (f"{name} is deleted", "It is read and", "Word 5 of", GO_ON, "So I go on."):
        assert words in said, words
    tab.reload()
    expect(tab.locator("#model-choice [name=model]")).to_have_value(MODELS[form])


def test_a_busy_provider_is_asked_again_with_a_countdown(visit: Visit, house: House) -> None:
    tab = visit.tab()
    question = house.model.answers("Are you busy?", BUSY, BUSY, Answer(text="Not any more."))
    before = len(house.model.requests)
    begin(tab, question, MODELS["anthropic"])
    for count, attempt in (("1 second", 2), ("2 seconds", 3), ("1 second", 3)):
        sentence = f"is overloaded. Trying again in {count} (attempt {attempt} of 3)."
        tab.locator(".status", has_text=sentence).wait_for()  # looks at every screen frame
    expect(region(tab)).to_contain_text("Not any more.")
    expect_over(tab)
    expect(region(tab)).not_to_contain_text("overloaded")
    assert len(house.model.requests) == before + 3


def test_a_failed_answer_is_tried_again_with_another_model(visit: Visit, house: House) -> None:
    tab = visit.tab()
    question = house.model.answers("Who has a key?", NO_KEY, Answer(text="I have one."))
    begin(tab, question, MODELS["google"])
    expect(region(tab)).to_contain_text("refused the key.")
    expect_over(tab)
    expect(button(tab, "Continue")).to_have_count(0)
    choose(tab, MODELS["bedrock"])
    button(tab, "Try again").click()
    expect(region(tab)).to_contain_text("I have one.")
    expect_over(tab)
    assert last_asked(house)[0] == MODELS["bedrock"]
    expect(tab.locator(".turn[data-role=assistant]")).to_have_count(1)
    expect(button(tab, "Try again")).to_have_count(0)
