"""What a card shows so that a person can decide: what differs from last time, secrets as dots,
letters that deceive, and an explanation that no model wrote."""

import json
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from chatapp.live.page_facts import render_call
from chatapp.models import Member, ToolCall, Turn
from chatapp.permissions import reasons
from chatapp.rendering.secret_mask import DOTS, mask_secrets, mask_secrets_in_json
from chatapp.tools.core import core_tool
from tests.dom_tree import Element, parse, root_of
from tests.turns import rows

pytestmark = pytest.mark.django_db
LOOK_ALIKE = "p\u0430ypal"  # its second letter is Cyrillic


@pytest.fixture
def turn(owner: Member) -> Turn:
    return rows.turn(owner)


def render(call: ToolCall) -> Element:
    return root_of(render_call(call))


def add_past_call(turn: Turn, arguments: dict[str, Any], **values: Any) -> ToolCall:
    return rows.call(turn, arguments, sent_at=timezone.now(), **values)


def get_previous_values(call: ToolCall) -> dict[str, str]:
    """What is said of last time, by the name of the value."""
    found = render(call).with_class("args")[0].elements
    lines = {each.one("dt").text: each.with_class("before") for each in found}
    return {name: line[0].text for name, line in lines.items() if line}


# --- what differs from last time -----------------------------------------------------------------
def test_what_differs_from_the_last_call_of_the_tool_is_marked(turn: Turn) -> None:
    add_past_call(turn, {"to": "ada@example.com", "text": "Hello"})
    call = rows.question(turn, {"to": "eve@example.com", "text": "Hello"})
    assert get_previous_values(call) == {"to": "Changed. Last time: ada@example.com"}


def test_a_new_value_and_one_that_is_gone_are_told(turn: Turn) -> None:
    add_past_call(turn, {"to": "ada@example.com", "limit": 3})
    call = rows.question(turn, {"to": "ada@example.com", "force": True})
    assert get_previous_values(call) == {"force": "Changed. Last time: not given"}
    assert render(call).with_class("left-out-now")[0].text.endswith(": limit.")


def test_nested_values_are_compared_as_values(turn: Turn) -> None:
    add_past_call(turn, {"filter": {"a": 1, "b": [2]}})
    assert get_previous_values(rows.question(turn, {"filter": {"b": [2], "a": 1}})) == {}
    assert "filter" in get_previous_values(rows.question(turn, {"filter": {"a": 1, "b": [3]}}))


def test_the_first_call_of_a_tool_differs_from_nothing(turn: Turn, owner: Member) -> None:
    """Neither another tool, nor another chat, nor a call that was never sent is a last time."""
    add_past_call(turn, {"title": "Other"}, tool_name="read_note")
    add_past_call(rows.turn(owner), {"title": "Elsewhere"})
    rows.call(turn, {"title": "Never sent"}, ToolCall.State.DENIED)
    assert get_previous_values(rows.question(turn, {"title": "Now"})) == {}


def test_a_long_value_of_last_time_says_how_long_it_was(turn: Turn) -> None:
    add_past_call(turn, {"text": "x" * 3_214})
    line = get_previous_values(rows.question(turn, {"text": "y"}))["text"]
    assert line.endswith("… (3,214 characters)")


# --- secrets -------------------------------------------------------------------------------------
SECRETS = [
    ("password", "hunter2-hunter2"),
    ("api_key", "sk-live-4711"),
    ("accessToken", "eyJhbGciOi"),
    ("client_secret", "geheim"),
]


@pytest.mark.parametrize(("name", "secret"), SECRETS)
@pytest.mark.parametrize("wrap", [lambda name, value: {name: value}, lambda n, v: {"in": [{n: v}]}])
def test_a_secret_is_drawn_as_dots_everywhere(
    turn: Turn, name: str, secret: str, wrap: Any
) -> None:
    html = render_call(rows.question(turn, wrap(name, secret)))
    assert secret not in html
    assert DOTS in html
    assert f"({len(secret)} characters, hidden)" in html


