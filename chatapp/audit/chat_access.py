"""Admins who read chats of other people: with a reason, in the log, and for a limited time.

The entry in the log is the right to read, so nobody reads without one. The owner of the chat sees
it in their activity log.
"""

from collections.abc import Iterator
from datetime import timedelta
from functools import reduce
from operator import or_
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.db.models.functions import Now
from django.http import Http404

from chatapp.models import Conversation, LogEntry, Member

from .audit_log import AuditEvent, Kind, Who, append

READING_TIME = timedelta(hours=1)


def may_read(admin: Member, conversation_id: UUID) -> bool:
    """Whether it is the admin's own chat, or they have the right to read those of others and gave
    a reason within `READING_TIME`."""
    return any(rows.exists() for rows in _list_permitting_rows(admin, conversation_id))


def build_condition(admin: Member, conversation_id: OuterRef) -> Q:
    """Return `may_read` as a condition on the rows of a queryset."""
    return reduce(or_, (Q(Exists(rows)) for rows in _list_permitting_rows(admin, conversation_id)))


def _list_permitting_rows(
    admin: Member, conversation_id: UUID | OuterRef
) -> Iterator[QuerySet[Any]]:
    """Yield querysets. The admin may read the chat if one of them finds a row."""
    yield Conversation.objects.filter(pk=conversation_id, owner=admin)
    if admin.has_perm("chatapp.view_conversation"):
        yield LogEntry.objects.filter(
            kind=Kind.CHAT_OPENED,
            actor_id=admin.pk,
            conversation_id=conversation_id,
            at__gt=Now() - READING_TIME,
        )


def find_owner(conversation_id: UUID) -> Who:
    """Return the owner, of a deleted chat as the log names them. Raises 404 if there is none."""
    found = Conversation.objects.filter(pk=conversation_id).select_related("owner").first()
    if found is not None:
        return Who.of(found.owner)
    entries = LogEntry.objects.filter(conversation_id=conversation_id, person_id__isnull=False)
    first = entries.first()
    if first is None:
        raise Http404("No such chat.")
    return Who(id=first.person_id, name=first.person_name)


def open_chat(admin: Member, conversation_id: UUID, reason: str) -> None:
    """Let this admin read the chat for `READING_TIME`, and record it with the reason. The chat
    shows its owner that it was opened."""
    with transaction.atomic():
        _record(admin, conversation_id, reason)
        chat = Conversation.objects.filter(pk=conversation_id).exclude(owner=admin)
        chat.update(opened_by_admin_at=Now())


def _record(admin: Member, conversation_id: UUID, reason: str) -> None:
    append(
        [
            AuditEvent(
                kind=Kind.CHAT_OPENED,
                data={"reason": reason},
                actor=Who.of(admin),
                person=find_owner(conversation_id),
                conversation_id=conversation_id,
            )
        ]
    )
