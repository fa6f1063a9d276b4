"""Mail about what waits: to whom, when, with which words, and what a server that is away costs."""

import asyncio
import re
import socket
import threading
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from chatapp.approvals import reminders
from chatapp.approvals.reminders import build_link, follow_link, remind_due
from chatapp.models import Approval, MailPreference, Member, Reminder, ToolCall, Turn
from chatapp.people.refused import Refused
from chatapp.server.database import in_database
from tests.peers.post_office import PostOffice, free_port, lead_to, post_office
from tests.pseudo_locales import LONG, RTL, is_translated
from tests.turns import rows

from .test_inbox import signed_first

pytestmark = pytest.mark.django_db(transaction=True)
LONG_AGO = timedelta(minutes=6)


@pytest.fixture
def office(settings: Any) -> Iterator[PostOffice]:
    with post_office(settings) as opened:
        yield opened


@pytest.fixture
def owner(owner: Member) -> Member:
    """Somebody who wants mail."""
    Member.objects.filter(pk=owner.pk).update(email="owner@chat.example", first_name="Ada")
    owner.refresh_from_db()
    reminders.switch_mail(owner, is_on=True)
    return owner


@pytest.fixture
def stranger(owner: Member) -> Member:
    made = Member.objects.create_user("stranger", email="stranger@chat.example")
    reminders.switch_mail(made, is_on=True)
    return made


def waits(person: Member, ago: timedelta = LONG_AGO, **values: Any) -> ToolCall:
    """A call that has waited for approval for so long."""
    call = rows.question(rows.turn(person, text="A secret chat"), values or {"title": "A secret"})
    Approval.objects.filter(pk=call.pk).update(created_at=timezone.now() - ago)
    return call


def later() -> None:
    """The minutes between two mails are over."""
    MailPreference.objects.update(next_at=timezone.now())


def links_in(mail: Any) -> list[str]:
    return re.findall(r"https://chat\.example/approvals/from-mail/(\S+)/", mail.get_content())


async def test_who_has_not_answered_for_minutes_is_told_once(
    owner: Member, stranger: Member, office: PostOffice
) -> None:
    await in_database(waits, owner)
    await remind_due()
    (mail,) = office.mails
    assert (mail["To"], mail["From"]) == ("owner@chat.example", "countersign@chat.example")
    assert mail["Subject"] == "1 request is waiting for you in Countersign"
    await in_database(later)
    await remind_due()
    assert len(office.mails) == 1


async def test_the_mail_names_service_tool_and_risk_and_no_value(
    owner: Member, office: PostOffice
) -> None:
    def hostile() -> None:
        wicked = rows.definition(title="Press\r\nBcc: all@chat.example\nhttps://evil.example")
        rows.service(title="Demo notebook")
        call = rows.question(rows.turn(owner, text="A secret chat"), {"title": "A secret"})
        ToolCall.objects.filter(pk=call.pk).update(definition=wicked)
        Approval.objects.update(created_at=timezone.now() - LONG_AGO)

    await in_database(hostile)
    await remind_due()
    (mail,) = office.mails
    text = mail.get_content()
    assert "Hello Ada," in text
    assert "Needs your approval: notebook_delete_note" in text
    assert "Service: Demo notebook" in text
    assert "Risk: high" in text
    assert len(links_in(mail)) == 1
    for word in ["secret", "evil", "Bcc"]:
        assert word not in text
        assert word not in str(mail["Subject"])


async def test_the_mail_is_in_the_language_of_its_person(
    owner: Member, office: PostOffice, pseudo_locales: None
) -> None:
    await in_database(waits, owner)
    await in_database(lambda: Member.objects.update(last_language=RTL, language=LONG))
    await remind_due()
    (mail,) = office.mails
    assert is_translated(str(mail["Subject"]))
    assert is_translated(mail.get_content())


@pytest.mark.parametrize(
    "case", ["not long", "not wanted", "no address", "not active", "answered", "no server"]
)
async def test_nobody_else_is_told(
    owner: Member, office: PostOffice, settings: Any, case: str
) -> None:
    def prepare() -> None:
        call = waits(owner, timedelta(minutes=4) if case == "not long" else LONG_AGO)
        match case:
            case "not wanted":
                reminders.switch_mail(owner, is_on=False)
            case "no address":
                Member.objects.update(email="")
            case "not active":
                Member.objects.update(is_active=False)
            case "answered":
                ToolCall.objects.filter(pk=call.pk).update(state=ToolCall.State.DENIED)

    await in_database(prepare)
    settings.SENDS_MAIL = case != "no server"
    await remind_due()
    assert office.mails == []


