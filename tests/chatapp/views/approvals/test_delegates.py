"""Naming a stand-in: for approvers only, for some days, with a plain word where it cannot be."""

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from chatapp.models import LogEntry, Member, StandIn
from chatapp.people.delegates import MAX_DELEGATES
from tests.conftest import signed_in
from tests.dom_tree import Element, parse
from tests.turns.second_signers import member, second_signature, stand_in

PAGE = "/stand-ins/"


@pytest.fixture
def ada(db: Any) -> Member:
    second_signature()
    member("ben")
    return member("ada", "Operations")


@pytest.fixture
def ada_client(ada: Member) -> Client:
    return signed_in(ada)


def day(offset: int) -> str:
    return str(timezone.localdate() + timedelta(days=offset))


def name_delegate(client: Client, username: str = "ben", first: int = 0, last: int = 3) -> Any:
    given = {"username": username, "begins_on": day(first), "ends_on": day(last)}
    return client.post(PAGE, given)


def main_of(answer: Any) -> Element:
    return parse(answer.content.decode()).one("main")


def test_an_approver_names_a_stand_in_and_the_log_says_so(ada_client: Client, ada: Member) -> None:
    assert name_delegate(ada_client)["Location"] == PAGE
    row = StandIn.objects.get()
    assert (row.approver, row.stand_in.username) == (ada, "ben")
    assert main_of(ada_client.get(PAGE)).one("article").one("h2").text == "ben"
    entry = LogEntry.objects.filter(kind=LogEntry.Kind.POLICY, actor_id=ada.pk).get()
    assert "ben for ada" in entry.data


def test_one_is_removed_by_a_click_and_by_nobody_else(
    ada_client: Client, ada: Member, stranger_client: Client
) -> None:
    row = stand_in(ada, member("ben"))
    stranger_client.post(f"{PAGE}{row.pk}/remove")
    signed_in(member("cleo", "Operations")).post(f"{PAGE}{row.pk}/remove")
    assert StandIn.objects.exists()
    form = main_of(ada_client.get(PAGE)).one("article").one("form")
    assert ada_client.post(form["action"])["Location"] == PAGE
    assert not StandIn.objects.exists()
    assert ada_client.post(form["action"]).status_code == 302


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"username": "nobody"}, "There is no active member named “nobody”."),
        ({"username": "gone"}, "There is no active member named “gone”."),
        ({"username": "ada"}, "An approver cannot be their own delegate."),
        ({"first": 3, "last": 1}, "The last day is before the first day."),
        ({"first": -5, "last": -1}, "The last day is in the past."),
        ({"last": 500}, "A delegation can last one year at most."),
    ],
)
def test_what_cannot_be_is_said_and_nothing_typed_is_lost(
    ada_client: Client, given: dict[str, Any], says: str
) -> None:
    Member.objects.create_user("gone", is_active=False)
    answer = name_delegate(ada_client, **given)
    assert answer.status_code == 422
    page = main_of(answer)
    assert says in page.one(role="alert").text
    assert page.one("input", name="username")["value"] == given.get("username", "ben")
    assert page.one("input", name="begins_on")["value"] == day(given.get("first", 0))
    assert not StandIn.objects.exists()


def test_what_is_no_day_is_said_at_its_field(ada_client: Client) -> None:
    given = {"username": "ben", "begins_on": "soon", "ends_on": day(1)}
    answer = ada_client.post(PAGE, given)
    assert answer.status_code == 422
    assert main_of(answer).one(id="id_begins_on_error").text == "Enter a valid date."


def test_there_is_an_end_to_how_many(ada_client: Client, ada: Member) -> None:
    for _ in range(MAX_DELEGATES):
        stand_in(ada, member("ben"))
    answer = name_delegate(ada_client)
    assert str(MAX_DELEGATES) in main_of(answer).one(role="alert").text


@pytest.mark.parametrize("who", ["stranger", "admin", "ben"])
def test_for_everybody_else_there_is_no_such_page_and_no_way_to_it(
    ada: Member, stranger: Member, admin: Member, who: str
) -> None:
    stand_in(ada, member("ben"))
    client = signed_in(Member.objects.get(username=who))
    assert client.get(PAGE).status_code == 404
    assert name_delegate(client, "ada").status_code == 404
    assert PAGE not in client.get("/log/").content.decode()


def test_the_account_menu_leads_approvers_there_and_those_who_sign_later(
    ada_client: Client,
) -> None:
    for client in (ada_client, signed_in(member("mia", "Managers"))):
        menu = parse(client.get("/log/").content.decode()).one(id="account-menu")
        assert menu.one("a", href=PAGE).text


def test_one_whose_days_are_over_is_listed_no_more(ada_client: Client, ada: Member) -> None:
    stand_in(ada, member("ben"), since=-4)
    main = main_of(ada_client.get(PAGE))
    assert len(main.all("form")) == 1, "only the one that adds a delegate"


def test_signed_out_people_are_shown_the_door(client: Client, db: Any) -> None:
    assert client.get(PAGE)["Location"].startswith("/sign-in/")
    assert client.post(f"{PAGE}1/remove")["Location"].startswith("/sign-in/")
