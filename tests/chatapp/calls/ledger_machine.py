"""A world for the ledger, over the real database: workers that die, freeze and go stale, and people
who answer in any order. It knows what must hold at each send, at each write and at the end."""

import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from django.db import transaction
from django.db.models import Count, QuerySet
from django.db.models.functions import Now
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from chatapp.approvals import decisions
from chatapp.calls.deciding import decide_calls
from chatapp.calls.ledger import Sending, begin_sending, record_outcome, settle_orphans
from chatapp.calls.recheck import reopen_decisions
from chatapp.conversations import intake
from chatapp.engine import sweep
from chatapp.engine.ending import finish_turn, park_turn
from chatapp.engine.next_action import CallModel, Decide, Execute, Finish, Wait, next_action
from chatapp.engine.steps import Answer, close_step, open_step
from chatapp.engine.turn_state import read_turn
from chatapp.journal.lease import Lease, LeaseLost, acquire, release, renew
from chatapp.models import Approval, Member, Permit, ToolCall, Turn
from chatapp.people.refused import Refused
from chatapp.permissions.risk import Risk
from chatapp.providers.events import ToolCallReady
from chatapp.tools.catalogue import Catalogue, CatalogueTool
from mcpconfig.models import Service, ToolDefinition, ToolSetting

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
            name=f"things-{uuid.uuid4().hex[:8]}",
            url="https://things.example/mcp",
            visibility="everyone",
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
        ToolSetting.objects.create(
            service=self.service, name=name, level=level, confirmed_hash=definition.hash
        )
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
            reopen_decisions(lease)

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
        if not worker.lease.is_fresh:  # as the engine: is the turn still mine?
            renew([worker.lease])
        if not worker.lease.is_fresh:
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
            decide: Callable[..., None] = decisions.grant if grants else decisions.deny
            more = {"shown_at": None} if grants else {}
            self._ask(lambda: decide(call, by=self.person, binding=call.approval.binding, **more))

    @rule(which=st.integers(0, 3), verdict=st.sampled_from(["again", "worked", "did-not"]))
    def a_person_says_what_became_of_a_call(self, which: int, verdict: Any) -> None:
        call = self._any(self._calls(), which, State.UNKNOWN)
        if call and self._ask(lambda: decisions.resolve(call, by=self.person, verdict=verdict)):
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
                sweep.expire_approvals()
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
        waits = [State.AWAITING_APPROVAL, State.UNKNOWN, *ToolCall.PAUSED]
        asked = self.turn.tool_calls.filter(state__in=waits)
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
                close_step(lease, step, _said(asked), self.catalogue, turn.conversation.owner_id)
            case Decide(calls=calls):
                decide_calls(lease, calls, self.catalogue)
            case Execute(calls=calls):
                begun = [begin_sending(lease, call_id) for call_id in calls]
                worker.begun += [sending for sending in begun if sending is not None]
            case Wait():
                park_turn(lease, turn.signals)
            case Finish(reason=reason, sentence=sentence):
                finish_turn(lease, turn.signals, reason, sentence)

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


@contextmanager
def machine() -> Iterator[LedgerMachine]:
    """A machine that is driven by hand."""
    made = LedgerMachine()
    try:
        yield made
    finally:
        transaction.set_rollback(True)
        made.world.__exit__(None, None, None)
