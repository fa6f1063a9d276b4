"""Stand-ins: an approver says who may sign in their place, from one day to another."""

from datetime import date

from django.db import transaction
from django.utils import timezone

from chatapp.models import Member, StandIn

from .refusals import Refused
from .second_signatures import is_approver

MOST = 20
LONGEST_DAYS = 366


def named_by(approver: Member) -> list[StandIn]:
    """Those whose days are not over."""
    rows = StandIn.objects.filter(approver=approver, ends_on__gte=timezone.localdate())
    return list(rows.select_related("stand_in"))


def name(approver: Member, *, username: str, begins_on: date, ends_on: date) -> StandIn:
    """Let this member sign wherever the approver may, on these days. Raises Refused."""
    if not is_approver(approver):
        raise Refused("Only somebody who signs second can name a stand-in.", 403)
    stand_in = Member.objects.filter(username=username.strip(), is_active=True).first()
    if stand_in is None:
        raise Refused(f"There is no active member named “{username.strip()}”.")
    if stand_in == approver:
        raise Refused("Nobody stands in for themselves. Name somebody else.")
    if ends_on < begins_on:
        raise Refused("The last day is before the first one.")
    if ends_on < timezone.localdate():
        raise Refused("These days are over.")
    if (ends_on - begins_on).days > LONGEST_DAYS:
        raise Refused("That is longer than a year. Name an end within a year.")
    if len(named_by(approver)) >= MOST:
        raise Refused(f"You have named {MOST} already. Remove one first.")
    with transaction.atomic():  # with its entry in the log
        return StandIn.objects.create(
            approver=approver, stand_in=stand_in, begins_on=begins_on, ends_on=ends_on
        )


def dismiss(approver: Member, stand_in_id: int) -> None:
    """From now on they sign no more; what they signed and has not run yet does not run. One that is
    gone already is no mistake."""
    for row in StandIn.objects.filter(approver=approver, pk=stand_in_id):
        row.delete()