def test_the_form_for_other_values_draws_a_secret_as_dots(turn: Turn) -> None:
    tool = rows.definition(properties={"password": {"type": "string"}})
    card = render(rows.question(turn, {"password": "hunter2"}, definition=tool))
    field = next(each for each in card.all("input") if each.attributes.get("value") == "hunter2")
    assert field["type"] == "password"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("password", "delete everything; then say hello"),
        ("token_command", "rm -rf /"),
        ("secret", "line\nline"),
        ("token", "x" * 513),
        ("password", ""),
        ("max_tokens", 500),
        ("progressToken", "abc"),
        ("title", "hunter2"),
    ],
)
def test_what_is_no_secret_cannot_hide_under_the_name_of_one(
    turn: Turn, name: str, value: Any
) -> None:
    """Whoever decides must see every sentence and every command."""
    assert mask_secrets({name: value}) == {name: value}


def test_a_row_and_last_time_keep_the_secret_too(turn: Turn) -> None:
    done = add_past_call(turn, {"password": "first-one"})
    assert "first-one" not in render_call(done)
    html = render_call(rows.question(turn, {"password": "second-one"}))
    assert "first-one" not in html
    assert 'Last time: <span dir="auto">a different secret</span>' in html


def test_without_a_secret_the_exact_text_stays_as_it_is() -> None:
    for text in ('{"a": 1.0,  "b":"\\u00e9"}', "not json", "[" * 9_000):
        assert mask_secrets_in_json(text) == text
    assert json.loads(mask_secrets_in_json('{"a":1,"token":"abc"}'))["a"] == 1


# --- letters that deceive ------------------------------------------------------------------------
def test_a_look_alike_letter_in_a_value_is_drawn_with_its_code(turn: Turn) -> None:
    card = render(rows.question(turn, {"to": LOOK_ALIKE}))
    assert card.with_class("value")[0].text == "p\u0430⟨U+0430⟩ypal"
    assert len(card.with_class("warning")) == 2, "beside the one for high risk"


@pytest.mark.parametrize(
    ("words", "drawn"),
    [
        ("ｅ@ada.org", "ｅ⟨U+FF45⟩@ada.org"),
        ("ada．org", "ada．⟨U+FF0E⟩org"),
        ("１2", "１⟨U+FF11⟩2"),
        ("\U0001d41a", "\U0001d41a⟨U+1D41A⟩"),
        ("\U0001d41a東", "\U0001d41a⟨U+1D41A⟩東"),
        ("ｇ〇．ｏ", "ｇ⟨U+FF47⟩〇．⟨U+FF0E⟩ｏ⟨U+FF4F⟩"),
    ],
)
def test_full_width_and_styled_characters_are_drawn_with_their_codes(
    turn: Turn, words: str, drawn: str
) -> None:
    card = render(rows.question(turn, {"to": words}))
    assert card.with_class("value")[0].text == drawn
    assert len(card.with_class("warning")) == 2, "beside the one for high risk"


@pytest.mark.parametrize(
    "words", ["１００円", "図書館：Ａ館", "你好，世界！", '"東京１"', "x: 東京１"]
)
def test_full_width_characters_in_east_asian_text_are_left_alone(turn: Turn, words: str) -> None:
    card = render(rows.question(turn, {"to": words}))
    assert not card.with_class("hidden-char")


def test_the_card_says_why_values_cannot_be_changed(turn: Turn) -> None:
    definition = rows.definition()
    hidden = render(rows.question(turn, {"to": "a\u200bb"}, definition=definition))
    assert "hidden characters" in hidden.with_class("fixed")[0].text
    unknown = render(rows.question(turn, {"to": "ab"}))
    assert "is not known" in unknown.with_class("fixed")[0].text
    plain = render(rows.question(turn, {"to": "ab"}, definition=definition))
    assert not plain.with_class("fixed")


@pytest.mark.parametrize("words", ["Привет, Ada", "Ωmega is last", "日本 and Tokyo", "naïve café"])
def test_honest_words_of_two_languages_are_left_alone(turn: Turn, words: str) -> None:
    card = render(rows.question(turn, {"to": words}))
    if words.startswith("Ω"):
        assert card.with_class("hidden-char"), "A Greek letter in a Latin word is drawn."
        return
    assert not card.with_class("hidden-char")
    assert len(card.with_class("warning")) == 1, "only the one for high risk"


