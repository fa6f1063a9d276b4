"""Signals to people: what their open pages show may have changed.

A signal is a row, so that the processes beside this one find it too. `PersonPages` has the open
pages of this process.
"""

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import timedelta

from django.db import transaction
from django.db.models import Count, Max, QuerySet
from django.db.models.functions import Now

from chatapp.models import PersonSignal
from chatapp.server.runtime import current_runtime

Mark = tuple[int, int]
KEPT = timedelta(minutes=1)


def notify(*person_ids: int) -> None:
    """Store a signal for these people inside the caller's transaction. Their pages in this process
    get it after the commit."""
    people = set(person_ids)
    if not people:
        return
    PersonSignal.objects.bulk_create(PersonSignal(person_id=each) for each in people)
    transaction.on_commit(lambda: _announce(people))


def _announce(people: Iterable[int]) -> None:
    for listener in current_runtime().person_listeners:
        listener(people)


def load_marks(person_ids: Iterable[int]) -> dict[int, Mark]:
    """Return a mark for each of these people that changes with each signal, whatever the order in
    which transactions end."""
    signals = PersonSignal.objects.filter(person__in=person_ids).values("person")
    counted = signals.annotate(last=Max("pk"), many=Count("pk"))
    return {each["person"]: (each["last"], each["many"]) for each in counted}


def filter_old_signals() -> QuerySet[PersonSignal]:
    """Return the signals that are old enough for every process to have seen them."""
    return PersonSignal.objects.filter(created_at__lt=Now() - KEPT)


def delete_old_signals() -> None:
    filter_old_signals().delete()


class PersonPages:
    """The open pages of people in this process: each has an event that is set by a signal."""

    def __init__(self) -> None:
        self._events: dict[int, set[asyncio.Event]] = defaultdict(set)
        self._marks: dict[int, Mark] = {}
        self.heard = 0  # how many signals came, also to people without a page here

    @property
    def people(self) -> list[int]:
        """The ids of those who have a page open."""
        return list(self._events)

    def join(self, person_id: int) -> asyncio.Event:
        event = asyncio.Event()
        self._events[person_id].add(event)
        return event

    def leave(self, person_id: int, event: asyncio.Event) -> None:
        self._events[person_id].discard(event)
        if not self._events[person_id]:
            del self._events[person_id]
            self._marks.pop(person_id, None)

    def notify(self, person_id: int) -> None:
        self.heard += 1
        for event in self._events.get(person_id, ()):
            event.set()

    def compare(self, marks: Mapping[int, Mark]) -> None:
        """Notify those whose mark differs from the one that was compared last."""
        for person_id, mark in marks.items():
            if person_id in self._events and self._marks.get(person_id) != mark:
                self._marks[person_id] = mark
                self.notify(person_id)
