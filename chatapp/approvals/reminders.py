"""Mail about what waits: who gets one and when, and the links in it, which open a card and nothing
else. A mail is sent again until a server has taken it, and then never about the same thing."""

import asyncio
import logging
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

from chatapp.links import base_url
from chatapp.models import Approval, MailPreference, Member, Reminder, Turn
from chatapp.rendering.inbox import Found
from chatapp.rendering.reminder_mail import Item, letter_of
from chatapp.storage import in_database, in_time

from .refusals import Refused
from .second_signatures import people_asked
from .waiting import all_waiting_for, with_calls

log = logging.getLogger(__name__)
SEND_SECONDS = 30.0
RETRY_SECONDS = 60.0
# An address that is refused is tried again twice as late each time, for two hours in all.
MOST_REFUSALS = 8
MOST_IN_A_MAIL = 50
KEPT = timedelta(days=7)
_LINK = Signer(salt="chatapp.reminder")


@dataclass(frozen=True, slots=True, kw_only=True)
class Letter:
    """One mail, and the reminders in it."""

    message: EmailMessage
    person_id: int
    reminders: tuple[uuid.UUID, ...]


async def remind_due() -> None:
    """Write to everybody who has waited for long enough; a server that is away is tried later."""
    if not settings.SENDS_MAIL:
        return
    for person_id in await in_database(people_due):
        letter = await in_database(claim, person_id)
        if letter is not None and not await _is_settled(letter):
            return


async def _is_settled(letter: Letter) -> bool:
    """Whether a server took it, or wants nothing to that address; either way it can be asked about
    the next. Sending has a thread of its own: none of the database waits."""
    try:
        async with asyncio.timeout(SEND_SECONDS):
            await asyncio.to_thread(letter.message.send)
    except (SMTPRecipientsRefused, ValueError):  # or it is no address at all
        await in_database(_refused, letter.person_id)
        return True
    except (OSError, TimeoutError) as error:  # smtplib's errors are among them
        log.warning("No mail server took a mail (%s); it is tried again", type(error).__name__)
        await in_database(_put_off, letter.person_id, RETRY_SECONDS)
        return False
    await in_database(_note, letter)
    return True


def people_due() -> list[int]:
    """Those who want mail, have had none for a while, and for whom something may wait."""
    owners = Turn.objects.filter(state__in=Turn.LIVE).values("conversation__owner")
    signed = Approval.objects.filter(state=Approval.State.OPEN, first_at__isnull=False)
    signers = people_asked(signed.values_list("pk", flat=True))
    wanted = MailPreference.objects.filter(
        Q(person__in=owners) | Q(person__in=signers),
        is_on=True,
        next_at__lte=Now(),
        person__is_active=True,
    ).exclude(person__email="")
    return list(wanted.order_by("next_at").values_list("pk", flat=True))


def claim(person_id: int) -> Letter | None:
    """The mail that is due to this person now, for one process only."""
    person = Member.objects.get(pk=person_id)
    due = with_calls(_not_told(person, all_waiting_for(person))[:MOST_IN_A_MAIL])
    mine = MailPreference.objects.filter(pk=person_id, is_on=True, next_at__lte=Now())
    if not due or not mine.update(next_at=in_time(minutes=settings.MAIL_AFTER_MINUTES)):
        return None
    reminders = [_reminder(person, each) for each in due]
    items = [
        Item(waiting=each, link=link_of(reminder))
        for each, reminder in zip(due, reminders, strict=True)
    ]
    subject, body = letter_of(person, items, base_url())
    return Letter(
        message=EmailMessage(subject=subject, body=body, to=[person.email]),
        person_id=person_id,
        reminders=tuple(reminder.pk for reminder in reminders),
    )


def _not_told(person: Member, waiting: Sequence[Found]) -> list[Found]:
    """What has waited for long enough without a mail about it."""
    before = timezone.now() - timedelta(minutes=settings.MAIL_AFTER_MINUTES)
    sent = Reminder.objects.filter(person=person, sent_at__isnull=False)
    told = set(sent.values_list("call_id", "thing"))
    return [
        each
        for each in waiting
        if each.since and each.since <= before and (each.call_id, each.thing) not in told
    ]


def _reminder(person: Member, waiting: Found) -> Reminder:
    expires_at = waiting.expires_at or timezone.now() + KEPT
    return Reminder.objects.get_or_create(
        person=person,
        call_id=waiting.call_id,
        thing=waiting.thing,
        defaults={"expires_at": expires_at},
    )[0]


def _note(letter: Letter) -> None:
    Reminder.objects.filter(pk__in=letter.reminders).update(sent_at=Now())
    MailPreference.objects.filter(pk=letter.person_id).update(refusals=0)


def _put_off(person_id: int, seconds: float) -> None:
    MailPreference.objects.filter(pk=person_id).update(next_at=in_time(seconds=seconds))


def _refused(person_id: int) -> None:
    """Try this address later, or give it up: nothing goes to it until its person says so again."""
    mine = MailPreference.objects.filter(pk=person_id)
    mine.update(refusals=F("refusals") + 1)
    refusals = mine.values_list("refusals", flat=True).get()
    _put_off(person_id, RETRY_SECONDS * 2 ** (refusals - 1))
    if refusals >= MOST_REFUSALS and mine.filter(is_on=True).update(is_on=False):
        log.warning("The mail server refused the address of person %s; it is given up", person_id)


# --- what people say about it ------------------------------------------------------------------
def switch(person: Member, *, is_on: bool) -> None:
    """Tell this person by mail when something waits, or no longer."""
    MailPreference.objects.update_or_create(person=person, defaults={"is_on": is_on, "refusals": 0})


def is_on(person: Member) -> bool:
    return MailPreference.objects.filter(person=person, is_on=True).exists()


def is_given_up(person: Member) -> bool:
    """Whether the mail server refused this person's address so often that it is asked no more."""
    return MailPreference.objects.filter(
        person=person, is_on=False, refusals__gte=MOST_REFUSALS
    ).exists()


# --- links -------------------------------------------------------------------------------------
def link_of(reminder: Reminder) -> str:
    return f"{base_url()}/approvals/from-mail/{_LINK.sign(str(reminder.pk))}/"


def follow_link(person: Member, token: str) -> uuid.UUID:
    """The call that this link of theirs leads to, once. Raises Refused with a sentence."""
    try:
        reminder = Reminder.objects.get(pk=uuid.UUID(_LINK.unsign(token)), person=person)
    except (BadSignature, ValueError, Reminder.DoesNotExist):
        raise Refused("This link is not whole, or it was sent to somebody else.", 404) from None
    unused = Reminder.objects.filter(pk=reminder.pk, opened_at=None)
    if unused.filter(expires_at__gt=Now()).update(opened_at=Now()):
        return reminder.call_id
    if unused.exists():
        raise Refused("This link is too old: what it led to has expired.", 410)
    raise Refused("This link was used before; each opens once.", 410)
