"""Delegates: members who may sign in place of an approver for some days."""

from datetime import date

from django.db import transaction
from django.utils.translation import gettext as _

from chatapp.models import Member, StandIn
from chatapp.server.time_zones import get_server_day

from .refused import Refused
from .second_signers import is_approver

MAX_DELEGATES = 20
MAX_DAYS = 366


def list_delegates(approver: Member) -> list[StandIn]:
    """Return the delegates of this approver whose days are not over."""
    rows = StandIn.objects.filter(approver=approver, ends_on__gte=get_server_day())
    return list(rows.select_related("stand_in"))


def add_delegate(approver: Member, *, username: str, begins_on: date, ends_on: date) -> StandIn:
    """Let the member with this name sign in place of the approver on these days. Raises Refused."""
    if not is_approver(approver):
        raise Refused(_("Only approvers can have a delegate."), 403)
    stand_in = Member.objects.filter(username=username.strip(), is_active=True).first()
    if stand_in is None:
        sentence = _("There is no active member named “%(name)s”.")
        raise Refused(sentence % {"name": username.strip()})
    if stand_in == approver:
        raise Refused(StandIn.OWN_DELEGATE)
    if ends_on < begins_on:
        raise Refused(StandIn.ENDS_TOO_EARLY)
    if ends_on < get_server_day():
        raise Refused(_("The last day is in the past."))
    if (ends_on - begins_on).days > MAX_DAYS:
        raise Refused(_("A delegation can last one year at most. Choose an earlier last day."))
    if len(list_delegates(approver)) >= MAX_DELEGATES:
        sentence = _("You have %(count)d delegates, which is the limit. Remove one first.")
        raise Refused(sentence % {"count": MAX_DELEGATES})
    with transaction.atomic():  # together with its entry in the log
        return StandIn.objects.create(
            approver=approver, stand_in=stand_in, begins_on=begins_on, ends_on=ends_on
        )


def remove_delegate(approver: Member, stand_in_id: int) -> None:
    """End the right of this delegate. A call that they signed and that has not run does not run. No
    error if the row is gone."""
    for row in StandIn.objects.filter(approver=approver, pk=stand_in_id):
        row.delete()
