"""The filter of lists by member: a field for the user name, and links that name the id."""

from typing import Any
from urllib.parse import quote

import pytest
from bs4 import BeautifulSoup
from django.contrib.auth.models import Permission
from django.contrib.auth.validators import UnicodeUsernameValidator
from django.core.exceptions import ValidationError
from django.test import Client

from chatapp.admin.activity.filters import mark_id
from chatapp.models import LogEntry, Member, Trial, Turn
from tests.conftest import signed_in
from tests.turns import rows

pytestmark = pytest.mark.django_db
LIST = "/admin/chatapp/turn/"


def open_page(client: Client, query: str = "", address: str = LIST) -> BeautifulSoup:
    answer: Any = client.get(f"{address}?{query}")
    assert answer.status_code == 200
    return BeautifulSoup(answer.content, "html.parser")


def count_rows(page: BeautifulSoup) -> int:
    return len(page.select("#result_list tbody tr"))


@pytest.fixture
def turns(owner: Member, stranger: Member) -> list[Turn]:
    return [rows.turn(owner, Turn.State.DONE), rows.turn(stranger, Turn.State.DONE)]


def test_a_member_is_found_by_the_user_name(
    admin_client: Client, owner: Member, turns: list[Turn]
) -> None:
    page = open_page(admin_client, f"person={owner.username}")
    assert count_rows(page) == 1
    (field,) = page.select("#changelist-filter input[name=person]")
    assert field["value"] == owner.username


def test_links_name_the_id_and_the_field_shows_the_name(
    admin_client: Client, owner: Member, turns: list[Turn]
) -> None:
    page = open_page(admin_client, f"person=id:{owner.pk}")
    assert count_rows(page) == 1
    (field,) = page.select("#changelist-filter input[name=person]")
    assert field["value"] == owner.username


def test_a_name_of_digits_is_not_taken_for_an_id(
    admin_client: Client, owner: Member, turns: list[Turn]
) -> None:
    """A member may choose the id of another as a user name."""
    digits = Member.objects.create_user(str(owner.pk), password="a-long-password")
    assert count_rows(open_page(admin_client, f"person={digits.username}")) == 0
    assert count_rows(open_page(admin_client, f"person=id:{owner.pk}")) == 1
    with pytest.raises(ValidationError):
        UnicodeUsernameValidator()(mark_id(owner.pk))


def test_an_id_is_not_found_without_its_mark(
    admin_client: Client, owner: Member, turns: list[Turn]
) -> None:
    assert count_rows(open_page(admin_client, f"person={owner.pk}")) == 0
    page = open_page(admin_client, "person=id:x")
    assert count_rows(page) == 0 and "No member has the user name “id:x”." in page.get_text()


def test_the_links_of_our_pages_lead_to_the_rows_of_the_member(
    admin_client: Client, owner: Member, turns: list[Turn]
) -> None:
    person = open_page(admin_client, address=f"/admin/chatapp/member/{owner.pk}/person/")
    links = [str(each["href"]) for each in person.select("a[href*='person=id']")]
    assert links
    for link in links:
        assert open_page(admin_client, *reversed(link.split("?"))).select(
            f"#changelist-filter input[name=person][value='{owner.username}']"
        )
    log = "/admin/chatapp/logentry/"
    signed_in(owner)
    assert open_page(admin_client, address=log).select(f"a[href='?actor=id:{owner.pk}']")
    assert count_rows(open_page(admin_client, f"actor=id:{owner.pk}", log)) == 1


def test_an_unknown_name_finds_nothing_and_is_said_beside_the_field(
    admin_client: Client, turns: list[Turn]
) -> None:
    page = open_page(admin_client, f"person={quote('<b>nobody')}")
    assert count_rows(page) == 0
    assert "No member has the user name “<b>nobody”." in page.get_text()
    (field,) = page.select("#changelist-filter input[name=person]")
    assert field["aria-invalid"] == "true"


def test_a_nul_in_a_name_is_left_out(
    admin_client: Client, owner: Member, turns: list[Turn]
) -> None:
    """PostgreSQL refuses a text with one."""
    assert count_rows(open_page(admin_client, f"person=%00{owner.username}%00")) == 1


def test_the_form_keeps_the_other_filters(admin_client: Client, turns: list[Turn]) -> None:
    page = open_page(admin_client, "state__exact=done&q=x&p=1")
    kept = {
        (field["name"], field["value"])
        for field in page.select("#changelist-filter form input[type=hidden]")
    }
    assert kept == {("state__exact", "done"), ("q", "x")}


def test_names_are_offered_to_admins_who_may_view_members(
    admin_client: Client, stranger: Member, turns: list[Turn]
) -> None:
    def list_names(client: Client) -> set[str]:
        return {str(each["value"]) for each in open_page(client).select("datalist option")}

    assert "owner" in list_names(admin_client)
    clerk = Member.objects.create_user("clerk", password="a-long-password", is_staff=True)
    clerk.user_permissions.set(Permission.objects.filter(codename="view_turn"))
    assert list_names(signed_in(clerk)) == set()


def test_trials_are_filtered_by_the_admin_who_ran_them(admin_client: Client, owner: Member) -> None:
    for person in (owner, None):
        Trial.objects.create(
            person=person, tool_id="shop_find", tool_name="find", arguments="{}", risk="low"
        )
    trials = "/admin/chatapp/trial/"
    assert count_rows(open_page(admin_client, address=trials)) == 2
    for query in (f"person={owner.username}", f"person=id:{owner.pk}"):
        assert count_rows(open_page(admin_client, query, trials)) == 1
    assert count_rows(open_page(admin_client, "person=admin", trials)) == 0


def test_the_log_is_filtered_by_the_server_and_by_a_name(
    admin_client: Client, owner: Member
) -> None:
    log = "/admin/chatapp/logentry/"
    signed_in(owner)
    assert count_rows(open_page(admin_client, f"actor={owner.username}", log)) == 1
    of_server = LogEntry.objects.filter(actor_id=None).count()
    assert count_rows(open_page(admin_client, "actor=server", log)) == of_server
    assert count_rows(open_page(admin_client, "actor=id:999999", log)) == 0
