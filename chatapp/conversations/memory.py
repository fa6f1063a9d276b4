"""Memory: a person adds, changes and deletes the facts that are stored about them. Each act is
logged without the text of the fact, so that a deleted fact is gone."""

from django.db import transaction

from chatapp.audit import audit_log
from chatapp.audit.audit_log import AuditEvent, Who
from chatapp.models import LogEntry, Member, Memory
from chatapp.models.conversations.memory import AlreadyRemembered


@transaction.atomic
def add(person: Member, text: str) -> None:
    """Add a fact. Raises MemoryFull and AlreadyRemembered."""
    fact, is_new = Memory.keep(person, text)
    if not is_new:
        raise AlreadyRemembered
    _log(person, fact.pk, "Added")


@transaction.atomic
def change(person: Member, fact: Memory, text: str) -> None:
    """Change the text of a fact. Its source stays the same, since a small edit does not make it
    this person's own. Raises AlreadyRemembered if another fact has the same text."""
    if fact.change(text):
        _log(person, fact.pk, "Changed")


@transaction.atomic
def forget(person: Member, fact: Memory) -> None:
    number = fact.pk
    fact.delete()
    _log(person, number, "Deleted")


def _log(person: Member, number: int, act: str) -> None:
    who, data = Who.of(person), {"of": f"fact {number}", "reason": f"{act} on the page."}
    audit_log.append([AuditEvent(kind=LogEntry.Kind.MEMORY, data=data, actor=who, person=who)])
