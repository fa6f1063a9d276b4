"""The list of ratings in the admin: what admins read there, and that it is no way into a chat."""

from typing import Any

import pytest
from bs4 import BeautifulSoup, Tag
from django.test import Client

from chatapp.models import AnswerFeedback, LogEntry, Member, Turn
from tests.turns import rows

pytestmark = pytest.mark.django_db
LIST = "/admin/chatapp/answerfeedback/"
MARK = "Plum-7f3c"
HOSTILE = "<script>alert(1)</script>"


def add(owner: Member, *, is_good: bool, comment: str, model: str = rows.MODEL) -> AnswerFeedback:
    """Rate an answer of a chat whose every text is the mark."""
    turn = rows.turn(owner, Turn.State.DONE, text=MARK)
    rows.said(turn, MARK)
    return AnswerFeedback.objects.create(
        message=turn.answer, is_good=is_good, comment=comment, model=model
    )


@pytest.fixture
def entry(owner: Member, stranger: Member) -> AnswerFeedback:
    add(stranger, is_good=True, comment="Thanks", model="openai:other")
    return add(owner, is_good=False, comment=f"Wrong river {HOSTILE}")


def opened(client: Client, address: str) -> BeautifulSoup:
    answer: Any = client.get(address)
    assert answer.status_code == 200
    return BeautifulSoup(answer.content, "html.parser")


def words(element: Tag | None) -> str:
    return " ".join(element.get_text(" ").split()) if element else ""


def list_comments(page: BeautifulSoup) -> list[str]:
    return [words(each) for each in page.select("td.field-comment")]


def test_the_list_shows_who_rated_which_model_how_and_why(
    admin_client: Client, entry: AnswerFeedback
) -> None:
    page = opened(admin_client, LIST)
    assert words(page.select_one("#content > h1")) == "Feedback"
    heads = [words(each) for each in page.select("#result_list thead th")]
    assert heads == ["Saved at", "Member", "Model", "Rating", "Comment"]
    newest = page.select_one("#result_list tbody tr")
    cells = [words(each) for each in newest.select("td, th")] if newest else []
    assert cells[1:] == ["owner", rows.MODEL, "Bad answer", f"Wrong river {HOSTILE}"]


def test_the_overview_leads_to_the_list(admin_client: Client) -> None:
    page = opened(admin_client, "/admin/")
    assert words(page.select_one(f".menu a[href='{LIST}']")) == "Feedback"


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("", ["Wrong river " + HOSTILE, "Thanks"]),
        ("is_good__exact=1", ["Thanks"]),
        ("is_good__exact=0", ["Wrong river " + HOSTILE]),
        ("model=openai:other", ["Thanks"]),
        ("q=river", ["Wrong river " + HOSTILE]),
        (f"q={MARK}", []),
    ],
)
def test_entries_are_filtered_and_found_by_their_comments(
    admin_client: Client, entry: AnswerFeedback, query: str, found: list[str]
) -> None:
    page = opened(admin_client, f"{LIST}?{query}")
    assert list_comments(page) == found
    titles = [words(each) for each in page.select("#changelist-filter summary")]
    assert titles == ["By rating", "By model", "By date"]


def test_it_shows_nothing_of_the_chat_and_leads_to_none(
    admin_client: Client, entry: AnswerFeedback
) -> None:
    """Threat: `admin-reads-unnoticed`."""
    for address in (LIST, f"{LIST}{entry.pk}/change/", f"{LIST}{entry.pk}/history/"):
        page = opened(admin_client, address)
        assert MARK not in str(page)
        assert str(entry.message.conversation_id) not in str(page)
        assert str(entry.message_id) not in str(page)
        assert HOSTILE not in str(page)
    assert not LogEntry.objects.filter(kind=LogEntry.Kind.CHAT_OPENED).exists()


def test_entries_can_only_be_read(admin_client: Client, entry: AnswerFeedback) -> None:
    change = f"{LIST}{entry.pk}/change/"
    assert admin_client.post(change, {"comment": "Perfect"}).status_code == 403
    assert admin_client.get(f"{LIST}add/").status_code == 403
    assert admin_client.post(f"{LIST}{entry.pk}/delete/", {"post": "yes"}).status_code == 403
    entry.refresh_from_db()
    assert entry.comment.startswith("Wrong river")


def test_the_list_costs_the_same_queries_however_long(
    admin_client: Client, owner: Member, django_assert_max_num_queries: Any
) -> None:
    for number in range(12):
        add(owner, is_good=True, comment=f"Comment {number}")
    with django_assert_max_num_queries(10):
        assert admin_client.get(LIST).status_code == 200


def test_members_do_not_read_it(owner_client: Client, entry: AnswerFeedback) -> None:
    assert owner_client.get(LIST).status_code == 302
