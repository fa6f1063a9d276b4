"""Fragments of tool calls: the approval card, rows and verdicts, whoever wrote their words."""

import time
from typing import Any

import pytest
from django.core.signing import BadSignature
from django.utils import timezone

from chatapp.live.page_facts import load_call_facts, render_call
from chatapp.models import Approval, Member, ToolCall, Turn
from chatapp.rendering import call_values, page_values
from chatapp.rendering.pages import fragments
from mcpconfig.secrets import credentials
from tests.dom_tree import Element, root_of
from tests.markup_in_attributes import HOSTILE, find_markup_in_attributes
from tests.turns import rows

State = ToolCall.State
WORDS = {
    State.PROPOSED: "checking",
    State.APPROVED: "running",
    State.SENDING: "running",
    State.SUCCEEDED: "done",
    State.FAILED: "failed",
    State.DENIED: "denied",
    State.REFUSED: "refused by policy",
    State.EXPIRED: "expired",
    State.WITHDRAWN: "withdrawn",
    State.CANCELLED: "cancelled",
    State.UNKNOWN: "outcome unknown",
}
HIDDEN = ["\u202e", "\u200b", "\u2066", "\u00ad", "\U000e0041", "\x1b"]
LURE = 'zz<img src=x onerror=1 hx-get="/"><b hx-post="/" id="thread">zz'


@pytest.fixture
def turn(owner: Member) -> Turn:
    return rows.turn(owner)


def render(call: ToolCall, **values: Any) -> Element:
    call = ToolCall.objects.select_related("service", "definition", "turn").get(pk=call.pk)
    return root_of(render_call(call, **values))


def get_label(card: Element) -> str:
    return card.one(id=card["aria-labelledby"]).text


# --- the approval card ---------------------------------------------------------------------
def test_a_card_is_a_group_whose_name_begins_with_approve(turn: Turn) -> None:
    card = render(rows.question(turn, definition=rows.definition()))
    assert card["role"] == "group"
    assert get_label(card) == "Approve: Delete a note · Demo notebook"


@pytest.mark.parametrize(
    ("title", "sentence"),
    [
        ("Delete a note", "The assistant wants to run Delete a note in Demo notebook"),
        ("GitHub search", "The assistant wants to run GitHub search in Demo notebook"),
        ("", "The assistant wants to run Delete note in Demo notebook"),
    ],
)
def test_a_card_says_in_a_sentence_what_would_happen(turn: Turn, title: str, sentence: str) -> None:
    card = render(rows.question(turn, definition=rows.definition(title=title)))
    assert card.one("h3").text == sentence


def test_a_card_says_where_it_goes_and_as_whom(turn: Turn) -> None:
    address = "https://git.example:8443/mcp"
    elsewhere = rows.service("git", title="Git", url=address, authentication="headers")
    where = render(rows.question(turn, service=elsewhere)).with_class("where")[0]
    assert where.one("code").text == "notebook_delete_note"
    assert where.all("span")[0].text == "git.example:8443"
    assert len(where.all("span")) == 2
    built_in = render(rows.question(turn)).with_class("where")[0].all("span")
    assert "://" not in built_in[0].text


@pytest.mark.parametrize(
    ("authentication", "words"),
    [
        ("none", "no sign-in needed"),
        ("bearer", "uses a shared account"),
        ("oauth_shared", "uses a shared account"),
        ("oauth_user", "runs as you"),
    ],
)
def test_a_card_says_as_whom_it_runs(turn: Turn, authentication: str, words: str) -> None:
    service = rows.service(authentication=authentication)
    assert words in render(rows.question(turn, service=service)).with_class("where")[0].text


@pytest.mark.parametrize(
    ("visibility", "words"),
    [("private", "uses your own account"), ("everyone", "uses a shared account")],
)
def test_a_token_that_is_ones_own_is_no_shared_account(
    turn: Turn, visibility: str, words: str
) -> None:
    mine: dict[str, Any] = {"owner": turn.conversation.owner, "visibility": visibility}
    call = rows.question(turn, service=rows.service(authentication="bearer", **mine))
    assert call_values.describe_account(call) == words
    assert call_values.describe_account(call, "Ada") == words.replace("your", "Ada’s")


