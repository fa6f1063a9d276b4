"""Leases: at most one worker moves a turn, and one that lost its lease can write nothing more.

Times are the database's. A transaction that changes rows of a turn locks the turn first, then its
calls, then the conversation: one order everywhere, so that no two can wait for each other.
"""

import time
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta

from django.conf import settings
from django.db import transaction
from django.db.models import DateTimeField, ExpressionWrapper, F, Q, QuerySet
from django.db.models.expressions import CombinedExpression
from django.db.models.functions import Coalesce, Now

from chatapp.models import Turn


class LeaseLost(Exception):
    """Somebody else moves this turn now; what this worker was about to write is not written."""


@dataclass(slots=True, kw_only=True)
class Lease:
    """The right to move one turn. `renewed` is this process's monotonic clock, for a last check
    before sending."""

    turn_id: uuid.UUID
    conversation_id: uuid.UUID
    owner: str
    fence: int
    renewed: float = field(default_factory=time.monotonic)

    @property
    def is_fresh(self) -> bool:
        """Whether nobody else can have taken it: a process that was frozen finds out here."""
        limit: float = settings.LEASE_SECONDS * 0.8
        return time.monotonic() - self.renewed < limit


def _until() -> "ExpressionWrapper[CombinedExpression]":
    seconds = timedelta(seconds=settings.LEASE_SECONDS)
    return ExpressionWrapper(Now() + seconds, output_field=DateTimeField())


def is_free() -> Q:
    """Turns that nobody moves."""
    return Q(lease_until=None) | Q(lease_until__lt=Now())


def acquire(turn_id: uuid.UUID) -> Lease | None:
    """Take the turn, or None when somebody has it or there is nothing to move."""
    owner = uuid.uuid4().hex
    began = time.monotonic()
    taken = Turn.objects.filter(
        is_free(), pk=turn_id, state__in=[Turn.State.QUEUED, Turn.State.RUNNING]
    ).update(
        state=Turn.State.RUNNING,
        lease_owner=owner,
        lease_until=_until(),
        fence=F("fence") + 1,
        started_at=Coalesce("started_at", Now()),
    )
    if not taken:
        return None
    turn = Turn.objects.get(pk=turn_id)
    return Lease(
        turn_id=turn_id,
        conversation_id=turn.conversation_id,
        owner=owner,
        fence=turn.fence,
        renewed=began,
    )


def renew(leases: Iterable[Lease]) -> None:
    """Extend every lease that is still held, in one commit; any other goes stale by itself."""
    known = list(leases)
    if not known:
        return
    began = time.monotonic()
    with transaction.atomic():
        held = held_of(known)
        Turn.objects.filter(pk__in=held).update(lease_until=_until())
    for lease in known:
        if lease.turn_id in held:
            lease.renewed = began


def held_of(leases: Iterable[Lease]) -> set[uuid.UUID]:
    """Lock the turns of these leases, in the order of their ids; the ones that are still held."""
    known = {lease.turn_id: lease for lease in leases}
    rows = Turn.objects.select_for_update().filter(pk__in=known).order_by("pk")
    return {
        pk
        for pk, owner, fence in rows.values_list("pk", "lease_owner", "fence")
        if (owner, fence) == (known[pk].owner, known[pk].fence)
    }


def release(lease: Lease) -> None:
    """Hand the turn on: the next worker need not wait for the lease to run out."""
    _held(lease).update(state=Turn.State.QUEUED, lease_owner="", lease_until=None)


@contextmanager
def fenced(lease: Lease) -> Iterator[Turn]:
    """A transaction that holds the turn's row, or LeaseLost."""
    with transaction.atomic():
        turn = (
            Turn.objects.select_for_update()
            .filter(pk=lease.turn_id, lease_owner=lease.owner, fence=lease.fence)
            .first()
        )
        if turn is None:
            raise LeaseLost
        yield turn


def _held(lease: Lease) -> QuerySet[Turn]:
    return Turn.objects.filter(pk=lease.turn_id, lease_owner=lease.owner, fence=lease.fence)
