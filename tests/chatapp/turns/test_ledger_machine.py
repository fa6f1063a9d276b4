"""The ledger over the real database, in a world of dying, frozen and stale workers and of people
who answer in any order: nothing is sent unasked or twice, and every turn comes to rest."""

import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from django.db import transaction
from django.db.models.functions import Now
from hypothesis import HealthCheck, settings
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
from chatapp.turns import answers, intake, recovery
from chatapp.turns.budgets import read_turn
from chatapp.turns.deciding import decide_calls
from chatapp.turns.ending import finish, park
from chatapp.turns.lease import Lease, LeaseLost, acquire, release, renew
from chatapp.turns.ledger import Sending, begin_sending, record_outcome, settle_orphans
from chatapp.turns.next_action import CallModel, Decide, Execute, Finish, Wait, next_action
from chatapp.turns.refusals import Refused
from chatapp.turns.steps import Answer, close_step, open_step
from mcpconfig.models import Service, ToolDefinition

pytestmark = pytest.mark.django_db
State = ToolCall.State
LONG = 3600.0
TOOLS = ("read_thing", "delete_thing")
ENDS = st.sampled_from([State.SUCCEEDED, State.FAILED, State.UNKNOWN])


@dataclass(eq=False, slots=True, kw_only=True)
class Worker:
    """One worker's hold on the turn, and the calls that it may send but has not sent yet."""

    lease: Lease
    begun: list[Sending] = field(default_factory=list)
    sent: list[Sending] = field(default_factory=list)


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
    @rule()
    def a_worker_takes_the_turn(self) -> None:
        lease = acquire(self.turn.pk)
        if lease is not None:
            self.workers.append(Worker(lease=lease))
            settle_orphans(lease)

    @rule(which=st.integers(0, 3), asked=st.lists(st.sampled_from(TOOLS), max_size=2))
    @precondition(lambda self: self.workers)
    def a_worker_moves(self, which: int, asked: list[str]) -> None:
        """One round of the engine's loop, by a worker who may have lost the turn long ago."""
        worker = self.workers[which % len(self.workers)]
        self._as(worker, lambda: self._move(worker, asked))

    @rule(which=st.integers(0, 3))
    @precondition(lambda self: any(worker.begun for worker in self.workers))
    def a_worker_sends(self, which: int) -> None:
        able = [worker for worker in self.workers if worker.begun]
        worker = able[which % len(able)]
        sending = worker.begun.pop(0)
        if not worker.lease.is_fresh:  # as the engine: whoever was frozen does not send
            self._as(worker, lambda: record_outcome(worker.lease, sending, State.FAILED))
            return
        self._check_send(sending)
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
    @precondition(lambda self: any(not (w.begun or w.sent) for w in self.workers))
    def a_worker_hands_the_turn_on(self, which: int) -> None:
        idle = [worker for worker in self.workers if not (worker.begun or worker.sent)]
        worker = idle[which % len(idle)]
        release(worker.lease)
        self.workers.remove(worker)

    @rule()
    def leases_are_renewed(self) -> None:
        renew([worker.lease for worker in self.workers])

    @rule()
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
        if call := self._any(ToolCall.objects.exclude(approval=None), which):
            decide: Callable[..., None] = answers.grant if grants else answers.deny
            more = {"shown_at": None} if grants else {}
            self._ask(lambda: decide(call, by=self.person, binding=call.approval.binding, **more))

    @rule(which=st.integers(0, 3), verdict=st.sampled_from(["worked", "did-not", "again"]))
    def a_person_says_what_became_of_a_call(self, which: int, verdict: Any) -> None:
        call = self._any(ToolCall.objects.all(), which)
        if call and self._ask(lambda: answers.resolve(call, by=self.person, verdict=verdict)):
            self.words += [call.pk] * (verdict == "again")

    @rule()
    def a_person_stops(self) -> None:
        intake.stop(self.turn.conversation)

    @rule()
    def approvals_run_out(self) -> None:
        Approval.objects.update(expires_at=Now())
        recovery.expire_approvals()

    @rule(name=st.sampled_from(TOOLS))
    def a_tool_changes(self, name: str) -> None:
        ToolDefinition.objects.filter(service=self.service, name=name).update(is_current=False)

    # --- what always holds -------------------------------------------------------------------------
    @invariant()
    def a_call_that_will_not_run_stays_so(self) -> None:
        for call in ToolCall.objects.filter(turn=self.turn, state__in=NEVER_SENT_AFTER):
            assert self.closed.setdefault(call.pk, call.state) == call.state
        assert ToolCall.objects.filter(pk__in=self.closed).count() == len(self.closed)

    @invariant()
    def each_attempt_has_one_permit(self) -> None:
        for call in ToolCall.objects.filter(turn=self.turn, attempt__gt=0):
            assert call.permits.count() == call.attempt

    @invariant()
    def at_most_one_worker_has_the_turn(self) -> None:
        turn = Turn.objects.get(pk=self.turn.pk)
        held = [worker for worker in self.workers if worker.lease.owner == turn.lease_owner]
        assert len(held) <= 1

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

    # --- bookkeeping -------------------------------------------------------------------------------
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
        turn = Turn.objects.get(pk=self.turn.pk)
        is_held = (turn.lease_owner, turn.fence) == (worker.lease.owner, worker.lease.fence)
        try:
            with transaction.atomic():
                act()
        except LeaseLost:
            assert not is_held, "The worker that has the turn was turned away."
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

    def _any(self, calls: Any, which: int) -> ToolCall | None:
        found = list(calls.filter(turn=self.turn).select_related("approval"))
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
        assert approval is None or approval.state == Approval.State.GRANTED
        assert sending.attempt <= 1 + self.words.count(call.pk), "It is sent again without a word."


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
    run_state_machine_as_test(  # type: ignore[no-untyped-call]
        LedgerMachine,
        settings=settings(
            max_examples=60,
            stateful_step_count=25,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
