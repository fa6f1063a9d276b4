"""Leases: at most one worker moves a turn, and a worker that lost its lease cannot write to it.

Times are those of the database. A transaction that changes rows of a turn locks the turn first,
then its calls, then the conversation. The same order everywhere prevents deadlocks.
"""

import time
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import DateTimeField, Exists, ExpressionWrapper, F, OuterRef, Q, QuerySet
from django.db.models.functions import Coalesce, Now

from chatapp.models import Allowance, Step, Turn
from chatapp.server.compiled_queries import compiled, compiled_update
from chatapp.server.database import from_now
from chatapp.telemetry import metrics

Hold = tuple[uuid.UUID, int]


class LeaseLost(Exception):
    """Another worker has the lease of this turn now. Nothing was written."""


@dataclass(slots=True, kw_only=True)
class Lease:
    """The right to move one turn.

    `renewed` is this process's monotonic clock at the last renewal, for a check before sending.
    `was_handed_on` says that the last worker released the turn. `drops` counts how often the turn
    was dropped instead since it last rested.
    """

    turn_id: uuid.UUID
    conversation_id: uuid.UUID
    owner: str
    fence: int
    was_handed_on: bool = False
    drops: int = 0
    renewed: float = field(default_factory=time.monotonic)

    @property
    def hold(self) -> Hold:
        """The turn and its fencing number, which differs each time the turn is acquired."""
        return self.turn_id, self.fence

    @property
    def is_fresh(self) -> bool:
        """Whether no other worker can have the lease, even if this process was frozen."""
        limit: float = settings.LEASE_SECONDS * 0.8
        return time.monotonic() - self.renewed < limit


def is_free() -> Q:
    """Match turns without a valid lease."""
    return Q(lease_until=None) | Q(lease_until__lt=Now())


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldTurn:
    """A turn as it was read under its lease, with its conversation and its owner."""

    lease: Lease
    turn: Turn
    has_steps: bool
    has_allowances: bool  # whether anybody's use is limited


def acquire(turn_id: uuid.UUID) -> Lease | None:
    """Lease the turn. Return None if another worker has it or it has nothing to do."""
    held = take(turn_id)
    return held.lease if held else None


def take(turn_id: uuid.UUID) -> HeldTurn | None:
    """Lease the turn and read it. Return None if another worker has it or it has nothing to do."""
    owner = uuid.uuid4().hex
    began = time.monotonic()
    is_queued = _take(turn_id, Turn.State.QUEUED, owner)
    if not is_queued and not _take(turn_id, Turn.State.RUNNING, owner):
        return None
    turn = _read_held(turn_id, owner)[0]
    _count_taken(turn, is_queued)
    lease = Lease(
        turn_id=turn_id,
        conversation_id=turn.conversation_id,
        owner=owner,
        fence=turn.fence,
        was_handed_on=is_queued,
        drops=turn.drops,
        renewed=began,
    )
    return _build_held(lease, turn)


def _count_taken(turn: Turn, is_queued: bool) -> None:
    is_new = turn.fence == 1
    how = "new" if is_new else "continued" if is_queued else "abandoned"
    metrics.TURNS_TAKEN.labels(how).inc()
    if is_new and turn.started_at is not None:
        waited = (turn.started_at - turn.created_at).total_seconds()
        metrics.TURN_QUEUE_SECONDS.observe(max(0.0, waited))


def _take(turn_id: uuid.UUID, state: Turn.State, owner: str) -> bool:
    return bool(_take_free(turn_id, state, owner, timedelta(seconds=settings.LEASE_SECONDS)))


@compiled_update
def _take_free(
    turn_id: uuid.UUID, state: str, owner: str, time: timedelta
) -> tuple[QuerySet[Turn], dict[str, Any]]:
    return Turn.objects.filter(is_free(), pk=turn_id, state=state), {
        "state": Turn.State.RUNNING,
        "lease_owner": owner,
        "lease_until": ExpressionWrapper(Now() + time, output_field=DateTimeField()),
        "fence": F("fence") + 1,
        "started_at": Coalesce("started_at", Now()),
    }


def renew(leases: Iterable[Lease]) -> None:
    """Extend the leases that are still held, in one commit. The others become stale."""
    known = list(leases)
    if not known:
        return
    began = time.monotonic()
    with transaction.atomic():
        held = lock_held_turns(known)
        Turn.objects.filter(pk__in=[turn_id for turn_id, _fence in held]).update(
            lease_until=from_now(seconds=settings.LEASE_SECONDS)
        )
    for lease in known:
        if lease.hold in held:
            lease.renewed = began


def lock_held_turns(leases: Iterable[Lease]) -> set[Hold]:
    """Lock the turns of these leases in the order of their ids. Return the holds that are valid."""
    owners = {lease.hold: lease.owner for lease in leases}
    turns = {turn_id for turn_id, _fence in owners}
    rows = Turn.objects.select_for_update().filter(pk__in=turns).order_by("pk")
    return {
        (pk, fence)
        for pk, owner, fence in rows.values_list("pk", "lease_owner", "fence")
        if owners.get((pk, fence)) == owner
    }


def release(lease: Lease) -> None:
    """Release the turn, so that the next worker need not wait until the lease runs out."""
    _filter_held(lease).update(state=Turn.State.QUEUED, lease_owner="", lease_until=None)


def drop(lease: Lease) -> None:
    """Drop a turn that cannot continue here. The next worker treats it as if this one had died."""
    _filter_held(lease).update(lease_owner="", lease_until=None, drops=F("drops") + 1)


@contextmanager
def lock_turn(lease: Lease) -> Iterator[Turn]:
    """Open a transaction in which this worker has the lease and the turn's row is locked. Raises
    LeaseLost.

    The code that needs the conversation reads it after the lock. A join would return it as it was
    before the wait for the lock, and its mode may have been switched meanwhile."""
    with transaction.atomic():
        turn = _lock_held.first(lease.turn_id, lease.owner, lease.fence)
        if turn is None:
            raise LeaseLost
        yield turn


@compiled
def _lock_held(turn_id: uuid.UUID, owner: str, fence: int) -> QuerySet[Turn]:
    turns = Turn.objects.select_for_update()
    return turns.filter(pk=turn_id, lease_owner=owner, fence=fence)


def read_held(lease: Lease) -> HeldTurn:
    """Read the turn. Raises LeaseLost."""
    turn = _read_held.first(lease.turn_id, lease.owner)
    if turn is None or turn.fence != lease.fence:
        raise LeaseLost
    return _build_held(lease, turn)


@compiled
def _read_held(turn_id: uuid.UUID, owner: str) -> QuerySet[Turn]:
    held = Turn.objects.filter(pk=turn_id, lease_owner=owner)
    return held.select_related("conversation__owner").annotate(
        has_steps=Exists(Step.objects.filter(turn=OuterRef("pk"))),
        has_allowances=Exists(Allowance.objects.all()),
    )


def _build_held(lease: Lease, turn: Any) -> HeldTurn:
    return HeldTurn(
        lease=lease, turn=turn, has_steps=turn.has_steps, has_allowances=turn.has_allowances
    )


def _filter_held(lease: Lease) -> QuerySet[Turn]:
    return Turn.objects.filter(pk=lease.turn_id, lease_owner=lease.owner, fence=lease.fence)
