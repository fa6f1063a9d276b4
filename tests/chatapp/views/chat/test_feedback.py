"""Ratings of answers: stored at once, taken back, kept with their version, with a comment that is
never lost."""

import uuid
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from chatapp.conversations import feedback
from chatapp.journal import journal
from chatapp.live.page_changes import CurrentTurns, render_changes
from chatapp.models import AnswerFeedback, Conversation, Member, Message, Turn
from chatapp.models.conversations.answer_feedback import FEEDBACK_CHARACTERS
from tests.dom_tree import Element, parse
from tests.turns import rows

from .test_older_messages import counted

pytestmark = pytest.mark.django_db
HTMX = {"HX-Request": "true"}
GOOD, BAD = "Good answer", "Bad answer"


@pytest.fixture
def turn(owner: Member) -> Turn:
    made = rows.turn(owner, Turn.State.DONE, "Name a river")
    rows.said(made, "The Elbe")
    return made


def address(turn: Turn) -> str:
    return f"/c/{turn.conversation_id}/messages/{turn.answer_id}/feedback"


def rate(client: Client, turn: Turn, rating: str, comment: str = "", **headers: str) -> Any:
    return client.post(address(turn), {"rating": rating, "comment": comment}, headers=headers)


def read(answer: Any) -> Element:
    return parse(answer.content.decode())


def open_page(client: Client, turn: Turn) -> Element:
    answer = client.get(f"/c/{turn.conversation_id}/")
    assert answer.status_code == 200
    return read(answer)


def list_pressed(page: Element) -> list[str]:
    return [each["aria-label"] for each in page.all("button", aria_pressed="true")]


def read_comment(page: Element, turn: Turn) -> str:
    return page.one("textarea", id=f"comment-{turn.answer_id}").text.removeprefix("\n")


def load(turn: Turn) -> AnswerFeedback | None:
    return AnswerFeedback.objects.filter(message=turn.answer).first()


def add_version(turn: Turn) -> Turn:
    """Add another answer to the same message, which is shown instead."""
    answer = Message.objects.create(
        conversation=turn.conversation, parent=turn.question, role="assistant", created_seq=8
    )
    Message.objects.filter(pk=turn.answer_id).update(is_shown=False)
    Conversation.objects.filter(pk=turn.conversation_id).update(last_seq=8, branched_seq=8)
    return Turn.objects.create(
        conversation=turn.conversation,
        question=turn.question,
        answer=answer,
        model="openai:other",
        state=Turn.State.DONE,
        finished_at=timezone.now(),
    )


# --- rating --------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("rating", "label", "state", "question"),
    [
        ("good", GOOD, "Rated as good", "What was good? (optional)"),
        ("bad", BAD, "Rated as bad", "What was wrong? (optional)"),
    ],
)
def test_one_press_rates_an_answer_and_asks_for_a_comment(
    owner_client: Client, turn: Turn, rating: str, label: str, state: str, question: str
) -> None:
    assert list_pressed(open_page(owner_client, turn)) == []
    answer = rate(owner_client, turn, rating, **HTMX)
    assert answer.status_code == 200
    stored = load(turn)
    assert stored is not None
    assert (stored.is_good, stored.comment, stored.model) == (rating == "good", "", rows.MODEL)
    for part in (read(answer), open_page(owner_client, turn)):
        assert list_pressed(part) == [label]
        form = part.one("details", id=f"rating-{turn.answer_id}-comment")
        assert form.one("summary").text.startswith(state)
        assert form.one("label").text == question
        assert "Admins can read your comment." in form.text
    assert "open" in read(answer).one("details")


def test_without_a_script_a_press_leads_back_to_the_open_form(
    owner_client: Client, turn: Turn
) -> None:
    chat = f"/c/{turn.conversation_id}/"
    rated = rate(owner_client, turn, "good")
    assert (rated.status_code, rated["Location"]) == (302, f"{chat}#comment-{turn.answer_id}")
    saved = rate(owner_client, turn, "good", "Short")
    assert saved["Location"] == f"{chat}#status-{turn.answer_id}"
    assert read_comment(open_page(owner_client, turn), turn) == "Short"


