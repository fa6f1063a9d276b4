"""The links in notifications. A link is signed, expires, and only points: it opens a card or a chat
for a signed-in person who may see it, and shows nothing to anybody else."""

import uuid
from datetime import timedelta

from django.core.signing import BadSignature, SignatureExpired, TimestampSigner
from django.http import Http404
from django.urls import reverse
from django.utils.translation import gettext as _

from chatapp.models import Conversation, Member, Notification
from chatapp.people.refused import Refused
from chatapp.people.second_signers import get_call
from chatapp.server.address import base_url

LIFETIME = timedelta(days=7)
_SIGNER = TimestampSigner(salt="chatapp.notification")


def build_link(notification: Notification) -> str:
    return base_url() + reverse("from-notification", args=[_SIGNER.sign(str(notification.pk))])


def follow(person: Member, token: str) -> str:
    """Return the path that this link opens for this person. Raises Refused."""
    try:
        notification_id = uuid.UUID(_SIGNER.unsign(token, max_age=LIFETIME))
        notification = Notification.objects.get(pk=notification_id)
        if notification.call_id is None:
            return find_path(Conversation.of(person, notification.conversation_id).pk, None)
        return find_path(notification.conversation_id, get_call(person, notification.call_id).pk)
    except SignatureExpired:
        raise Refused(_("This link has expired."), 410) from None
    except (BadSignature, ValueError, Notification.DoesNotExist, Http404):
        raise Refused(_("This link is incomplete, or it was sent to someone else."), 404) from None


def find_path(conversation_id: uuid.UUID, call_id: uuid.UUID | None) -> str:
    """Return the path of the card of this call, or of the chat without one."""
    if call_id is None:
        return reverse("conversation", args=[conversation_id])
    return reverse("approval", args=[call_id])