# --- the explanation -----------------------------------------------------------------------------
def get_explanation(call: ToolCall) -> dict[str, str]:
    """The words under each heading."""
    found: dict[str, str] = {}
    for each in render(call).with_class("explain")[0].one("div").elements:
        if each.tag == "h4":
            found[each.text] = ""
        else:
            last = list(found)[-1]
            found[last] = f"{found[last]} {each.text}".strip()
    return found


def test_it_is_explained_in_three_parts_that_no_model_wrote(turn: Turn) -> None:
    tool = rows.definition()
    tool.description = "Removes a note for good."
    tool.save()
    call = rows.question(
        turn,
        definition=tool,
        why=reasons.NEEDS_APPROVAL["high"],
        note="Ask Kim first.",
        reasons=[reasons.NAME_SAYS["deletes"]],
    )
    assert get_explanation(call) == {
        "What it does": "The service says: Removes a note for good.",
        "Reason": "Needs approval because the risk is high. An admin says: Ask Kim first.",
        "What could go wrong": "Deleted data may be gone permanently.",
    }


def test_a_tool_without_a_description_is_said_to_have_none(turn: Turn) -> None:
    found = get_explanation(rows.question(turn, definition=rows.definition()))
    assert len(found) == 3 and all(found.values())


def make_own_question(turn: Turn, tool: str, arguments: dict[str, Any], reason: str) -> ToolCall:
    """A question about a tool of our own."""
    values: dict[str, Any] = {"tool_id": tool, "service": None, "reasons": [reason]}
    return rows.question(turn, arguments, tool_name=tool, **values)


def test_our_own_tool_is_explained_in_our_words(turn: Turn) -> None:
    found = get_explanation(
        make_own_question(turn, "remember", {"text": "I like tea."}, "It lasts.")
    )
    does, _, risks = found.values()
    remember = core_tool("remember")
    assert remember and does == remember.description
    assert risks == "It lasts."


def test_our_own_tool_shows_its_values_in_its_order_and_lets_them_be_changed(turn: Turn) -> None:
    asked = {"is_internal": True, "title": "Weather", "url": "https://w.example/mcp", "name": "w"}
    card = render(make_own_question(turn, "add-service", asked, "It opens a way out."))
    assert [each.text for each in card.with_class("args")[0].all("dt")] == [
        *("name (required)", "url (required)", "title", "is_internal"),
    ]
    fields = {each["name"] for each in card.all("textarea") + card.all("input")}
    assert {"v0", "v1", "v2"} <= fields
    assert not card.with_class("ways-to-run")


def test_words_of_a_service_in_an_explanation_never_become_markup(turn: Turn) -> None:
    tool = rows.definition()
    tool.description = "<b>Safe</b>\u202e"
    tool.save()
    html = render_call(rows.question(turn, definition=tool))
    assert "<b>Safe" not in html
    assert "⟨U+202E⟩" in html


# --- the assistant's own words -------------------------------------------------------------------
def test_the_assistants_words_stand_apart_from_the_facts(owner_client: Client, turn: Turn) -> None:
    rows.said(turn, "I only tidy up a little. <b>Trust me</b>")
    call = rows.question(turn)
    html = owner_client.get(f"/approvals/{call.pk}/").content.decode()
    quoted = parse(html).with_class("said-before")[0]
    assert quoted.one("figcaption").text
    assert quoted.one("blockquote").text == "I only tidy up a little. <b>Trust me</b>"
    assert "Trust me" not in render_call(call)


def test_words_that_came_later_or_in_another_step_are_not_its_reason(
    owner_client: Client, turn: Turn
) -> None:
    call = rows.question(turn)
    rows.said(turn, "Afterwards")
    html = owner_client.get(f"/approvals/{call.pk}/").content.decode()
    assert not parse(html).with_class("said-before")
