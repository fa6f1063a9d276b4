"""The language of pages: the choice of the account, else what the browser asks for."""

from typing import Any

import pytest
from django.conf import settings
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from chatapp.models import LogEntry, Member
from tests.conftest import signed_in
from tests.dom_tree import parse
from tests.pseudo_locales import LONG, RTL, is_translated

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("pseudo_locales")]
COOKIE = settings.LANGUAGE_COOKIE_NAME
PASSWORD = "owner-password"


def read_language(client: Client, path: str = "/language/", **headers: str) -> tuple[str, str]:
    """The language and the direction of a page. Its title has to be in that language."""
    answer = client.get(path, headers=headers)
    page = parse(answer.content.decode())
    root = page.one("html")
    has_brackets = "[" in page.one("title").text
    assert has_brackets == (root["lang"] in (LONG, RTL))
    return str(root["lang"]), str(root["dir"])


def choose(client: Client, language: str) -> Any:
    return client.post("/language/", {"language": language})


def test_without_a_choice_pages_are_as_the_browser_asks(owner: Member) -> None:
    client = signed_in(owner)
    assert read_language(client) == ("en", "ltr")
    assert read_language(client, accept_language=f"{LONG},en;q=0.5") == (LONG, "ltr")
    assert read_language(client, accept_language=RTL) == (RTL, "rtl")
    assert read_language(client, accept_language="xx, fr") == ("en", "ltr")


def test_the_choice_of_the_account_counts_more_than_the_browser(owner: Member) -> None:
    client = signed_in(owner)
    assert choose(client, RTL).status_code == 302
    assert client.cookies[COOKIE].value == RTL
    assert read_language(client, accept_language=LONG) == (RTL, "rtl")
    page = parse(client.get("/language/").content.decode())
    chosen = [each["value"] for each in page.all("option") if "selected" in each]
    assert chosen == [RTL]


def test_without_a_choice_again_the_browser_counts(owner: Member) -> None:
    client = signed_in(owner)
    choose(client, RTL)
    choose(client, "")
    assert client.cookies[COOKIE].value == ""
    assert read_language(client, accept_language=LONG) == (LONG, "ltr")


@pytest.mark.parametrize("language", ["xx", "EN", "../de", "x" * 500])
def test_an_unknown_language_is_refused(owner: Member, language: str) -> None:
    client = signed_in(owner)
    assert choose(client, language).status_code == 422
    assert client.post("/language/").status_code == 422
    owner.refresh_from_db()
    assert owner.language == ""


def test_a_stranger_changes_only_their_own_language(owner: Member, stranger: Member) -> None:
    choose(signed_in(stranger), RTL)
    owner.refresh_from_db()
    assert owner.language == ""
    assert choose(Client(), RTL)["Location"].startswith("/sign-in/")


def test_another_browser_has_the_choice_after_its_next_page(owner: Member) -> None:
    other = signed_in(owner)
    choose(signed_in(owner), RTL)
    other.get("/language/")
    assert read_language(other) == (RTL, "rtl")


def test_signing_in_brings_the_choice(owner: Member) -> None:
    Member.objects.filter(pk=owner.pk).update(language=RTL)
    client = Client()
    client.cookies[COOKIE] = LONG  # left by the person who used this browser before
    client.post("/sign-in/", {"username": "owner", "password": PASSWORD})
    assert read_language(client) == (RTL, "rtl")


def test_signing_in_without_a_choice_ends_that_of_the_person_before(owner: Member) -> None:
    client = Client()
    client.cookies[COOKIE] = RTL
    assert read_language(client, "/sign-in/") == (RTL, "rtl")
    client.post("/sign-in/", {"username": "owner", "password": PASSWORD})
    assert read_language(client) == ("en", "ltr")


@pytest.mark.parametrize("path", ["/sign-in/", "/no-such-page", "/admin/login/"])
def test_pages_without_a_person_have_the_language_of_the_browser(path: str) -> None:
    page = parse(
        Client().get(path, headers={"accept-language": LONG}, follow=True).content.decode()
    )
    assert page.one("html")["lang"] == LONG
    assert "[" in page.one("title").text


def test_the_admin_has_the_language_of_the_browser(admin: Member) -> None:
    page = signed_in(admin).get("/admin/", headers={"accept-language": LONG})
    assert parse(page.content.decode()).one("html")["lang"] == LONG


@pytest.mark.parametrize("path", ["/api/tools/", "/v1/models"])
def test_programs_are_answered_in_english(path: str) -> None:
    answer = Client().get(path, headers={"accept-language": LONG})
    assert answer.status_code == 401
    assert not is_translated(answer.content.decode())
    assert answer.content == Client().get(path).content


def test_what_the_browser_asks_for_is_stored_only_when_it_changes(owner: Member) -> None:
    client = signed_in(owner)
    with CaptureQueriesContext(
        connection,
    ) as usual:
        client.get("/language/")
    assert not any("UPDATE" in each["sql"] for each in usual)
    entries = LogEntry.objects.count()
    client.get("/language/", headers={"accept-language": LONG})
    owner.refresh_from_db()
    assert owner.reading_language == LONG
    with CaptureQueriesContext(connection) as again:
        client.get("/language/", headers={"accept-language": LONG})
    assert len(again) == len(usual)
    assert LogEntry.objects.count() == entries


def test_a_part_of_a_page_does_not_change_what_is_stored(owner: Member) -> None:
    headers = {"accept-language": LONG, "hx-request": "true"}
    assert signed_in(owner).get("/sidebar/", headers=headers).status_code == 200
    owner.refresh_from_db()
    assert owner.last_language == "en"


def test_a_language_that_this_server_lost_is_english(owner: Member) -> None:
    owner.language, owner.last_language = "xx", "yy"
    assert owner.reading_language == "en"
    owner.last_language = LONG
    assert owner.reading_language == LONG
    owner.language = RTL
    assert owner.reading_language == RTL
