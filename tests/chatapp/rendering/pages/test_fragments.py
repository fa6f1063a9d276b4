"""Fragments of messages, status, composer and sidebar."""

import uuid
from typing import Any

import pytest

from chatapp.live.page_facts import count_figures, load_turn_facts
from chatapp.live.page_view import load_conversation_view
from chatapp.models import Member, ToolCall, Turn
from chatapp.rendering import page_values
from chatapp.rendering.page_values import MessageView, NoticeView, ReasoningView, TextView
from chatapp.rendering.pages import fragments
from tests.dom_tree import Element, parse, root_of
from tests.turns import rows

State = ToolCall.State
MESSAGE = uuid.uuid4()
LURE = 'zz<img src=x onerror=1 hx-get="/">zz'


@pytest.fixture
def turn(owner: Member) -> Turn:
    return rows.turn(owner)


# --- messages and their parts --------------------------------------------------------------
def test_a_persons_message_keeps_its_lines_and_is_never_markup() -> None:
    view = MessageView(id=MESSAGE, role="user", text="one\n<b>two</b>")
    item = root_of(fragments.render_message(view))
    assert (item["id"], item["data-role"]) == (page_values.message_id(MESSAGE), "user")
    bubble = item.with_class("bubble")[0]
    assert bubble.children == ["one\n<b>two</b>"]
    assert "hx-ignore" in bubble


def test_an_answer_holds_its_parts_in_order_and_then_its_status(turn: Turn) -> None:
    rows.said(turn, "Let me think.", "reasoning", seconds=8.2)
    rows.said(turn, "First **this**.")
    call = rows.question(turn)
    rows.said(turn, "You stopped this answer.", "notice", hint="Ask again.", notice_kind="stopped")
    item = root_of(fragments.render_message(load_conversation_view(turn.conversation).messages[-1]))
    parts, status = item.one(id=page_values.parts_id(turn.answer_id)), item.elements[-1]
    assert [each["id"] for each in parts.elements] == [
        page_values.part_id(turn.answer_id, 1, 0),
        page_values.part_id(turn.answer_id, 1, 1),
        page_values.tool_call_id(call.pk),
        page_values.part_id(turn.answer_id, 1, 3),
    ]
    assert parts.elements[0].one("summary").text == "Thought for 8 seconds"
    assert parts.elements[1].one("strong").text == "this"
    assert parts.elements[3]["data-kind"] == "stopped"
    assert status["id"] == page_values.status_id(turn.answer_id)


def test_an_open_text_can_be_added_to_by_its_ids() -> None:
    view = TextView(step=2, position=1, blocks="<p>a</p>", tail="<p>b</p>", is_open=True)
    part = root_of(fragments.render_part(MESSAGE, view))
    assert part["id"] == page_values.part_id(MESSAGE, 2, 1)
    assert "hx-ignore" in part
    assert part.one(id=page_values.blocks_id(MESSAGE, 2, 1)).text == "a"
    assert part.one(id=page_values.tail_id(MESSAGE, 2, 1)).text == "b"


@pytest.mark.parametrize(
    ("seconds", "label"),
    [(None, "Thought about it"), (0.2, "Thought for 1 second"), (8.4, "Thought for 8 seconds")],
)
def test_a_thought_is_plain_text_and_says_how_long_it_took(
    seconds: float | None, label: str
) -> None:
    view = ReasoningView(step=1, position=0, text="<b>bold</b>\n", seconds=seconds)
    part = root_of(fragments.render_part(MESSAGE, view))
    assert part.one("summary").text == label
    assert part.one(id=page_values.blocks_id(MESSAGE, 1, 0)).children == ["<b>bold</b>\n"]


@pytest.mark.parametrize(
    ("kind", "text", "icon"),
    [
        ("error", "Error: It <broke>. Try again.", "#i-alert"),
        ("stopped", "It <broke>. Try again.", "#i-stopped"),
        ("info", "Note: It <broke>. Try again.", "#i-info"),
        ("", "Note: It <broke>. Try again.", "#i-info"),
    ],
)
def test_a_notice_says_of_which_kind_it_is_what_happened_and_what_to_do(
    kind: str, text: str, icon: str
) -> None:
    view = NoticeView(step=1, position=4, kind=kind, text="It <broke>.", hint="Try again.")
    part = root_of(fragments.render_part(MESSAGE, view))
    assert (part["id"], part["data-kind"]) == (page_values.part_id(MESSAGE, 1, 4), kind)
    assert (part.text, part.one("use")["href"]) == (text, icon)


# --- status, composer, sidebar -------------------------------------------------------------
def status_of(turn: Turn) -> Element:
    return root_of(fragments.render_status(turn.answer_id, turn, load_turn_facts(turn)))


