"""Calls that went wrong, as people read them: the reason in the row, and whose word it is."""

from typing import Any

import pytest

from chatapp.context.history import build_outcome
from chatapp.live.page_facts import render_call
from chatapp.models import Member, ToolCall, Turn
from chatapp.rendering import call_values
from tests.dom_tree import Element, root_of
from tests.turns import rows

State = ToolCall.State


@pytest.fixture
def turn(owner: Member) -> Turn:
    return rows.turn(owner)


def render(call: ToolCall) -> Element:
    call = ToolCall.objects.select_related("service", "definition", "turn").get(pk=call.pk)
    return root_of(render_call(call))


def make_result(*texts: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": text} for text in texts], "is_error": True}


def make_failed_call(turn: Turn, **values: Any) -> ToolCall:
    return rows.call(turn, {"title": "Old"}, State.FAILED, **values)


def get_reason(element: Element) -> str:
    """What the closed row says about why."""
    found = element.one("summary").with_class("reason")
    return found[0].text if found else ""


# --- the reason in the closed row ----------------------------------------------------------------
@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("The note is locked. Unlock it first.", "The note is locked."),
        ("No such note", "No such note"),
        ("Is it there? No.", "Is it there?"),
        (
            "Version 2.0 of notes.example refuses.\nSee the log.",
            "Version 2.0 of notes.example refuses.",
        ),
        ("one\ntwo", "one two"),
        ("", ""),
    ],
)
def test_the_row_gives_the_first_sentence_of_what_the_tool_said(
    turn: Turn, words: str, reason: str
) -> None:
    assert get_reason(render(make_failed_call(turn, result=make_result(words)))) == reason


def test_our_own_reason_comes_before_what_a_tool_said(turn: Turn) -> None:
    error = {"kind": "not_run", "message": "Missing: text.", "hint": "It was not run."}
    element = render(make_failed_call(turn, error=error, result=make_result("something else")))
    assert get_reason(element) == "Missing: text."
    assert "Missing: text. It was not run." in element.text


def test_a_long_reason_is_cut_and_says_so(turn: Turn) -> None:
    reason = get_reason(render(make_failed_call(turn, result=make_result("word " * 200))))
    assert reason.endswith("…") and len(reason) <= call_values.REASON_CHARACTERS + 1


@pytest.mark.parametrize("state", [State.SUCCEEDED, State.SENDING, State.APPROVED])
def test_a_call_that_has_not_failed_gives_no_reason(turn: Turn, state: str) -> None:
    assert get_reason(render(rows.call(turn, {}, state, result=make_result("All is well.")))) == ""


def test_the_reason_is_never_markup_and_draws_what_is_hidden(turn: Turn) -> None:
    element = render(make_failed_call(turn, result=make_result("<b>x</b>\u202e is broken.")))
    assert get_reason(element) == "<b>x</b>⟨U+202E⟩ is broken."
    assert element.one("summary").with_class("reason")[0].all("b") == []


# --- words that a tool's library put before its own ----------------------------------------------
def test_a_librarys_prefix_is_left_out_for_people_and_kept_for_the_model(turn: Turn) -> None:
    words = "Error executing tool delete_note: The note is locked."
    call = make_failed_call(turn, result=make_result(words))
    element = render(call)
    assert get_reason(element) == "The note is locked."
    assert element.one("pre").text == "The note is locked."
    assert build_outcome(call).text == words


def test_the_same_words_in_a_result_are_the_tools_own(turn: Turn) -> None:
    words = "Error executing tool x: this is what the log says."
    call = rows.call(turn, {}, State.SUCCEEDED, result=make_result(words))
    assert render(call).one("pre").text == words


def test_the_words_count_as_a_prefix_at_the_beginning_only(turn: Turn) -> None:
    words = "The log says Error executing tool x: it broke."
    assert get_reason(render(make_failed_call(turn, result=make_result(words)))) == words


# --- calls without a service ---------------------------------------------------------------------
def test_a_tool_that_nobody_offers_is_no_tool_of_a_removed_service(turn: Turn) -> None:
    error = {"kind": "not_run", "message": "There is no tool named 'x' in this chat.", "hint": ""}
    call = make_failed_call(turn, tool_id="x", tool_name="", service=None, error=error)
    element = render(call)
    assert element.all("h3")[0].text.endswith("· x")
    assert get_reason(element) == "There is no tool named 'x' in this chat."


@pytest.mark.parametrize("state", [State.SUCCEEDED, State.DENIED, State.UNKNOWN])
def test_the_calls_of_a_removed_service_still_read_well(turn: Turn, state: str) -> None:
    call = rows.call(turn, {"title": "Old"}, state, definition=rows.definition())
    rows.service().delete()
    element = render(call)
    assert "Delete note" in element.text and "Old" in element.text
    if state == State.UNKNOWN:
        assert element.one("h3").one("b").text == "Delete note"
    else:
        call.refresh_from_db()
        assert call_values.describe_service(call) in element.text


def test_a_question_of_a_removed_service_leaves_no_gap_where_its_host_was(turn: Turn) -> None:
    call = rows.question(turn)
    rows.service().delete()
    where = render(call).with_class("where")[0]
    assert len(where.all("span")) == 1 and where.all("span")[0].text
    assert render(call).one("h3").text == "The assistant wants to run Delete note"


# --- outcomes that nobody knows ------------------------------------------------------------------
def test_an_unknown_outcome_says_what_came_instead_of_an_answer(turn: Turn) -> None:
    error = {
        "kind": "protocol_error",
        "message": "The service answered with a web page.",
        "hint": "Look at its log.",
    }
    card = render(rows.call(turn, {}, State.UNKNOWN, error=error))
    first = card.with_class("because")[0].all("p")[0]
    assert first.text == "The service answered with a web page. Look at its log."


def test_an_unknown_outcome_without_a_word_says_that_none_came(turn: Turn) -> None:
    card = render(rows.call(turn, {}, State.UNKNOWN))
    assert card.with_class("because")[0].all("p")[0].text


@pytest.mark.parametrize(
    ("resolution", "state", "words"),
    [
        ("worked", State.SUCCEEDED, "reported that it worked"),
        ("did-not", State.FAILED, "reported that it did not work"),
        ("again", State.APPROVED, "had it run again"),
    ],
)
def test_a_resolved_call_says_who_resolved_it_and_how(
    turn: Turn, owner: Member, resolution: str, state: str, words: str
) -> None:
    call = rows.call(turn, {}, state, resolution=resolution, resolved_by=owner)
    assert f"The outcome was unknown. owner {words}." in render(call).text


def test_both_cards_answer_to_their_own_address_in_the_same_form(turn: Turn) -> None:
    asks, lost = rows.question(turn), rows.call(turn, {}, State.UNKNOWN)
    forms = [render(asks).one("form"), render(lost).one("form")]
    addresses = [f"/approvals/{asks.pk}/decide", f"/approvals/{lost.pk}/resolve"]
    for form, address in zip(forms, addresses, strict=True):
        assert form["action"] == form["hx-post"] == address
    own = {"action", "hx-post", "hx-target", "id"}
    first, second = ({k: v for k, v in f.attributes.items() if k not in own} for f in forms)
    assert first == second and "hx-disable" in first
