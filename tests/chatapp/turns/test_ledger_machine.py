"""The ledger over the real database, in a world of dying, frozen and stale workers and of people
who answer in any order: nothing is sent unasked or twice, and every turn comes to rest."""

import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from django.db import IntegrityError, transaction
from django.db.models import Count, QuerySet
from django.db.models.functions import Now
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from chatapp.models import Approval, Member, Permit, ToolCall, Turn
from chatapp.permissions.risk import Risk
from chatapp.providers.events import ToolCallReady
from chatapp.tools.catalogue import Catalogue, CatalogueTool
from chatapp.turns import answers, intake, ledger, recovery
from chatapp.turns.budgets import read_turn
from chatapp.turns.deciding import decide_calls
from chatapp.turns.ending import finish, park
from chatapp.turns.lease import Lease, LeaseLost, acquire, release, renew
from chatapp.turns.ledger import Sending, begin_sending, record_outcome, settle_orphans
from chatapp.turns.next_action import CallModel, Decide, Execute, Finish, Wait, next_action
from chatapp.turns.refusals import Refused
from chatapp.turns.steps import Answer, close_step, open_step
from mcpconfig.models import Service, ToolDefinition, ToolSetting

pytestmark = pytest.mark.django_db
State = ToolCall.State
LONG = 3600.0
TOOLS = ("read_thing", "delete_thing")
# What came up while the machine ran: a world in which nothing happens proves nothing.
SEEN: Counter[str] = Counter()
ENDS = st.sampled_from([State.UNKNOWN, State.SUCCEEDED, State.FAILED])
NO_ANSWER = st.none()


@dataclass(eq=False, slots=True, kw_only=True)
class Worker:
    """One worker's hold on the turn, and the calls that it may send but has not sent yet."""

    lease: Lease
    begun: list[Sending] = field(default_factory=list)
    sent: list[Sending] = field(default_factory=list)

    @property
    def is_idle(self) -> bool:
        """The engine looks at the turn again only once every call has its outcome."""
        return not self.begun and not self.sent


