"""What a person chose to be told."""

from collections.abc import Mapping

from django.db import transaction

from chatapp.audit import audit_log
from chatapp.audit.audit_log import AuditEvent, Who
from chatapp.models import LogEntry, Member, NotificationPreference

CHOICES = ("pushes_waiting", "pushes_answers", "shows_titles", "uses_webhooks")


def save(person: Member, chosen: Mapping[str, bool]) -> None:
    """Store these choices and log those that changed."""
    with transaction.atomic():
        before = NotificationPreference.of(person)
        changed = {
            name: {"before": getattr(before, name), "after": chosen[name]}
            for name in CHOICES
            if name in chosen and getattr(before, name) != chosen[name]
        }
        if not changed:
            return
        values = {name: pair["after"] for name, pair in changed.items()}
        NotificationPreference.objects.update_or_create(person=person, defaults=values)
        who = Who.of(person)
        data = {"of": "notifications", "act": "changed", "changed": changed}
        event = AuditEvent(kind=LogEntry.Kind.NOTIFICATIONS, data=data, actor=who, person=who)
        audit_log.append([event])
