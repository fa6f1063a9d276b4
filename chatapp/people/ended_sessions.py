"""Tells the open pages of a person that a session ended, so that its sockets close at once.

Sessions end by signing out here or in the admin, and when they are renewed. All of that deletes the
row.
"""

from typing import Any

from django.contrib.auth import SESSION_KEY
from django.contrib.sessions.models import Session
from django.db.models.signals import post_delete
from django.utils import timezone

from chatapp.models import Member

from .signals import notify


def connect_signals() -> None:
    post_delete.connect(_notify_person, sender=Session, dispatch_uid="ended-sessions")


def _notify_person(sender: type[Session], instance: Session, **facts: Any) -> None:
    """Signal the person after the commit. Their sockets then look up whether they may stay.

    The sockets of an expired session have closed before it is deleted, up to an hour later.
    """
    if instance.expire_date <= timezone.now():
        return
    person_id = instance.get_decoded().get(SESSION_KEY, "")
    if person_id and Member.objects.filter(pk=person_id).exists():
        notify(int(person_id))
