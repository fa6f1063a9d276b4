"""Requests while the database is away or full: 503 with a sentence, and what was typed is kept."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from bs4 import BeautifulSoup
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import OperationalError, connection
from django.test import Client

from chatapp.models import Member, Message
from chatapp.server.runtime import current_runtime

DEMO = "demo:assistant"
TYPED = 'Tidy up <b>"the shed"</b>\n\nplease'


@pytest.fixture
def browser(owner: Member) -> Client:
    """Signed in, and with Django's own answers to errors."""
    made = Client(raise_request_exception=False, enforce_csrf_checks=True)
    made.force_login(owner)
    return made


@contextmanager
def away(when: Callable[[str], bool] = lambda _sql: True) -> Iterator[None]:
    """The database fails at the statements that `when` names."""

    def fail(execute: Any, sql: str, *rest: Any) -> Any:
        if when(sql):
            raise OperationalError("server closed the connection unexpectedly")
        return execute(sql, *rest)

    with connection.execute_wrapper(fail):
        yield


@contextmanager
def full_disk() -> Iterator[None]:
    """SQLite may not grow by a page and has none left; it answers “database or disk is full”."""
    with connection.cursor() as cursor:
        cursor.execute("VACUUM")
        cursor.execute("PRAGMA page_count")
        pages = cursor.fetchone()[0]
        cursor.execute(f"PRAGMA max_page_count = {pages}")
    try:
        yield
    finally:
        with connection.cursor() as cursor:
            cursor.execute("PRAGMA max_page_count = 1073741823")


def fetch_form(browser: Client) -> dict[str, str]:
    """The fields of the message form, as a browser would send them."""
    page = BeautifulSoup(browser.get("/").content, "html.parser")
    (form,) = page.select("form#composer")
    fields = {each["name"]: each.get("value", "") for each in form.select("input[name]")}
    fields.pop("files", None)
    return {str(name): str(value) for name, value in fields.items()} | {
        "text": TYPED,
        "model": DEMO,
    }


def is_write(sql: str) -> bool:
    return sql.startswith(("INSERT", "UPDATE"))


@pytest.mark.django_db
@pytest.mark.parametrize("when", [lambda _: True, is_write], ids=["away", "refuses to write"])
def test_a_message_comes_back_in_a_form_and_can_be_sent_again(
    browser: Client, when: Callable[[str], bool]
) -> None:
    fields = fetch_form(browser)
    with away(when):
        answer = browser.post("/c/new/messages", fields)
    assert (answer.status_code, answer["Retry-After"]) == (503, "5")
    page = BeautifulSoup(answer.content, "html.parser")
    (form,) = page.select("form")
    (box,) = form.select("textarea[name=text]")
    assert box.get_text().strip() == TYPED
    again = {str(each["name"]): str(each["value"]) for each in form.select("input")}
    assert again["client_id"] == fields["client_id"], "the same message, not another one"
    sent = browser.post(str(form["action"]), again | {"text": TYPED})
    assert sent.status_code == 302
    assert Message.objects.filter(role="user").get().parts.get().text == TYPED


@pytest.mark.django_db
def test_files_that_are_lost_are_named(browser: Client) -> None:
    fields = fetch_form(browser)
    file = SimpleUploadedFile("notes.md", b"Buy milk")
    with away():
        answer = browser.post("/c/new/messages", {**fields, "files": file})
    assert answer.status_code == 503
    assert "Add your files again." in answer.content.decode()


@pytest.mark.django_db
def test_the_script_of_the_page_gets_a_plain_sentence(browser: Client) -> None:
    fields = fetch_form(browser)
    with away():
        answer = browser.post("/c/new/messages", fields, headers={"HX-Request": "true"})
    assert (answer.status_code, answer["Content-Type"]) == (503, "text/plain")
    assert "Try again" in answer.content.decode()


@pytest.mark.django_db
def test_a_page_can_be_loaded_again(browser: Client) -> None:
    with away():
        answer = browser.get("/approvals/?state=open")
    assert answer.status_code == 503
    link = BeautifulSoup(answer.content, "html.parser").select_one("a.btn")
    assert link is not None and link["href"] == "/approvals/?state=open"


@pytest.mark.django_db
def test_a_password_is_not_written_into_the_page(owner: Member) -> None:
    with away():
        answer = Client(raise_request_exception=False).post(
            "/sign-in/", {"username": "ada", "password": "correct horse"}
        )
    assert answer.status_code == 503
    assert b"correct horse" not in answer.content


@pytest.mark.django_db
@pytest.mark.parametrize(("path", "code"), [("/v1/models", "code"), ("/api/tools/", "kind")])
def test_programs_read_it_in_their_format(path: str, code: str) -> None:
    with away():
        answer = Client(raise_request_exception=False).get(
            path, headers={"Authorization": "Bearer cs_something"}
        )
    assert (answer.status_code, answer["Retry-After"]) == (503, "5")
    assert answer.json()["error"][code] == "database_away"


@pytest.mark.django_db
def test_another_error_keeps_its_page(browser: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise ValueError("a bug")

    monkeypatch.setattr("chatapp.views.chat.conversations.build_model_pick", fail)
    assert browser.get("/").status_code == 500


@pytest.mark.django_db(transaction=True)
def test_a_full_disk_loses_no_message(browser: Client) -> None:
    fields = fetch_form(browser) | {"text": "a long text " * 5_000}
    with full_disk():
        answer = browser.post("/c/new/messages", fields)
        assert answer.status_code == 503
        box = BeautifulSoup(answer.content, "html.parser").select_one("textarea[name=text]")
        assert box is not None and box.get_text().strip() == fields["text"].strip()
    assert browser.post("/c/new/messages", fields).status_code == 302


@pytest.mark.django_db
def test_a_database_that_reads_and_does_not_write_is_not_ready(client: Client) -> None:
    current_runtime().written_at = float("-inf")
    with away(is_write):
        answer = client.get("/readyz")
    assert answer.status_code == 503
    assert answer.content == b"The database cannot be written to.\n"