def test_a_card_says_that_a_shared_account_is_told_who_acts(turn: Turn) -> None:
    service = rows.service(authentication="headers")
    call = rows.question(turn, service=service)
    credentials.set_headers(service, {"X-Team": "ours"})
    assert not load_call_facts(call).names_person
    assert call_values.describe_account(call) == "uses a shared account"
    credentials.set_headers(service, {"X-User": "{user.email}"})
    assert load_call_facts(call).names_person
    words = call_values.describe_account(call, names_person=True)
    assert words == "uses a shared account and identifies you"
    assert words in render(call).with_class("where")[0].text


def test_a_card_gives_the_reasons_and_no_reason_twice(turn: Turn) -> None:
    reasons = ["The name says it deletes.", "Nobody has confirmed it."]
    call = rows.question(turn, reasons=reasons, why="Asked because. The name says it deletes.")
    because = render(call).with_class("because")[0]
    assert because.one("p").text == "Asked because. The name says it deletes."
    assert [each.text for each in because.all("li")] == ["Nobody has confirmed it."]


def test_every_argument_is_shown_with_the_required_ones_first(turn: Turn) -> None:
    schema: dict[str, Any] = {
        "properties": {"note": {}, "title": {}, "options": {}},
        "required": ["title"],
    }
    arguments = {"extra": 5, "note": "", "options": {"deep": [1, None]}, "title": "Old ideas"}
    card = render(rows.question(turn, arguments, definition=rows.definition(**schema)))
    names = [each.text for each in card.all("dt")]
    values = [each.text for each in card.all("dd")]
    assert names == ["title (required)", "note", "options", "extra"]
    assert values[0] == "Old ideas" and values[1]
    assert values[2:] == ['{ "deep": [ 1, null ] }', "5"]


@pytest.mark.parametrize("value", ["word " * 700, "line\n" * 40, ["item"] * 40])
def test_a_long_value_is_folded_and_never_cut(turn: Turn, value: Any) -> None:
    fold = render(rows.question(turn, {"text": value})).one("dd").one("details")
    whole = fold.with_class("value")[0]
    plain = value if isinstance(value, str) else whole.text
    assert whole.text == " ".join(plain.split())
    assert whole.text.count("item") == (40 if isinstance(value, list) else 0)
    assert "characters" in fold.one("summary").text


def test_a_long_value_says_how_long_it_is(turn: Turn) -> None:
    card = render(rows.question(turn, {"text": "x" * 3_214}))
    assert "3,214 characters. Show all" in card.one("dd").one("summary").text


def test_the_exact_json_is_there_whole(turn: Turn) -> None:
    call = rows.question(turn, {"title": "Old ideas", "text": "y" * 2_000})
    exact = render(call).with_class("exact")[0]
    assert exact.one("pre").text == call.arguments


def test_a_card_offers_what_can_be_done_and_nothing_else(turn: Turn) -> None:
    card = render(rows.question(turn, definition=None))
    assert card.choices() == ["decision=run", "decision=deny"]


def test_enter_in_a_field_of_a_card_presses_nothing(turn: Turn) -> None:
    first, *_ = render(rows.question(turn)).one("form").all("button")
    assert "disabled" in first
    assert "hidden" in first


def test_a_decision_names_what_was_shown(turn: Turn) -> None:
    call = rows.question(turn)
    fields = render(call).one("form").fields()
    assert (fields["version"], fields["reason"]) == (rows.BINDING, "")
    assert fragments.read_shown_at(call.pk, fields["shown_at"]) == pytest.approx(
        time.time(), abs=30
    )


def test_the_time_of_a_card_counts_for_that_card_only(turn: Turn) -> None:
    first, second = rows.question(turn), rows.question(turn)
    signed = fragments.sign_shown_at(first.pk, 1_000.0)
    assert fragments.read_shown_at(first.pk, signed) == 1_000.0
    with pytest.raises(BadSignature):
        fragments.read_shown_at(second.pk, signed)
    with pytest.raises(BadSignature):
        fragments.read_shown_at(first.pk, f"{first.pk}:1.0")


def test_a_token_is_in_the_form_only_where_a_page_gives_one(turn: Turn) -> None:
    call = rows.question(turn)
    assert "csrfmiddlewaretoken" not in render(call).one("form").fields()
    assert render(call, csrf_token="secret").one("form").fields()["csrfmiddlewaretoken"] == "secret"


