"""The life of access tokens: created, used and revoked. Creation and revocation are logged."""

import uuid
from collections.abc import Sequence
from datetime import timedelta

from django.db import IntegrityError, transaction
from django.db.models.functions import Now
from django.utils import timezone
from django.utils.translation import gettext as _

from chatapp.audit import audit_log
from chatapp.audit.audit_log import AuditEvent, Who
from chatapp.models import AccessToken, Member
from chatapp.people.refused import Refused

MAX_TOKENS = 50
MAX_DAYS = 366
NOTED_EVERY = timedelta(minutes=1)
Kind = audit_log.Kind


def create(
    person: Member,
    *,
    name: str,
    scopes: Sequence[str],
    days: int,
    form_id: uuid.UUID | None = None,
) -> tuple[AccessToken, str]:
    """Return a new token and its text, which is shown only this once.

    `form_id` becomes its id, so that one form creates one token. Raise Refused.
    """
    if AccessToken.objects.live().filter(person=person).count() >= MAX_TOKENS:
        sentence = _("You already have %(count)s tokens in use. Revoke one first.")
        raise Refused(sentence % {"count": MAX_TOKENS})
    try:
        with transaction.atomic():
            token, text = AccessToken.make(
                id=form_id or uuid.uuid4(),
                person=person,
                name=name,
                scopes=sorted(scopes),
                expires_at=timezone.now() + timedelta(days=days),
            )
            _log(token, Kind.TOKEN_MADE)
    except IntegrityError:
        raise Refused(_("This token already exists. Its text is shown only once.")) from None
    return token, text


def revoke(token: AccessToken) -> bool:
    """Revoke the token for all further requests. Return whether it was still in use."""
    with transaction.atomic():
        mine = AccessToken.objects.filter(pk=token.pk, revoked_at=None)
        if not mine.update(revoked_at=Now()):
            return False
        _log(token, Kind.TOKEN_REVOKED)
        return True


def note_use(token: AccessToken) -> None:
    """Store when the token was last used, to the minute: a write for each request would cost
    more than the request."""
    before = timezone.now() - NOTED_EVERY
    if token.last_used_at is None or token.last_used_at < before:
        same = AccessToken.objects.filter(pk=token.pk, last_used_at=token.last_used_at)
        same.update(last_used_at=timezone.now())


def _log(token: AccessToken, kind: audit_log.Kind) -> None:
    person = Who.of(token.person)
    data = {
        "of": f"access token {token.name}",
        "token": str(token.pk),
        "prefix": token.prefix,
        "scopes": token.scopes,
        "expires_at": token.expires_at.isoformat(),
        "reason": ", ".join(token.scopes),
    }
    audit_log.append([AuditEvent(kind=kind, data=data, actor=audit_log.get_actor(), person=person)])