class LedgerMachine(RuleBasedStateMachine):
    """Every rule is what a worker, a person, an admin or time may do at any moment."""

    def __init__(self) -> None:
        super().__init__()
        self.world = transaction.atomic()
        self.world.__enter__()
        self.person = Member.objects.create_user(f"owner-{uuid.uuid4().hex[:8]}")
        self.service = Service.objects.create(
            name=f"things-{uuid.uuid4().hex[:8]}", url="https://things.example/mcp"
        )
        self.catalogue = Catalogue(tools={name: self._tool(name) for name in TOOLS})
        self.turn = intake.receive(self.person, None, text="Tidy up", model="demo:assistant")
        self.workers: list[Worker] = []
        self.sends: list[tuple[uuid.UUID, int]] = []
        self.words: list[uuid.UUID] = []
        self.closed: dict[uuid.UUID, str] = {}

    def _tool(self, name: str) -> CatalogueTool:
        definition = ToolDefinition.objects.create(
            service=self.service, hash=uuid.uuid4().hex, name=name
        )
        level: Any = "low" if name == "read_thing" else "high"
        return CatalogueTool(
            tool_id=name,
            description=name,
            input_schema={"type": "object"},
            service_id=self.service.pk,
            service_name=self.service.name,
            tool_name=name,
            definition_id=definition.pk,
            definition_hash=definition.hash,
            endpoint=self.service.endpoint,
            risk=Risk(level=level, reasons=("so it is",)),
            is_confirmed=True,
            is_safe_to_repeat=False,
        )

    # --- workers -------------------------------------------------------------------------------
    def a_worker_takes_the_turn(self) -> None:
        lease = acquire(self.turn.pk)
        if lease is not None:
            self.workers.append(Worker(lease=lease))
            settle_orphans(lease)

    @rule(which=st.integers(0, 3), asked=st.lists(st.sampled_from(TOOLS), max_size=2))
    @precondition(lambda self: any(worker.is_idle for worker in self.workers))
    def a_worker_moves(self, which: int, asked: list[str]) -> None:
        """One round of the engine's loop, by a worker who may have lost the turn long ago."""
        idle = [worker for worker in self.workers if worker.is_idle]
        worker = idle[which % len(idle)]
        self._as(worker, lambda: self._move(worker, asked))

    @rule(
        asked=st.lists(st.sampled_from(TOOLS), min_size=1, max_size=2),
        hears=st.lists(ENDS | NO_ANSWER, min_size=1, max_size=2),
    )
    def a_worker_comes_and_works(
        self, asked: list[str], hears: list[ToolCall.State | None]
    ) -> None:
        """The usual course, so that the unusual one has something to go wrong in."""
        if Turn.objects.get(pk=self.turn.pk).state not in Turn.LIVE:
            self.a_person_writes_again()
        self.a_worker_takes_the_turn()
        for _ in range(3):
            if any(worker.is_idle for worker in self.workers):
                self.a_worker_moves(-1, asked)
        for outcome in hears:
            if any(worker.begun for worker in self.workers):
                self.a_worker_sends(-1)
            if outcome and any(worker.sent for worker in self.workers):
                self.an_answer_comes(-1, outcome)

    @rule(which=st.integers(0, 3))
    @precondition(lambda self: any(worker.begun for worker in self.workers))
    def a_worker_sends(self, which: int) -> None:
        able = [worker for worker in self.workers if worker.begun]
        worker = able[which % len(able)]
        sending = worker.begun.pop(0)
        if not worker.lease.is_fresh:  # as the engine: whoever was frozen does not send
            SEEN["frozen"] += 1
            self._as(worker, lambda: record_outcome(worker.lease, sending, State.FAILED))
            return
        self._check_send(sending)
        SEEN["sent again" if sending.attempt > 1 else "sent"] += 1
        self.sends.append((sending.call_id, sending.attempt))
        worker.sent.append(sending)

    @rule(which=st.integers(0, 3), outcome=ENDS)
    @precondition(lambda self: any(worker.sent for worker in self.workers))
    def an_answer_comes(self, which: int, outcome: ToolCall.State) -> None:
        able = [worker for worker in self.workers if worker.sent]
        worker = able[which % len(able)]
        sending = worker.sent.pop(0)
        self._as(worker, lambda: record_outcome(worker.lease, sending, outcome))

    @rule(which=st.integers(0, 3))
    @precondition(lambda self: self.workers)
    def a_worker_dies(self, which: int) -> None:
        del self.workers[which % len(self.workers)]

    @rule(which=st.integers(0, 3))
    @precondition(lambda self: any(worker.is_idle for worker in self.workers))
    def a_worker_hands_the_turn_on(self, which: int) -> None:
        idle = [worker for worker in self.workers if worker.is_idle]
        worker = idle[which % len(idle)]
        release(worker.lease)
        self.workers.remove(worker)

    @rule(is_late=st.booleans())
    @precondition(lambda self: self.workers)
    def time_passes(self, is_late: bool) -> None:
        if is_late:
            self.the_lease_runs_out()
        else:
            renew([worker.lease for worker in self.workers])

    def the_lease_runs_out(self) -> None:
        """So much time passes that everybody's clock says so: the database's and each worker's."""
        Turn.objects.filter(pk=self.turn.pk).exclude(lease_until=None).update(
            lease_until="2020-01-01T00:00:00Z"
        )
        for worker in self.workers:
            worker.lease.renewed = time.monotonic() - LONG

    # --- people and time -------------------------------------------------------------------------
    @rule(which=st.integers(0, 3), grants=st.booleans())
    def a_person_decides(self, which: int, grants: bool) -> None:
        """Any call that was ever asked about: late and doubled decisions are tried, too."""
        if call := self._any(self._calls().exclude(approval=None), which, State.AWAITING_APPROVAL):
            decide: Callable[..., None] = answers.grant if grants else answers.deny
            more = {"shown_at": None} if grants else {}
            self._ask(lambda: decide(call, by=self.person, binding=call.approval.binding, **more))

    @rule(which=st.integers(0, 3), verdict=st.sampled_from(["again", "worked", "did-not"]))
    def a_person_says_what_became_of_a_call(self, which: int, verdict: Any) -> None:
        call = self._any(self._calls(), which, State.UNKNOWN)
        if call and self._ask(lambda: answers.resolve(call, by=self.person, verdict=verdict)):
            self.words += [call.pk] * (verdict == "again")

    def a_person_writes_again(self) -> None:
        """After the end, or instead of an answer to what is asked."""
        if Turn.objects.get(pk=self.turn.pk).rests:
            self.turn = intake.receive(
                self.person, self.turn.conversation, text="Go on", model="demo:assistant"
            )

    @rule(what=st.sampled_from(["stop", "late", "changed", "again", "", "", "", ""]))
    def something_rare_happens(self, what: str) -> None:
        match what:
            case "stop":
                intake.stop(self.turn.conversation)
            case "again":
                self.a_person_writes_again()
            case "late":
                Approval.objects.update(expires_at=Now())
                recovery.expire_approvals()
            case "changed":
                ToolDefinition.objects.filter(name="read_thing").update(is_current=False)

    # --- what always holds -----------------------------------------------------------------------
    @invariant()
    def a_call_that_will_not_run_stays_so(self) -> None:
        now = dict(self._calls().values_list("pk", "state"))
        assert {pk: now[pk] for pk in self.closed} == self.closed
        self.closed = {pk: state for pk, state in now.items() if state in NEVER_SENT_AFTER}

    @invariant()
    def each_attempt_has_one_permit(self) -> None:
        for call in self._calls().annotate(permitted=Count("permits")):
            assert call.permitted == call.attempt

    def teardown(self) -> None:
        """Left to itself, the turn rests: it is over, or a person is asked something."""
        try:
            self.the_lease_runs_out()
            self.workers.clear()
            self._come_to_rest()
        finally:
            transaction.set_rollback(True)
            self.world.__exit__(None, None, None)

    def _come_to_rest(self) -> None:
        for _ in range(60):
            turn = Turn.objects.get(pk=self.turn.pk)
            if turn.rests:
                break
            if not self.workers:
                self.a_worker_takes_the_turn()
            self.a_worker_moves(0, [])
            while any(worker.begun for worker in self.workers):
                self.a_worker_sends(0)
            while any(worker.sent for worker in self.workers):
                self.an_answer_comes(0, State.SUCCEEDED)
        assert turn.rests, "The turn never comes to rest."
        asked = self.turn.tool_calls.filter(state__in=[State.AWAITING_APPROVAL, State.UNKNOWN])
        assert turn.state != Turn.State.WAITING or asked.exists(), "It waits for nobody."

    def _calls(self) -> QuerySet[ToolCall]:
        return ToolCall.objects.filter(turn__conversation=self.turn.conversation)

    # --- bookkeeping -----------------------------------------------------------------------------
    def _move(self, worker: Worker, asked: list[str]) -> None:
        lease = worker.lease
        turn, state = read_turn(lease)
        match next_action(state):
            case CallModel(number=number):
                step = open_step(lease, number)
                close_step(lease, step, _said(asked), self.catalogue)
            case Decide(calls=calls):
                decide_calls(lease, calls, self.catalogue)
            case Execute(calls=calls):
                begun = [begin_sending(lease, call_id) for call_id in calls]
                worker.begun += [sending for sending in begun if sending is not None]
            case Wait():
                park(lease, turn.signals)
            case Finish(reason=reason, sentence=sentence):
                finish(lease, turn.signals, reason, sentence)

    def _as(self, worker: Worker, act: Callable[[], None]) -> None:
        """A worker writes. One that lost the turn must fail, and is then gone."""
        turn = Turn.objects.get(pk=worker.lease.turn_id)
        is_held = (turn.lease_owner, turn.fence) == (worker.lease.owner, worker.lease.fence)
        try:
            with transaction.atomic():
                act()
        except LeaseLost:
            assert not is_held, "The worker that has the turn was turned away."
            SEEN["stale"] += 1
            self.workers.remove(worker)
        else:
            assert is_held, "A stale worker wrote."

    def _ask(self, act: Callable[[], None]) -> bool:
        """Whether what a person asked for was done."""
        try:
            with transaction.atomic():
                act()
        except Refused:
            return False
        return True

    def _any(self, calls: QuerySet[ToolCall], which: int, first: State) -> ToolCall | None:
        """One of these calls; three times in four one in the state `first`, if there is one."""
        found = list(calls.select_related("approval"))
        if which:
            found = [call for call in found if call.state == first] or found
        return found[which % len(found)] if found else None

    def _check_send(self, sending: Sending) -> None:
        """The moment before the first byte leaves."""
        call = ToolCall.objects.get(pk=sending.call_id)
        permit = Permit.objects.filter(tool_call=call, attempt=sending.attempt)
        approval = Approval.objects.filter(tool_call=call).first()
        assert permit.exists(), "It is sent without a permit of this attempt."
        assert (call.pk, sending.attempt) not in self.sends, "One attempt is sent twice."
        assert (call.state, call.attempt) == (State.SENDING, sending.attempt), (
            f"It is sent although the ledger says {call.state}, attempt {call.attempt}."
        )
        is_granted = approval is None or approval.state == Approval.State.GRANTED
        assert is_granted, "It is sent although it was not granted."
        assert sending.attempt <= 1 + self.words.count(call.pk), "It is sent again without a word."


