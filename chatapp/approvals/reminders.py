"""Mail about what waits: who gets it, when, and the links in it, which only open a card. A mail is
sent again until a mail server accepts it, and then never again about the same thing."""

import asyncio
import logging
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from smtplib import SMTPRecipientsRefused

from django.conf import settings
from django.core.mail import EmailMessage
from django.core.signing import BadSignature, Signer
from django.db.models import F, Q
from django.db.models.functions import Now
from django.utils import timezone
from django.utils.translation import gettext as _

from chatapp.models import Approval, MailPreference, Member, Reminder, Turn
from chatapp.people.refused import Refused
from chatapp.people.second_signers import find_people_asked
from chatapp.rendering.pages.inbox import Item, WaitingItem, render_mail
from chatapp.server.address import base_url
from chatapp.server.database import from_now, in_database
from chatapp.server.languages import speaking
from chatapp.server.time_zones import reading_in

from .inbox import add_calls, list_all_waiting

log = logging.getLogger(__name__)
SEND_SECONDS = 30.0
# After this time no mail is begun, so that the task ends before TASKS_MAX_SECONDS. The next task
# continues.
ROUND_SECONDS = 60.0
RETRY_SECONDS = 60.0
# After each refusal of an address the time to the next attempt doubles, up to two hours in all.
MAX_REFUSALS = 8
MAX_PER_MAIL = 50
KEPT = timedelta(days=7)
_LINK = Signer(salt="chatapp.reminder")


@dataclass(frozen=True, slots=True, kw_only=True)
class Letter:
    """One mail, and the reminders in it."""

    message: EmailMessage
    person_id: int
    reminders: tuple[uuid.UUID, ...]


async def remind_due() -> None:
    """Send the mail that is due. While the mail server is away, it is sent later."""
    if not settings.SENDS_MAIL:
        return
    end = time.monotonic() + ROUND_SECONDS
    for person_id in await in_database(find_people_due):
        if time.monotonic() >= end:
            return
        letter = await in_database(claim_letter, person_id)
        if letter is not None and not await _send_letter(letter):
            return


async def _send_letter(letter: Letter) -> bool:
    """Send one mail. Return False if the mail server is away, so that no other is sent now.

    Sending uses a thread of its own, so that no thread of the database waits.
    """
    try:
        async with asyncio.timeout(SEND_SECONDS):
            await asyncio.to_thread(letter.message.send)
    except (SMTPRecipientsRefused, ValueError):  # ValueError: it is not an address
        await in_database(_count_refusal, letter.person_id)
        return True
    except (OSError, TimeoutError) as error:  # smtplib's errors are among them
        log.warning("No mail server took a mail (%s); it is tried again", type(error).__name__)
        await in_database(_postpone, letter.person_id, RETRY_SECONDS)
        return False
    await in_database(_mark_sent, letter)
    return True


def find_people_due() -> list[int]:
    """Return the people who want mail, had none lately, and for whom something may wait."""
    owners = Turn.objects.filter(state__in=Turn.LIVE).values("conversation__owner")
    signed = Approval.objects.filter(state=Approval.State.OPEN, first_at__isnull=False)
    signers = find_people_asked(signed.values_list("pk", flat=True))
    wanted = MailPreference.objects.filter(
        Q(person__in=owners) | Q(person__in=signers),
        is_on=True,
        next_at__lte=Now(),
        person__is_active=True,
    ).exclude(person__email="")
    return list(wanted.order_by("next_at").values_list("pk", flat=True))


