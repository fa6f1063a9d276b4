"""The ledger in a world where anything may happen at any moment: nothing is sent unasked or twice,
every turn comes to rest, and without any one of the defences the same world notices."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from django.db import IntegrityError
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from chatapp.calls import ledger, recheck
from chatapp.journal import journal
from chatapp.journal.lease import Lease
from chatapp.models import Permit, ToolCall, Turn
from mcpconfig.models import Service, ToolSetting

from .ledger_machine import SEEN, LedgerMachine, State, Worker, machine

Story = Callable[[LedgerMachine], None]
Plant = Callable[[pytest.MonkeyPatch], None]


@pytest.mark.gate
@pytest.mark.parametrize(
    ("worlds", "is_fixed"),
    [(30, True), pytest.param(200, False, marks=[pytest.mark.long, pytest.mark.timeout(300)])],
    ids=["the same worlds", "other worlds each time"],
)
def test_nothing_is_sent_unasked_or_twice_and_every_turn_comes_to_rest(
    db: None, worlds: int, is_fixed: bool
) -> None:
    SEEN.clear()
    run_state_machine_as_test(
        LedgerMachine,
        settings=settings(
            max_examples=worlds,
            derandomize=is_fixed,
            stateful_step_count=40,
            deadline=None,
            phases=[Phase.generate],  # shrinking a failure would take minutes
            suppress_health_check=list(HealthCheck),
        ),
    )
    assert SEEN["sent"] >= 5, SEEN
    assert SEEN["stale"] >= 3, SEEN


# --- each defence, and the same story without it -------------------------------------------------
def about_to_send(world: LedgerMachine) -> Worker:
    """A worker that has stored `sending` and has not sent yet."""
    world.a_worker_takes_the_turn()
    for _ in range(3):
        world.a_worker_moves(0, ["read_thing"])
    (worker,) = world.workers
    assert len(worker.begun) == 1
    return worker


def taken_over(world: LedgerMachine) -> None:
    world.the_lease_runs_out()
    world.a_worker_takes_the_turn()
    assert len(world.workers) == 2


def frozen_then_sends(world: LedgerMachine) -> None:
    about_to_send(world)
    taken_over(world)
    world.a_worker_sends(0)


def frozen_then_hears(world: LedgerMachine) -> None:
    about_to_send(world)
    world.a_worker_sends(0)
    taken_over(world)
    world.an_answer_comes(0, State.SUCCEEDED)


def sends(world: LedgerMachine) -> None:
    about_to_send(world)
    world.a_worker_sends(0)


def dies_while_sending(world: LedgerMachine) -> None:
    """Whoever takes over goes on as far as it can."""
    sends(world)
    taken_over(world)
    world.a_worker_dies(0)
    world.a_worker_moves(0, [])
    if world.workers and world.workers[0].begun:
        world.a_worker_sends(0)


def runs_what_was_denied(world: LedgerMachine) -> None:
    """The call's row says approved although its approval says denied."""
    world.a_worker_takes_the_turn()
    for _ in range(3):
        world.a_worker_moves(0, ["delete_thing"])
    world.a_person_decides(0, grants=False)
    ToolCall.objects.filter(turn=world.turn).update(state=State.APPROVED)
    world.workers.clear()
    world.a_worker_takes_the_turn()
    world.a_worker_moves(0, [])
    if world.workers[0].begun:
        world.a_worker_sends(0)


def always_fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Lease, "is_fresh", True)


def no_fence(monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def fenced(lease: Lease) -> Iterator[Turn]:
        yield Turn.objects.get(pk=lease.turn_id)

    def reserve(lease: Lease, count: int) -> journal.Reserved:
        return journal._reserve(lease.conversation_id, count)

    monkeypatch.setattr(ledger, "lock_turn", fenced)
    monkeypatch.setattr(journal, "lock_and_reserve", reserve)


def no_permit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger, "use_permit", lambda *_: None)


def everything_is_safe_to_repeat(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not a planted fault but the admin's own setting, taken for every tool."""
    service = Service.objects.get(name__startswith="things-")
    safe = {"is_safe_to_repeat": True}
    ToolSetting.objects.update_or_create(service=service, name="read_thing", defaults=safe)


def no_second_check(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recheck, "_find_problem", lambda *_: "")


STORIES: dict[str, tuple[Story, Plant, str]] = {
    "the clock": (frozen_then_sends, always_fresh, "the ledger says unknown"),
    "the fence": (frozen_then_hears, no_fence, "A stale worker wrote"),
    "the permit": (sends, no_permit, "without a permit"),
    "the ledger": (dies_while_sending, everything_is_safe_to_repeat, "without a word"),
    "the check": (runs_what_was_denied, no_second_check, "although it was not granted"),
}


@pytest.mark.parametrize("name", STORIES)
def test_each_defence_holds(db: None, name: str) -> None:
    story, _plant, _words = STORIES[name]
    with machine() as world:
        story(world)


@pytest.mark.parametrize("name", STORIES)
def test_without_a_defence_the_same_story_fails(
    db: None, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    story, plant, words = STORIES[name]
    with machine() as world:
        plant(monkeypatch)
        with pytest.raises(AssertionError, match=words):
            story(world)


def test_a_persons_word_sends_a_call_once_more(db: None) -> None:
    with machine() as world:
        dies_while_sending(world)
        world.a_person_says_what_became_of_a_call(0, "again")
        world.a_worker_comes_and_works([], [State.SUCCEEDED])
        (call,) = world._calls()
        assert (call.state, call.attempt) == (State.SUCCEEDED, 2)
        assert world.sends == [(call.pk, 1), (call.pk, 2)]


def test_one_attempt_has_no_second_permit(db: None) -> None:
    """A row that was put back, as by a restored backup, is still not sent under its old permit."""
    with machine() as world:
        sends(world)
        world.an_answer_comes(0, State.UNKNOWN)
        ToolCall.objects.filter(turn=world.turn).update(state=State.APPROVED, attempt=0)
        with pytest.raises(IntegrityError):
            world.a_worker_moves(0, [])
        Permit.objects.all().delete()  # without the constraint's memory the count must notice
        world.a_worker_moves(0, [])
        with pytest.raises(AssertionError, match="sent twice"):
            world.a_worker_sends(0)