def test_a_second_press_takes_the_rating_and_its_comment_back(
    owner_client: Client, turn: Turn
) -> None:
    page = read(rate(owner_client, turn, "bad", "Wrong river", **HTMX))
    pressed = page.one("button", aria_pressed="true")
    page = read(rate(owner_client, turn, pressed["value"], "Wrong river", **HTMX))
    assert load(turn) is None
    assert list_pressed(page) == [] and page.all("textarea") == []
    assert rate(owner_client, turn, "none", **HTMX).status_code == 200


def test_the_other_rating_replaces_the_first_and_keeps_the_comment(
    owner_client: Client, turn: Turn
) -> None:
    rate(owner_client, turn, "good", "A river\r\nindeed")
    page = read(rate(owner_client, turn, "bad", "A river\r\nindeed", **HTMX))
    (stored,) = AnswerFeedback.objects.all()
    assert (stored.is_good, stored.comment) == (False, "A river\nindeed")
    assert list_pressed(page) == [BAD]


def test_a_page_without_the_field_keeps_the_comment(owner_client: Client, turn: Turn) -> None:
    rate(owner_client, turn, "good", "Clear and short")
    owner_client.post(address(turn), {"rating": "bad"})
    row = AnswerFeedback.objects.get()
    assert (row.is_good, row.comment) == (False, "Clear and short")


def test_a_saved_comment_is_announced(owner_client: Client, turn: Turn) -> None:
    assert "Saved" not in read(rate(owner_client, turn, "good", **HTMX)).text
    assert "Comment saved." in read(rate(owner_client, turn, "good", "Short", **HTMX)).text


def test_other_pages_of_the_chat_get_the_rating(owner: Member, turn: Turn) -> None:
    feedback.rate(
        feedback.find_rateable(owner, turn.conversation_id, turn.answer_id),
        is_good=True,
        comment="Short",
    )
    (event,) = journal.read_events_after(turn.conversation_id, 7)
    ((op, place, html),) = render_changes(event, CurrentTurns())
    assert (op, place) == ("o", f"rating-{turn.answer_id}")
    assert list_pressed(parse(html)) == [GOOD]
    assert Message.objects.get(pk=turn.answer_id).touched_seq == event.seq


# --- refusals ------------------------------------------------------------------------------
@pytest.mark.parametrize("in_place", [True, False])
def test_a_comment_that_is_too_long_is_not_lost_and_replaces_nothing(
    owner_client: Client, turn: Turn, in_place: bool
) -> None:
    rate(owner_client, turn, "good", "Short")
    typed = "a" * (FEEDBACK_CHARACTERS + 7)
    refused = rate(owner_client, turn, "bad", typed, **(HTMX if in_place else {}))
    page = read(refused)
    assert refused.status_code == 422
    assert read_comment(page, turn) == typed
    assert page.one(role="alert").text == "This comment has 507 characters. The limit is 500."
    assert list_pressed(page) == [GOOD]
    assert page.one("button", id=f"rating-{turn.answer_id}-save")["value"] == "bad"
    stored = load(turn)
    assert stored is not None and (stored.is_good, stored.comment) == (True, "Short")


def test_a_comment_may_have_as_many_characters_as_the_limit(
    owner_client: Client, turn: Turn
) -> None:
    assert rate(owner_client, turn, "good", "ü" * FEEDBACK_CHARACTERS).status_code == 302


@pytest.mark.parametrize("rating", ["", "excellent"])
def test_an_unknown_rating_is_refused(owner_client: Client, turn: Turn, rating: str) -> None:
    refused = rate(owner_client, turn, rating, "Keep this", **HTMX)
    assert (refused.status_code, load(turn)) == (422, None)
    assert read_comment(read(refused), turn) == "Keep this"


# --- who and what ---------------------------------------------------------------------------
def test_only_the_owner_of_the_chat_rates_its_answers(
    stranger_client: Client, admin_client: Client, client: Client, turn: Turn
) -> None:
    assert rate(stranger_client, turn, "good").status_code == 404
    assert rate(admin_client, turn, "good").status_code == 404
    assert "/sign-in/" in rate(client, turn, "good")["Location"]
    assert load(turn) is None


