"""What a person adds, changes and forgets of what is remembered about them. The log has each act
and no words: what is forgotten is gone."""

from django.db import transaction

from chatapp.models import LogEntry, Member, Memory
from chatapp.models.memory import AlreadyRemembered

from . import log
from .log import Happening, Who


@transaction.atomic
def add(person: Member, text: str) -> None:
    """Raises MemoryFull and AlreadyRemembered."""
    fact, is_new = Memory.keep(person, text)
    if not is_new:
        raise AlreadyRemembered
    _log(person, fact.pk, "Added")


@transaction.atomic
def change(person: Member, fact: Memory, text: str) -> None:
    """Whose words led to it stays with it: a few letters do not make it this person's idea. Raises
    AlreadyRemembered where another fact says the same."""
    if fact.change(text):
        _log(person, fact.pk, "Changed")


@transaction.atomic
def forget(person: Member, fact: Memory) -> None:
    number = fact.pk
    fact.delete()
    _log(person, number, "Deleted")


def _log(person: Member, number: int, act: str) -> None:
    who, data = Who.of(person), {"of": f"fact {number}", "reason": f"{act} on the page."}
    log.append([Happening(kind=LogEntry.Kind.MEMORY, data=data, actor=who, person=who)])