def claim_letter(person_id: int) -> Letter | None:
    """Return the mail that is due to this person, for one process only."""
    person = Member.objects.get(pk=person_id)
    due = add_calls(_filter_new(person, list_all_waiting(person))[:MAX_PER_MAIL])
    mine = MailPreference.objects.filter(pk=person_id, is_on=True, next_at__lte=Now())
    if not due or not mine.update(next_at=from_now(minutes=settings.MAIL_AFTER_MINUTES)):
        return None
    reminders = [_get_reminder(person, each) for each in due]
    items = [
        Item(waiting=each, link=build_link(reminder))
        for each, reminder in zip(due, reminders, strict=True)
    ]
    with speaking(person.reading_language), reading_in(person.time_zone):
        subject, body = render_mail(person, items, base_url())
    return Letter(
        message=EmailMessage(subject=subject, body=body, to=[person.email]),
        person_id=person_id,
        reminders=tuple(reminder.pk for reminder in reminders),
    )


def _filter_new(person: Member, waiting: Sequence[WaitingItem]) -> list[WaitingItem]:
    """Return what has waited for long enough without a mail about it."""
    before = timezone.now() - timedelta(minutes=settings.MAIL_AFTER_MINUTES)
    sent = Reminder.objects.filter(person=person, sent_at__isnull=False)
    told = set(sent.values_list("call_id", "thing"))
    return [
        each
        for each in waiting
        if each.since and each.since <= before and (each.call_id, each.thing) not in told
    ]


def _get_reminder(person: Member, waiting: WaitingItem) -> Reminder:
    expires_at = waiting.expires_at or timezone.now() + KEPT
    return Reminder.objects.get_or_create(
        person=person,
        call_id=waiting.call_id,
        thing=waiting.thing,
        defaults={"expires_at": expires_at},
    )[0]


def _mark_sent(letter: Letter) -> None:
    Reminder.objects.filter(pk__in=letter.reminders).update(sent_at=Now())
    MailPreference.objects.filter(pk=letter.person_id).update(refusals=0)


def _postpone(person_id: int, seconds: float) -> None:
    MailPreference.objects.filter(pk=person_id).update(next_at=from_now(seconds=seconds))


def _count_refusal(person_id: int) -> None:
    """Try this address later. After too many refusals, mail is switched off for its person."""
    mine = MailPreference.objects.filter(pk=person_id)
    mine.update(refusals=F("refusals") + 1)
    refusals = mine.values_list("refusals", flat=True).get()
    _postpone(person_id, RETRY_SECONDS * 2 ** (refusals - 1))
    if refusals >= MAX_REFUSALS and mine.filter(is_on=True).update(is_on=False):
        log.warning("The mail server refused the address of person %s; it is given up", person_id)


# --- preferences -------------------------------------------------------------------------------
def switch_mail(person: Member, *, is_on: bool) -> None:
    """Switch mail about what waits on or off for this person."""
    MailPreference.objects.update_or_create(person=person, defaults={"is_on": is_on, "refusals": 0})


def is_on(person: Member) -> bool:
    return MailPreference.objects.filter(person=person, is_on=True).exists()


def is_given_up(person: Member) -> bool:
    """Whether mail was switched off because the mail server refused this person's address."""
    return MailPreference.objects.filter(
        person=person, is_on=False, refusals__gte=MAX_REFUSALS
    ).exists()


# --- links -------------------------------------------------------------------------------------
def build_link(reminder: Reminder) -> str:
    return f"{base_url()}/approvals/from-mail/{_LINK.sign(str(reminder.pk))}/"


def follow_link(person: Member, token: str) -> uuid.UUID:
    """Return the call that this person's link leads to, once. Raises Refused."""
    try:
        reminder = Reminder.objects.get(pk=uuid.UUID(_LINK.unsign(token)), person=person)
    except (BadSignature, ValueError, Reminder.DoesNotExist):
        raise Refused(_("This link is incomplete, or it was sent to someone else."), 404) from None
    unused = Reminder.objects.filter(pk=reminder.pk, opened_at=None)
    if unused.filter(expires_at__gt=Now()).update(opened_at=Now()):
        return reminder.call_id
    if unused.exists():
        raise Refused(_("This link has expired."), 410)
    raise Refused(_("This link was already used. Each link works once."), 410)