def test_an_answer_is_rated_only_by_the_address_of_its_chat(
    owner_client: Client, owner: Member, turn: Turn
) -> None:
    other = rows.turn(owner, Turn.State.DONE)
    for chat, message in (
        (other.conversation_id, turn.answer_id),
        (turn.conversation_id, turn.question_id),
        (turn.conversation_id, uuid.uuid4()),
    ):
        where = f"/c/{chat}/messages/{message}/feedback"
        assert owner_client.post(where, {"rating": "good"}).status_code == 404
    assert AnswerFeedback.objects.count() == 0


@pytest.mark.parametrize(
    "state",
    [
        Turn.State.QUEUED,
        Turn.State.RUNNING,
        Turn.State.WAITING,
        Turn.State.STOPPED,
        Turn.State.FAILED,
    ],
)
def test_an_answer_that_is_not_finished_has_no_rating(
    owner_client: Client, owner: Member, state: str
) -> None:
    turn = rows.turn(owner, state)
    assert open_page(owner_client, turn).all("button", aria_label=GOOD) == []
    assert rate(owner_client, turn, "good").status_code == 404


def test_an_answer_that_was_refused_has_no_rating(owner_client: Client, owner: Member) -> None:
    """Another attempt would replace it."""
    turn = rows.turn(owner, Turn.State.DONE, reason="refused")
    assert open_page(owner_client, turn).all("button", aria_label=GOOD) == []
    assert rate(owner_client, turn, "good").status_code == 404


def test_a_call_without_a_model_has_no_rating(
    owner_client: Client, owner: Member, turn: Turn
) -> None:
    made = rows.turn(owner, Turn.State.DONE, app_of=rows.call(turn))
    assert open_page(owner_client, made).all("button", aria_label=GOOD) == []
    assert rate(owner_client, made, "good").status_code == 404


def test_a_deleted_chat_takes_no_rating_and_removes_its_ratings_with_its_rows(
    owner_client: Client, turn: Turn
) -> None:
    rate(owner_client, turn, "good")
    Conversation.objects.filter(pk=turn.conversation_id).update(deleted_at=timezone.now())
    assert rate(owner_client, turn, "bad").status_code == 404
    Conversation.objects.all().delete()
    assert AnswerFeedback.objects.count() == 0


# --- versions -------------------------------------------------------------------------------
def test_a_rating_belongs_to_its_version_and_shows_again_with_it(
    owner_client: Client, turn: Turn
) -> None:
    rate(owner_client, turn, "good", "The first")
    other = add_version(turn)
    assert list_pressed(open_page(owner_client, turn)) == []
    rate(owner_client, other, "bad")
    assert list_pressed(open_page(owner_client, turn)) == [BAD]
    stored = load(other)
    assert stored is not None and stored.model == "openai:other"
    switched = owner_client.post(
        f"/c/{turn.conversation_id}/version", {"message": str(turn.answer_id)}
    )
    assert switched.status_code == 302
    page = open_page(owner_client, turn)
    assert list_pressed(page) == [GOOD]
    assert read_comment(page, turn) == "The first"


def test_a_version_that_is_not_shown_is_rated_on_its_page(owner_client: Client, turn: Turn) -> None:
    add_version(turn)
    place = f"/c/{turn.conversation_id}/?version={turn.answer_id}"
    assert rate(owner_client, turn, "good")["Location"] == f"{place}#comment-{turn.answer_id}"
    assert list_pressed(read(owner_client.get(place))) == [GOOD]


# --- statements -----------------------------------------------------------------------------
def test_ratings_add_no_statement_to_a_page(owner_client: Client, owner: Member) -> None:
    turns = rows.turns_of_chat(owner, 10)
    found = []
    for rated in ([], turns):
        for each in rated:
            AnswerFeedback.objects.create(message=each.answer, is_good=True, model=each.model)
        open_page(owner_client, turns[0])
        with counted() as statements:
            page = open_page(owner_client, turns[0])
        assert len(list_pressed(page)) == len(rated)
        found.append(len(statements))
    assert found[0] == found[1]
