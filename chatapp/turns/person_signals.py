"""Telling people's pages that something changed for them; `people.py` shows it to who is there."""

from collections.abc import Callable, Iterable
from datetime import timedelta

from django.db import transaction
from django.db.models import Count, Max
from django.db.models.functions import Now

from chatapp.models import PersonSignal

Mark = tuple[int, int]
KEPT = timedelta(minutes=1)
LISTENERS: list[Callable[[Iterable[int]], None]] = []


def tell(*person_ids: int) -> None:
    """Say, inside the caller's transaction, that what these people are shown may have changed;
    their pages here hear of it after its commit."""
    people = set(person_ids)
    if not people:
        return
    PersonSignal.objects.bulk_create(PersonSignal(person_id=each) for each in people)
    transaction.on_commit(lambda: _announce(people))


def _announce(people: Iterable[int]) -> None:
    for listener in LISTENERS:
        listener(people)


def marks(person_ids: Iterable[int]) -> dict[int, Mark]:
    """For each of these people something that differs after each signal, in whatever order
    transactions end."""
    found = PersonSignal.objects.filter(person__in=person_ids).values("person")
    counted = found.annotate(last=Max("pk"), many=Count("pk"))
    return {each["person"]: (each["last"], each["many"]) for each in counted}


def clear_signals() -> None:
    """Drop what every process has seen by now."""
    PersonSignal.objects.filter(created_at__lt=Now() - KEPT).delete()
