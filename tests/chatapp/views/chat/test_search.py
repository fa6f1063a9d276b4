"""The page of search: results with the words marked, and a link to each message."""

from typing import Any

import pytest
from django.test import Client

from chatapp.models import Member, Turn
from chatapp.rendering.highlights import mark_words
from tests.dom_tree import Element, parse
from tests.turns import rows

pytestmark = pytest.mark.django_db(transaction=True)


def read(client: Client, status: int = 200, **fields: Any) -> Element:
    answer = client.get("/search/", fields)
    assert answer.status_code == status
    return parse(answer.content.decode())


def test_results_have_the_words_marked_and_lead_to_the_message(
    owner_client: Client, owner: Member
) -> None:
    turn = rows.turn(owner, Turn.State.DONE, "Checkout")
    rows.said(turn, "The <b>pool</b> size.")
    page = read(owner_client, q="pool")
    (line,) = page.one("ul", class_="results-of-search").all("li")
    assert line.one("mark").text == "pool"
    assert "The <b>pool</b> size." in line.text
    wanted = line.one("a", href=f"/messages/{turn.answer_id}/")["href"]
    assert owner_client.get(wanted)["Location"] == (
        f"/c/{turn.conversation_id}/#message-{turn.answer_id}"
    )
    assert page.one("main").one("input", name="q")["value"] == "pool"


def test_a_message_in_an_older_part_is_opened_there(owner_client: Client, owner: Member) -> None:
    turns = rows.turns_of_chat(owner, 40)
    location = owner_client.get(f"/messages/{turns[0].question_id}/")["Location"]
    assert "?before=" in location
    page = parse(owner_client.get(location).content.decode())
    assert page.one(id=location.partition("#")[2])


def test_nothing_found_says_what_to_try(owner_client: Client) -> None:
    assert "Try fewer words" in read(owner_client, q="elephant").one("main").text
    assert "Enter words" in read(owner_client, q="…").one("main").text
    assert "No chats yet" in read(owner_client).one("main").text


def test_a_refused_search_stays_in_its_box(owner_client: Client) -> None:
    page = read(owner_client, 422, q="x" * 201)
    assert page.one("main").one("input", name="q")["value"] == "x" * 201
    assert page.one("p", id="search-problem").text
    read(owner_client, 422, q="x", age="soon")


def test_the_chosen_filters_stay_chosen(owner_client: Client) -> None:
    page = read(owner_client, q="x", age="30", side="user", archived="no")
    chosen = [each["value"] for each in page.all("option") if "selected" in each]
    assert chosen == ["30", "user", "no"]


@pytest.mark.parametrize(
    ("text", "words", "marked"),
    [
        ("A pool, pools; carpool", ["pool"], "A <mark>pool</mark>, <mark>pools</mark>; carpool"),
        ("pool_size", ["size"], "pool_<mark>size</mark>"),
        ("<b>Pool</b>", ["pool"], "&lt;b&gt;<mark>Pool</mark>&lt;/b&gt;"),
        ("nothing", [], "nothing"),
    ],
)
def test_words_are_marked_by_their_beginnings(text: str, words: list[str], marked: str) -> None:
    assert mark_words(text, words) == marked