def test_high_risk_differs_in_words_and_sign_not_only_in_colour(turn: Turn) -> None:
    high, low = render(rows.question(turn)), render(rows.question(turn, risk="low"))
    assert "high" in high.with_class("badge")[0].text.lower()
    assert "low" in low.with_class("badge")[0].text.lower()
    assert [len(card.with_class("warning")) for card in (high, low)] == [1, 0]
    signs = [card.with_class("emblem")[0].one("use")["href"] for card in (high, low)]
    assert signs == ["#i-alert", "#i-shield"]


def test_a_card_says_what_happens_when_nobody_decides(turn: Turn) -> None:
    due = render(rows.question(turn)).with_class("due")[0]
    assert due.text
    assert "datetime" in due.one("time")


@pytest.mark.parametrize("character", HIDDEN)
def test_hidden_characters_are_drawn_wherever_they_stand(turn: Turn, character: str) -> None:
    word = f"a{character}b"
    call = rows.question(
        turn,
        {word: word, "deep": {word: [word]}},
        definition=rows.definition(title=f"Delete {word}"),
        service=rows.service(title=word),
        tool_id=word,
        why=word,
        reasons=[f"because {word}"],
    )
    html = render_call(call)
    assert character not in html
    assert html.count(f"⟨U+{ord(character):04X}⟩") >= 8


def test_a_card_warns_of_what_could_deceive(turn: Turn) -> None:
    hidden = render(rows.question(turn, {"list": [{"a": "x\u202ey"}]}, risk="low"))
    mixed = render(rows.question(turn, tool_name="d\u0435lete", risk="low"))
    plain = render(rows.question(turn, {"a": "x"}, risk="low"))
    assert len(hidden.with_class("warning")) == len(mixed.with_class("warning")) == 1
    assert hidden.with_class("warning")[0].text != mixed.with_class("warning")[0].text
    assert plain.with_class("warning") == []


# --- calls in their other states -----------------------------------------------------------
@pytest.mark.parametrize(("state", "words"), WORDS.items())
def test_every_state_is_said_in_words(turn: Turn, state: str, words: str) -> None:
    call = rows.call(turn, {"title": "Old ideas"}, state)
    element = render(call)
    assert element["id"] == page_values.tool_call_id(call.pk)
    assert words in element.text
    assert "Old ideas" in element.text


def test_a_call_that_is_being_cancelled_says_so(turn: Turn) -> None:
    call = rows.call(turn, {"title": "x"}, ToolCall.State.SENDING)
    assert [each.text for each in render(call).all("button")] == ["Cancel Delete note"]
    ToolCall.objects.filter(pk=call.pk).update(cancel_requested=True)
    (button,) = render(call).all("button")
    assert button.text == "Cancelling…" and "disabled" in button


def test_an_unknown_outcome_is_for_a_person_to_tell(turn: Turn) -> None:
    card = render(rows.call(turn, {}, State.UNKNOWN, definition=rows.definition()))
    assert card.choices() == ["verdict=worked", "verdict=did-not", "verdict=again"]
    assert "Delete a note" in get_label(card)
    assert len(card.with_class("because")[0].all("p")) == 2


def test_a_call_of_a_turn_that_is_over_is_not_run_again(owner: Member) -> None:
    over = rows.turn(owner, Turn.State.STOPPED)
    assert render(rows.call(over, {}, State.UNKNOWN)).choices() == [
        "verdict=worked",
        "verdict=did-not",
    ]


def test_a_denied_call_says_who_denied_it_and_their_word(turn: Turn, owner: Member) -> None:
    call = rows.question(turn)
    ToolCall.objects.filter(pk=call.pk).update(state=State.DENIED)
    Approval.objects.update(
        state="denied", reason="Keep it.", decided_by=owner, decided_at=timezone.now()
    )
    line = render(call).one("summary")
    assert "denied by owner" in line.text
    assert line.one("q").text == "Keep it."


def test_a_refused_call_says_why(turn: Turn) -> None:
    call = rows.call(turn, {}, State.REFUSED, why="An admin switched this tool off.")
    assert render(call).one("summary").one("q").text == "An admin switched this tool off."


def test_a_call_that_was_allowed_says_by_whom(turn: Turn, owner: Member) -> None:
    call = rows.question(turn)
    ToolCall.objects.filter(pk=call.pk).update(state=State.SUCCEEDED)
    Approval.objects.update(state="granted", decided_by=owner, decided_at=timezone.now())
    assert "Allowed once by owner" in render(call).text


