"""Leases: at most one worker moves a turn, and one that lost its lease can write nothing more.

Times are the database's. A transaction that changes rows of a turn locks the turn first, then its
calls, then the conversation: one order everywhere, so that no two can wait for each other.
"""

import time
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from django.conf import settings
from django.db import transaction
from django.db.models import F, Q, QuerySet
from django.db.models.functions import Coalesce, Now

from chatapp.models import Turn
from chatapp.storage import in_time

Hold = tuple[uuid.UUID, int]


class LeaseLost(Exception):
    """Somebody else moves this turn now; what this worker was about to write is not written."""


@dataclass(slots=True, kw_only=True)
class Lease:
    """The right to move one turn. `renewed` is this process's monotonic clock, for a last check
    before sending. `was_handed_on`: the last worker gave the turn away in good order. `drops`: how
    often it was dropped instead since it rested last."""

    turn_id: uuid.UUID
    conversation_id: uuid.UUID
    owner: str
    fence: int
    was_handed_on: bool = False
    drops: int = 0
    renewed: float = field(default_factory=time.monotonic)

    @property
    def hold(self) -> Hold:
        """Which hold on which turn this is: a turn may be held, lost and held again."""
        return self.turn_id, self.fence

    @property
    def is_fresh(self) -> bool:
        """Whether nobody else can have taken it: a process that was frozen finds out here."""
        limit: float = settings.LEASE_SECONDS * 0.8
        return time.monotonic() - self.renewed < limit


def is_free() -> Q:
    """Turns that nobody moves."""
    return Q(lease_until=None) | Q(lease_until__lt=Now())


def acquire(turn_id: uuid.UUID) -> Lease | None:
    """Take the turn, or None when somebody has it or there is nothing to move."""
    owner = uuid.uuid4().hex
    began = time.monotonic()
    is_queued = _take(turn_id, Turn.State.QUEUED, owner)
    if not is_queued and not _take(turn_id, Turn.State.RUNNING, owner):
        return None
    turn = Turn.objects.get(pk=turn_id)
    return Lease(
        turn_id=turn_id,
        conversation_id=turn.conversation_id,
        owner=owner,
        fence=turn.fence,
        was_handed_on=is_queued,
        drops=turn.drops,
        renewed=began,
    )


def _take(turn_id: uuid.UUID, state: Turn.State, owner: str) -> bool:
    free = Turn.objects.filter(is_free(), pk=turn_id, state=state)
    return bool(
        free.update(
            state=Turn.State.RUNNING,
            lease_owner=owner,
            lease_until=in_time(seconds=settings.LEASE_SECONDS),
            fence=F("fence") + 1,
            started_at=Coalesce("started_at", Now()),
        )
    )


def renew(leases: Iterable[Lease]) -> None:
    """Extend every lease that is still held, in one commit; any other goes stale by itself."""
    known = list(leases)
    if not known:
        return
    began = time.monotonic()
    with transaction.atomic():
        held = held_of(known)
        Turn.objects.filter(pk__in=[turn_id for turn_id, _fence in held]).update(
            lease_until=in_time(seconds=settings.LEASE_SECONDS)
        )
    for lease in known:
        if lease.hold in held:
            lease.renewed = began


def held_of(leases: Iterable[Lease]) -> set[Hold]:
    """Lock the turns of these leases, in the order of their ids; the holds that are still true."""
    owners = {lease.hold: lease.owner for lease in leases}
    turns = {turn_id for turn_id, _fence in owners}
    rows = Turn.objects.select_for_update().filter(pk__in=turns).order_by("pk")
    return {
        (pk, fence)
        for pk, owner, fence in rows.values_list("pk", "lease_owner", "fence")
        if owners.get((pk, fence)) == owner
    }


def release(lease: Lease) -> None:
    """Hand the turn on in good order: the next worker need not wait for the lease to run out."""
    _held(lease).update(state=Turn.State.QUEUED, lease_owner="", lease_until=None)


def drop(lease: Lease) -> None:
    """Let go of a turn that cannot go on here: to the next worker it is as if this one had died."""
    _held(lease).update(lease_owner="", lease_until=None, drops=F("drops") + 1)


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
