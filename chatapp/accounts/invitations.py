"""The life of invitations: created, accepted and revoked. Each act is logged, without the link."""

import logging
from typing import Any

from django.conf import settings
from django.core.mail import EmailMessage
from django.db import transaction
from django.db.models import QuerySet
from django.db.models.functions import Now
from django.utils.translation import gettext as _

from chatapp.audit import audit_log
from chatapp.audit.audit_log import AuditEvent, Who
from chatapp.models import Invitation, LogEntry, Member
from chatapp.people.refused import Refused
from chatapp.server.address import base_url

logger = logging.getLogger(__name__)


def build_link(token: str) -> str:
    return f"{base_url()}/invitation/{token}/"


def log_created(invitation: Invitation) -> None:
    _log(invitation, "created", Who.of(invitation.invited_by))


def send(invitation: Invitation, link: str) -> bool:
    """Send the link, where this server sends mail. Return whether a mail server took it."""
    if not (settings.SENDS_MAIL and invitation.email):
        return False
    values = {
        "person": invitation.invited_by.display_name,
        "link": link,
        "days": Invitation.LIFETIME.days,
    }
    body = _(
        "%(person)s invites you to Countersign, a chat for your team.\n\nOpen this link to make "
        "your account. It works once, within %(days)s days:\n\n%(link)s\n"
    )
    message = EmailMessage(
        subject=_("Your invitation to Countersign"), body=body % values, to=[invitation.email]
    )
    try:
        message.send()
    except (OSError, ValueError) as error:  # smtplib's errors are among them
        logger.warning("An invitation could not be sent (%s)", type(error).__name__)
        return False
    return True


@transaction.atomic
def accept(invitation: Invitation, member: Member) -> None:
    """Let the new member join its groups, in the transaction that makes them. Raises Refused if
    somebody else was faster, or if the invitation has ended."""
    mine = Invitation.objects.open().filter(pk=invitation.pk)
    if not mine.update(accepted_at=Now(), accepted_by=member):
        raise Refused(_("This invitation is no longer valid. Ask an admin for another one."), 410)
    member.groups.add(*invitation.groups.all())
    _log(invitation, "accepted", Who.of(member), Who.of(member))


@transaction.atomic
def revoke(invitation: Invitation, *, by: Member) -> bool:
    """End the invitation. Return whether it was not ended or accepted before."""
    mine = Invitation.objects.filter(pk=invitation.pk, accepted_at=None, revoked_at=None)
    if not mine.update(revoked_at=Now()):
        return False
    _log(invitation, "revoked", Who.of(by))
    return True


def revoke_all(inviter: Member, *, by: Member) -> None:
    """End the open invitations of a member who may invite nobody any more."""
    for invitation in filter_revocable(inviter):
        revoke(invitation, by=by)


def filter_revocable(inviter: Member) -> QuerySet[Invitation]:
    return Invitation.objects.filter(invited_by=inviter, accepted_at=None, revoked_at=None)


def _log(invitation: Invitation, act: str, actor: Who, person: Any = audit_log.SERVER) -> None:
    data = {
        "of": str(invitation),
        "act": act,
        "groups": sorted(invitation.groups.values_list("name", flat=True)),
        "expires_at": invitation.expires_at.isoformat(),
    }
    event = AuditEvent(kind=LogEntry.Kind.INVITED, data=data, actor=actor, person=person)
    audit_log.append([event])