def test_a_failed_call_says_what_went_wrong_and_what_to_do(turn: Turn) -> None:
    error = {"kind": "timeout", "message": "No answer in time.", "hint": "Ask for less."}
    assert (
        "No answer in time. Ask for less."
        in render(rows.call(turn, {}, State.FAILED, error=error)).text
    )


def test_a_long_result_says_how_much_is_not_shown(turn: Turn) -> None:
    result = {"content": [{"type": "text", "text": "z" * 25_000}]}
    element = render(rows.call(turn, result=result))
    assert element.one("pre").text == "z" * 20_000
    assert "5,000" in element.with_class("left-out")[0].text


def test_arguments_that_cannot_be_read_are_shown_as_they_are(turn: Turn) -> None:
    element = render(rows.call(turn, '{"title": ', State.FAILED))
    assert element.one("dd").text == '{"title":'


def test_progress_is_shown_while_a_call_runs(turn: Turn) -> None:
    running = rows.call(turn, {}, State.SENDING, progress="page 3 of 12")
    over = rows.call(turn, {}, State.SUCCEEDED, progress="page 3 of 12")
    assert "page 3 of 12" in render(running).one("summary").text
    assert "page 3 of 12" not in render(over).text


@pytest.mark.parametrize("state", [State.AWAITING_APPROVAL, *WORDS])
def test_words_of_others_never_become_markup(turn: Turn, state: str) -> None:
    call = rows.question(
        turn,
        {LURE: LURE, "deep": {LURE: LURE}},
        definition=rows.definition(title=LURE),
        service=rows.service(title=LURE),
        tool_id=LURE,
        why=LURE,
        reasons=[f"{LURE}!"],
        progress=LURE,
        result={"content": [{"type": "text", "text": LURE}, {"type": LURE, "uri": LURE}]},
        error={"message": LURE, "hint": LURE},
    )
    Approval.objects.update(reason=LURE)
    ToolCall.objects.filter(pk=call.pk).update(state=state)
    element = render(call)
    assert not element.all("img") and not element.all(id="thread")
    assert all("onerror" not in each for each in element.all())
    assert [each for each in element.all() if "hx-get" in each] == []


def test_values_and_results_are_out_of_reach_of_htmx(turn: Turn) -> None:
    result = {"content": [{"type": "text", "text": "marked"}]}
    call = rows.call(turn, {"title": "marked"}, result=result)
    holders = [each for each in render(call).all() if "marked" in each.children]
    assert len(holders) == 3  # the row, the value, the result
    for holder in holders:
        assert any("hx-ignore" in each for each in [holder, *holder.ancestors()])


# --- text of others in attributes ---------------------------------------------------------------
def render_hostile(turn: Turn, state: str) -> str:
    """A call in this state whose texts would break out of an attribute."""
    definition = rows.definition(title=HOSTILE)
    definition.service.title = HOSTILE
    definition.service.save()
    values: dict[str, Any] = {"definition": definition, "tool_name": HOSTILE, "tool_id": HOSTILE}
    if state == State.AWAITING_APPROVAL:
        call = rows.question(turn, {HOSTILE: HOSTILE}, **values)
    else:
        call = rows.call(turn, {HOSTILE: HOSTILE}, state, **values)
    return render_call(ToolCall.objects.get(pk=call.pk))


@pytest.mark.parametrize("state", [state for state in State if state != State.AWAITING_INPUT])
def test_no_attribute_of_a_call_holds_markup(turn: Turn, state: State) -> None:
    assert find_markup_in_attributes(render_hostile(turn, state)) == []


def test_what_is_announced_is_the_title_as_text(turn: Turn) -> None:
    card = root_of(render_hostile(turn, State.AWAITING_APPROVAL))
    drawn = HOSTILE.replace("\u202e", "⟨U+202E⟩").replace("\u200b", "⟨U+200B⟩")
    assert card["data-say"] == f"Approval needed: {drawn}, high risk."


def test_markup_in_an_attribute_is_found() -> None:
    fault = '<p data-say="Approval needed: <span class="hidden-char">⟨U+202E⟩</span>">x</p>'
    assert len(find_markup_in_attributes(fault)) == 1
    assert find_markup_in_attributes('<p data-say="a &lt;b&gt;">1 &lt; 2</p>') == []