async def test_several_things_are_one_mail_and_the_next_comes_minutes_later(
    owner: Member, office: PostOffice
) -> None:
    for _ in range(3):
        await in_database(waits, owner)
    await remind_due()
    assert office.mails[0]["Subject"] == "3 requests are waiting for you in Countersign"
    assert len(set(links_in(office.mails[0]))) == 3
    await in_database(waits, owner)
    await remind_due()
    assert len(office.mails) == 1
    await in_database(later)
    await remind_due()
    assert [len(links_in(mail)) for mail in office.mails] == [3, 1]


async def test_what_is_asked_anew_about_a_call_is_another_thing(
    owner: Member, office: PostOffice
) -> None:
    await in_database(waits, owner)
    await remind_due()

    def ask_anew() -> None:
        Approval.objects.update(created_at=timezone.now() - LONG_AGO)
        later()

    await in_database(ask_anew)
    await remind_due()
    assert len(office.mails) == 2


async def test_who_may_sign_second_is_told_and_who_has_signed_is_not(
    owner: Member, stranger: Member, office: PostOffice
) -> None:
    def signed() -> None:
        call = signed_first(owner, stranger)
        long_ago = timezone.now() - LONG_AGO
        Approval.objects.filter(pk=call.pk).update(created_at=long_ago, first_at=long_ago)

    await in_database(signed)
    await remind_due()
    assert [mail["To"] for mail in office.mails] == ["stranger@chat.example"]
    assert "Needs a second approval: notebook_delete_note" in office.mails[0].get_content()


async def test_two_processes_write_one_mail(owner: Member, office: PostOffice) -> None:
    await in_database(waits, owner)
    await asyncio.gather(*(remind_due() for _ in range(4)))
    assert len(office.mails) == 1


# --- a server that is away ---------------------------------------------------------------------
async def test_a_server_that_is_down_loses_nothing(
    owner: Member, settings: Any, caplog: pytest.LogCaptureFixture
) -> None:
    await in_database(waits, owner)
    lead_to(settings, free_port())
    await remind_due()
    assert "No mail server took a mail" in caplog.text
    assert not await in_database(Reminder.objects.filter(sent_at__isnull=False).exists)
    with post_office(settings) as office:
        await remind_due()
        assert office.mails == []  # not at once
        await in_database(later)
        await remind_due()
        assert len(office.mails) == 1


async def test_a_server_that_refuses_is_asked_once_a_round(
    owner: Member, stranger: Member, office: PostOffice
) -> None:
    for person in (owner, stranger):
        await in_database(waits, person)
    office.answer = "451 Later"
    await remind_due()
    assert office.asked == 1
    office.answer = "250 Taken"
    await remind_due()
    assert [mail["To"] for mail in office.mails] == ["stranger@chat.example"]
    await in_database(later)
    await remind_due()
    assert len(office.mails) == 2


async def test_a_round_ends_in_time(
    owner: Member, office: PostOffice, monkeypatch: pytest.MonkeyPatch
) -> None:
    await in_database(waits, owner)
    with monkeypatch.context() as patch:
        patch.setattr(reminders, "ROUND_SECONDS", 0)
        await remind_due()
    assert office.mails == []
    await remind_due()
    assert len(office.mails) == 1


async def test_an_address_that_is_refused_is_tried_ever_later_and_then_given_up(
    owner: Member, stranger: Member, office: PostOffice, caplog: pytest.LogCaptureFixture
) -> None:
    """Nobody else waits for it, and the log says it once."""
    office.refuses = {"owner@chat.example": "550 No such user"}
    for person in (owner, stranger):
        await in_database(waits, person)
    for _ in range(reminders.MAX_REFUSALS + 2):
        await remind_due()
        await in_database(later)
    assert [mail["To"] for mail in office.mails] == ["stranger@chat.example"]
    assert office.refused == reminders.MAX_REFUSALS
    assert caplog.text.count("refused the address") == 1
    assert await in_database(reminders.is_given_up, owner)
    assert not await in_database(reminders.is_on, owner)
    office.refuses = {}
    await in_database(lambda: reminders.switch_mail(owner, is_on=True))
    await remind_due()
    assert [mail["To"] for mail in office.mails][1:] == ["owner@chat.example"]