@pytest.mark.parametrize("state", [Turn.State.QUEUED, Turn.State.RUNNING])
def test_an_answer_in_the_making_is_busy(owner: Member, state: str) -> None:
    status = status_of(rows.turn(owner, state))
    assert (status["aria-busy"], status.text) == ("true", "Working…")
    assert status_of(rows.turn(owner, state, stop_requested=True)).text == "Stopping…"


def test_a_waiting_answer_says_what_it_waits_for(owner: Member) -> None:
    asks, does_not_know = rows.turn(owner), rows.turn(owner)
    rows.question(asks)
    rows.call(does_not_know, {}, State.UNKNOWN)
    texts = [status_of(each).text for each in (asks, does_not_know)]
    assert all(texts) and texts[0] != texts[1]
    assert all(status_of(each)["data-state"] == "waiting" for each in (asks, does_not_know))


FORK = "Fork into a new chat"
RATINGS = ["Good answer", "Bad answer"]


@pytest.mark.parametrize(
    ("state", "reason", "word", "ways_on"),
    [
        (Turn.State.DONE, "complete", "demo", ["Copy answer", "Regenerate answer", FORK, *RATINGS]),
        (
            Turn.State.DONE,
            "length",
            "demo",
            ["Continue", "Copy answer", "Regenerate answer", FORK, *RATINGS],
        ),
        (Turn.State.STOPPED, "stopped", "Stopped", ["Try again", "Continue", "Copy answer", FORK]),
        (Turn.State.FAILED, "failed", "Interrupted", ["Try again", "Copy answer", FORK]),
    ],
)
def test_a_finished_answer_says_how_it_ended_and_what_it_took(
    owner: Member, state: str, reason: str, word: str, ways_on: list[str]
) -> None:
    turn = rows.turn(owner, state)
    turn.reason = reason
    status = status_of(turn)
    assert "aria-busy" not in status
    (figures,) = status.with_class("num")
    assert figures.text.startswith(word)
    assert figures.text.endswith("40 tokens")
    assert status.buttons() == ways_on


def test_a_status_is_the_same_whoever_counted_its_tokens(owner: Member) -> None:
    turn = rows.turn(owner, Turn.State.DONE)
    counted = count_figures([turn])[turn.pk]
    assert counted.output_tokens == 40
    assert load_turn_facts(turn) == load_turn_facts(turn, counted)


@pytest.mark.parametrize(
    ("state", "buttons"),
    [
        ("queued", ["Queue", "Stop"]),
        ("running", ["Queue", "Stop"]),
        ("waiting", ["Queue", "Stop", "Send"]),
        ("done", ["Send"]),
    ],
)
def test_the_buttons_fit_what_the_turn_does(owner: Member, state: str, buttons: list[str]) -> None:
    turn = rows.turn(owner, state)
    actions = root_of(fragments.render_composer_actions(turn.conversation, turn))
    assert actions["id"] == page_values.COMPOSER_ID
    assert actions.buttons() == buttons
    assert ("cancels this request" in actions.text) == (state == "waiting")


def test_a_new_chat_can_only_send() -> None:
    assert root_of(fragments.render_composer_actions(None, None)).buttons() == ["Send"]


@pytest.mark.parametrize(
    ("dot", "words"),
    [("", ""), ("running", "answering"), ("waiting", "waiting for your approval")],
)
def test_a_link_says_in_words_what_its_dot_means(turn: Turn, dot: str, words: str) -> None:
    link = root_of(fragments.render_conversation_link(turn.conversation, dot))
    assert link["id"] == page_values.link_id(turn.conversation_id)
    assert link.text == f"Hello {words}".strip()
    assert link.one("a")["href"] == f"/c/{turn.conversation_id}/"


def test_the_open_conversation_is_marked(turn: Turn) -> None:
    here = root_of(fragments.render_conversation_link(turn.conversation, "", is_current=True))
    elsewhere = root_of(fragments.render_conversation_link(turn.conversation, ""))
    assert here.one("a")["aria-current"] == "page"
    assert "aria-current" not in elsewhere.one("a")


def test_a_title_is_words_only(turn: Turn) -> None:
    turn.conversation.title = LURE
    assert parse(fragments.render_title(turn.conversation)).one("h1").children == [LURE]


def test_a_page_of_many_messages_asks_no_question_per_message(
    owner: Member, django_assert_num_queries: Any
) -> None:
    turn = rows.turn(owner, Turn.State.DONE)
    for _ in range(5):
        rows.call(turn, definition=rows.definition())
    view = load_conversation_view(turn.conversation).messages[-1]
    assert len(view.parts) == 5
    with django_assert_num_queries(0):
        fragments.render_message(view)
