"""Mail about what waits, in the browser: switching it on, and what a link in it leads to."""

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from chatapp.approvals import reminders
from chatapp.models import MailPreference, Member, Reminder, ToolCall
from chatapp.rendering import page_values
from chatapp.rendering.pages.inbox import build_inbox_address
from tests.dom_tree import Element, parse
from tests.turns import rows


@pytest.fixture(autouse=True)
def _server(settings: Any) -> None:
    settings.SENDS_MAIL = True


@pytest.fixture
def owner(owner: Member) -> Member:
    Member.objects.filter(pk=owner.pk).update(email="owner@chat.example")
    owner.refresh_from_db()
    return owner


@pytest.fixture
def call(owner: Member) -> ToolCall:
    return rows.question(rows.turn(owner))


@pytest.fixture
def link(owner: Member, call: ToolCall) -> str:
    at = timezone.now() + timedelta(hours=1)
    made = Reminder.objects.create(person=owner, call=call, thing="approval", expires_at=at)
    return "/approvals/from-mail/" + reminders.build_link(made).rstrip("/").rsplit("/", 1)[1] + "/"


def inbox(client: Client) -> Element:
    return parse(client.get("/approvals/").content.decode()).one("main")


def test_mail_is_off_until_somebody_wants_it_and_can_be_stopped(
    owner_client: Client, owner: Member, stranger: Member
) -> None:
    assert not reminders.is_on(owner)
    main = inbox(owner_client)
    form = main.one("form", action="/approvals/mail")
    assert "You can get an email at owner@chat.example" in form.text
    assert form.choices() == ["mail=on"]
    answer = owner_client.post("/approvals/mail", {"mail": "on"})
    assert (answer.status_code, answer["Location"]) == (302, "/approvals/")
    assert (reminders.is_on(owner), reminders.is_on(stranger)) == (True, False)
    assert inbox(owner_client).one("form", action="/approvals/mail").choices() == ["mail=off"]
    owner_client.post("/approvals/mail", {"mail": "off"})
    assert not reminders.is_on(owner)


def test_without_a_server_or_an_address_there_is_nothing_to_switch(
    owner_client: Client, owner: Member, settings: Any
) -> None:
    Member.objects.update(email="")
    form = inbox(owner_client).one("form", action="/approvals/mail")
    assert form.text and form.buttons() == []
    settings.SENDS_MAIL = False
    assert inbox(owner_client).all("form", action="/approvals/mail") == []


def test_a_link_opens_the_card_and_decides_nothing(
    owner_client: Client, call: ToolCall, link: str
) -> None:
    answer = owner_client.get(link)
    assert (answer.status_code, answer["Location"]) == (302, f"/approvals/{call.pk}/")
    call.refresh_from_db()
    assert call.state == ToolCall.State.AWAITING_APPROVAL


def test_a_link_signs_nobody_in_and_waits_until_its_person_has(
    client: Client, owner: Member, call: ToolCall, link: str
) -> None:
    answer = client.get(link)
    assert answer["Location"].startswith("/sign-in/?next=/approvals/from-mail/")
    assert "_auth_user_id" not in client.session
    assert Reminder.objects.filter(opened_at=None).exists()
    client.force_login(owner)
    assert client.get(link)["Location"] == f"/approvals/{call.pk}/"


@pytest.mark.parametrize("method", ["head", "post", "put", "delete"])
def test_what_a_program_does_with_a_link_does_not_use_it_up(
    owner_client: Client, link: str, method: str
) -> None:
    assert getattr(owner_client, method)(link).status_code == 405
    assert Reminder.objects.filter(opened_at=None).exists()


def test_a_stranger_with_the_link_sees_a_sentence_and_their_own_inbox(
    stranger_client: Client, owner_client: Client, call: ToolCall, link: str
) -> None:
    answer = stranger_client.get(link)
    main = parse(answer.content.decode()).one("main")
    assert answer.status_code == 404
    assert main.one(role="alert").text
    assert str(call.pk) not in answer.content.decode()
    assert owner_client.get(link).status_code == 302


def test_a_used_an_old_and_a_changed_link_lead_to_the_inbox(
    owner_client: Client, call: ToolCall, link: str
) -> None:
    owner_client.get(link)
    used = owner_client.get(link)
    Reminder.objects.update(opened_at=None, expires_at=timezone.now())
    old = owner_client.get(link)
    changed = owner_client.get(link[:-3] + "xx/")
    assert [each.status_code for each in (used, old, changed)] == [410, 410, 404]
    address = build_inbox_address(call.pk)
    for answer, word in [(used, "already used"), (old, "has expired"), (changed, "incomplete")]:
        main = parse(answer.content.decode()).one("main")
        assert word in main.one(role="alert").text
        assert main.one("a", id=page_values.waiting_id(call.pk))["href"] == address


def test_an_address_that_was_given_up_is_said_to_be_and_can_be_tried_again(
    owner_client: Client, owner: Member
) -> None:
    refusals = reminders.MAX_REFUSALS
    MailPreference.objects.create(person=owner, is_on=False, refusals=refusals)
    form = inbox(owner_client).one("form", action="/approvals/mail")
    assert "keeps refusing owner@chat.example" in form.text
    assert form.choices() == ["mail=on"]
    owner_client.post("/approvals/mail", {"mail": "on"})
    assert (reminders.is_on(owner), reminders.is_given_up(owner)) == (True, False)