async def test_what_is_no_address_holds_nobody_up(
    owner: Member, stranger: Member, office: PostOffice
) -> None:
    await in_database(Member.objects.filter(pk=owner.pk).update, email="ada@")
    for person in (owner, stranger):
        await in_database(waits, person)
    await remind_due()
    assert [mail["To"] for mail in office.mails] == ["stranger@chat.example"]
    assert (await in_database(MailPreference.objects.get, person=owner)).refusals == 1


async def test_each_refusal_doubles_the_wait_and_a_mail_that_is_taken_forgets_them(
    owner: Member, office: PostOffice
) -> None:
    office.refuses = {"owner@chat.example": "550 No such user"}
    await in_database(waits, owner)
    for minutes in (1, 2, 4):
        await remind_due()
        until = (await in_database(MailPreference.objects.get)).next_at - timezone.now()
        assert timedelta(minutes=minutes - 0.5) < until <= timedelta(minutes=minutes)
        await in_database(later)
    office.refuses = {}
    await remind_due()
    assert len(office.mails) == 1
    assert (await in_database(MailPreference.objects.get)).refusals == 0


async def test_one_mail_names_only_so_much_and_the_next_the_rest(
    owner: Member, office: PostOffice, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reminders, "MAX_PER_MAIL", 2)
    for _ in range(3):
        await in_database(waits, owner)
    await remind_due()
    await in_database(later)
    await remind_due()
    assert [len(links_in(mail)) for mail in office.mails] == [2, 1]


async def test_a_server_that_says_nothing_holds_up_no_turn(
    owner: Member, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes the connection and is silent: the wait ends, and the database answers meanwhile."""
    settings.EMAIL_TIMEOUT = 2
    monkeypatch.setattr(reminders, "SEND_SECONDS", 0.5)
    await in_database(waits, owner)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        lead_to(settings, silent.getsockname()[1])
        reminding = asyncio.create_task(remind_due())
        for _ in range(8):
            assert await asyncio.wait_for(in_database(Turn.objects.count), 2) == 1
        await asyncio.wait_for(reminding, 30)
    assert not await in_database(Reminder.objects.filter(sent_at__isnull=False).exists)
    senders = [each for each in threading.enumerate() if each.name.startswith("asyncio")]
    assert senders  # the wait was in a thread of its own


# --- links -------------------------------------------------------------------------------------
def linked(person: Member, **values: Any) -> tuple[ToolCall, str]:
    call = waits(person)
    at = timezone.now() + timedelta(hours=1)
    made = {"thing": "approval", "expires_at": at} | values
    reminder = Reminder.objects.create(person=person, call=call, **made)
    return call, build_link(reminder).rstrip("/").rsplit("/", 1)[1]


def test_a_link_leads_to_its_call_once(owner: Member) -> None:
    call, token = linked(owner)
    assert follow_link(owner, token) == call.pk
    with pytest.raises(Refused, match="already used"):
        follow_link(owner, token)


def test_a_link_is_for_one_person(owner: Member, stranger: Member) -> None:
    call, token = linked(owner)
    with pytest.raises(Refused, match="sent to someone else"):
        follow_link(stranger, token)
    assert follow_link(owner, token) == call.pk


def test_a_link_ends(owner: Member) -> None:
    _call, token = linked(owner, expires_at=timezone.now())
    with pytest.raises(Refused, match="has expired"):
        follow_link(owner, token)


def test_a_link_cannot_be_made_from_an_id(owner: Member) -> None:
    _call, token = linked(owner)
    reminder = str(Reminder.objects.get().pk)
    signature = token.partition(":")[2]
    for forged in [reminder, f"{reminder}:x", f"x:{signature}", token[:-1], f"{token}x", "", ":"]:
        with pytest.raises(Refused, match="incomplete"):
            follow_link(owner, forged)
