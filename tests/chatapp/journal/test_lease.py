"""Leases: one worker at a time, and a stale one writes nothing."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connection, transaction

from chatapp.journal.lease import (
    Hold,
    Lease,
    LeaseLost,
    acquire,
    drop,
    lock_held_turns,
    lock_turn,
    release,
    renew,
)
from chatapp.models import Turn

pytestmark = pytest.mark.django_db(transaction=True)


def held(*leases: Lease) -> set[Hold]:
    with transaction.atomic():
        return lock_held_turns(leases)


def test_only_one_worker_gets_a_turn(turn: Turn) -> None:
    assert acquire(turn.pk) is not None
    assert acquire(turn.pk) is None


def test_eight_workers_at_once_give_one_lease(turn: Turn) -> None:
    def race(_: int) -> bool:
        try:
            return acquire(turn.pk) is not None
        finally:
            connection.close()

    for _ in range(5):
        Turn.objects.filter(pk=turn.pk).update(lease_until=None)
        with ThreadPoolExecutor(8) as pool:
            assert sum(pool.map(race, range(8))) == 1


def test_a_lease_that_ran_out_is_taken_over_with_a_higher_fence(turn: Turn) -> None:
    first = acquire(turn.pk)
    assert first is not None
    Turn.objects.filter(pk=turn.pk).update(lease_until="2020-01-01T00:00Z")
    second = acquire(turn.pk)
    assert second is not None
    assert second.fence > first.fence


def test_a_stale_worker_can_write_nothing(turn: Turn) -> None:
    stale = acquire(turn.pk)
    assert stale is not None
    Turn.objects.filter(pk=turn.pk).update(lease_until="2020-01-01T00:00Z")
    acquire(turn.pk)
    with pytest.raises(LeaseLost), lock_turn(stale):
        pytest.fail("A stale worker came in.")


def test_a_stale_worker_cannot_extend_its_lease(turn: Turn) -> None:
    stale = acquire(turn.pk)
    assert stale is not None
    Turn.objects.filter(pk=turn.pk).update(lease_until="2020-01-01T00:00Z")
    current = acquire(turn.pk)
    assert current is not None
    before = stale.renewed
    renew([stale])
    assert stale.renewed == before
    renew([current])
    assert current.is_fresh


def test_a_worker_that_was_frozen_knows_that_it_may_have_lost_the_turn(
    turn: Turn, settings: pytest.FixtureRequest
) -> None:
    lease = acquire(turn.pk)
    assert lease is not None
    assert lease.is_fresh
    lease.renewed -= 60
    assert not lease.is_fresh


def test_a_released_turn_is_free_at_once(turn: Turn) -> None:
    lease = acquire(turn.pk)
    assert lease is not None
    release(lease)
    assert acquire(turn.pk) is not None


def test_a_turn_that_is_over_is_not_taken(turn: Turn) -> None:
    Turn.objects.filter(pk=turn.pk).update(state=Turn.State.DONE)
    assert acquire(turn.pk) is None


def test_a_turn_that_was_let_go_of_is_free_at_once_but_not_handed_on(turn: Turn) -> None:
    lease = acquire(turn.pk)
    assert lease is not None
    assert lease.was_handed_on, "A new turn counts as handed on."
    drop(lease)
    turn.refresh_from_db()
    assert (turn.state, turn.lease_owner, turn.lease_until) == (Turn.State.RUNNING, "", None)
    following = acquire(turn.pk)
    assert following is not None
    assert not following.was_handed_on


def test_a_turn_whose_worker_died_is_not_handed_on(turn: Turn) -> None:
    acquire(turn.pk)
    Turn.objects.update(lease_until="2020-01-01T00:00Z")
    following = acquire(turn.pk)
    assert following is not None
    assert not following.was_handed_on


@pytest.mark.parametrize("let_go", [release, drop])
def test_a_stale_worker_cannot_let_go_of_what_another_holds(
    turn: Turn, let_go: Callable[[Lease], None]
) -> None:
    stale = acquire(turn.pk)
    assert stale is not None
    Turn.objects.update(lease_until="2020-01-01T00:00Z")
    current = acquire(turn.pk)
    assert current is not None
    let_go(stale)
    assert held(current) == {current.hold}


def test_two_holds_on_one_turn_are_not_taken_for_one_another(turn: Turn) -> None:
    stale = acquire(turn.pk)
    Turn.objects.update(lease_until="2020-01-01T00:00Z")
    current = acquire(turn.pk)
    assert stale is not None
    assert current is not None
    for leases in ([stale, current], [current, stale]):
        assert held(*leases) == {current.hold}
        before = stale.renewed
        renew(leases)
        assert stale.renewed == before
        assert current.renewed > before


def test_a_fence_alone_is_no_hold(turn: Turn) -> None:
    """Two installations on a restored backup may count alike; the owner's name tells them apart."""
    lease = acquire(turn.pk)
    assert lease is not None
    Turn.objects.update(lease_owner="another")
    assert held(lease) == set()


def test_the_conversation_of_a_locked_turn_is_read_after_the_lock(turn: Turn) -> None:
    """A join would read its mode as it was before the lock was waited for."""
    lease = acquire(turn.pk)
    assert lease is not None
    with lock_turn(lease) as locked:
        assert not Turn.conversation.is_cached(locked)