Story = Callable[[LedgerMachine], None]
Plant = Callable[[pytest.MonkeyPatch], None]
NEVER_SENT_AFTER = (
    State.DENIED,
    State.REFUSED,
    State.EXPIRED,
    State.WITHDRAWN,
    State.CANCELLED,
)


def _said(asked: list[str]) -> Answer:
    """A model's answer that asks for these tools."""
    calls = [
        ToolCallReady(index=n, call_id=f"call_{n}", name=name, arguments=f'{{"n": {n}}}')
        for n, name in enumerate(asked)
    ]
    return Answer(calls=calls, finish_reason="tool_calls" if calls else "stop")


def test_nothing_is_sent_unasked_or_twice_and_every_turn_comes_to_rest(db: None) -> None:
    SEEN.clear()
    run_state_machine_as_test(
        LedgerMachine,
        settings=settings(
            max_examples=40,
            stateful_step_count=40,
            deadline=None,
            phases=[Phase.generate],  # shrinking a failure would take minutes
            suppress_health_check=list(HealthCheck),
        ),
    )
    assert SEEN["sent"] >= 10, SEEN
    assert SEEN["stale"] >= 5, SEEN


# --- each defence, and the same story without it -------------------------------------------------
@contextmanager
def machine() -> Iterator[LedgerMachine]:
    """A machine that is driven by hand."""
    made = LedgerMachine()
    try:
        yield made
    finally:
        transaction.set_rollback(True)
        made.world.__exit__(None, None, None)


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

    monkeypatch.setattr(ledger, "fenced", fenced)


def no_permit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger, "_use_permit", lambda *_: None)


def everything_is_safe_to_repeat(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not a planted fault but the admin's own setting, taken for every tool."""
    service = Service.objects.get(name__startswith="things-")
    ToolSetting.objects.create(service=service, name="read_thing", is_safe_to_repeat=True)


def no_second_check(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger, "_problem", lambda *_: "")


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
