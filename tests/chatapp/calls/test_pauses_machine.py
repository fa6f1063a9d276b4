"""The ledger's world with services that want something first: whatever order things come in, every
leg has a permit of its own, none goes out before somebody brought what was wanted, and the turn
rests."""

from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule, run_state_machine_as_test

from chatapp.approvals import decisions, questions, sign_ins
from chatapp.calls.pausing import pause_for_answer, pause_for_sign_in
from chatapp.models import Question, ToolCall
from mcpconfig.values.results import InputRequest, InputRequired

from .ledger_machine import SEEN, LedgerMachine

pytestmark = pytest.mark.gate

State = ToolCall.State
ASKED = InputRequired(
    requests=(InputRequest(key="k", mode="form", message="Sure?", schema={"properties": {}}),),
    request_state="where it was",
)
ERROR = {"kind": "sign_in_needed", "message": "It wants a sign-in.", "hint": ""}


class PausingMachine(LedgerMachine):
    """What services, people and time may do about pauses, beside all else."""

    @rule(which=st.integers(0, 3), what=st.sampled_from(["answer", "sign_in"]))
    @precondition(lambda self: any(worker.sent for worker in self.workers))
    def a_service_wants_something_first(self, which: int, what: str) -> None:
        able = [worker for worker in self.workers if worker.sent]
        worker = able[which % len(able)]
        sending = worker.sent.pop(0)
        SEEN[what] += 1
        if what == "answer":
            self._as(worker, lambda: pause_for_answer(worker.lease, sending, ASKED))
        else:
            self._as(worker, lambda: pause_for_sign_in(worker.lease, sending, ERROR))

    @rule(what=st.sampled_from(["answer", "sign_in"]), goes_on=st.booleans())
    def a_call_pauses(self, what: str, goes_on: bool) -> None:
        """The usual course, so that the unusual one has something to go wrong in."""
        self.a_worker_comes_and_works(["read_thing"], [None])
        if any(worker.sent for worker in self.workers):
            self.a_service_wants_something_first(-1, what)
        if goes_on:
            self.a_person_answers(-1, "accept")
            self.a_person_meets_a_sign_in(True)
            self.a_worker_comes_and_works(["read_thing"], [State.SUCCEEDED])

    @rule(which=st.integers(0, 3), action=st.sampled_from(["accept", "decline", "cancel"]))
    def a_person_answers(self, which: int, action: Any) -> None:
        """Any question that was ever asked: late and doubled answers are tried, too."""
        asked = list(Question.objects.filter(tool_call__in=self._calls()))
        if asked:
            question = asked[which % len(asked)]
            given = lambda: questions.answer(  # noqa: E731
                question, by=self.person, action=action, values={}
            )
            if self._ask(given):
                self.words.append(question.tool_call_id)
                SEEN["answered"] += 1

    @rule(signs_in=st.booleans())
    def a_person_meets_a_sign_in(self, signs_in: bool) -> None:
        waiting = list(self._calls().filter(state=State.AWAITING_SIGN_IN))
        if signs_in:
            sign_ins.approve_waiting(self.service, self.person.pk)
            self.words += [call.pk for call in waiting]
        elif waiting:
            self._ask(lambda: sign_ins.decline_sign_in(waiting[0], by=self.person))

    @rule(which=st.integers(0, 3), what=st.sampled_from(["cancel", "late", "", ""]))
    def somebody_or_time_gives_up(self, which: int, what: str) -> None:
        if what == "late":
            Question.objects.update(expires_at="2020-01-01T00:00:00Z")
            questions.expire_questions()
        elif what and (call := self._any(self._calls(), which, State.APPROVED)):
            self._ask(lambda: decisions.cancel_call(call))


@pytest.mark.django_db
@pytest.mark.timeout(300)
def test_nothing_goes_out_unasked_or_twice_however_pauses_fall() -> None:
    SEEN.clear()
    run_state_machine_as_test(
        PausingMachine,
        settings=settings(
            max_examples=10,
            derandomize=True,
            stateful_step_count=30,
            deadline=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        ),
    )
    assert SEEN["answer"] and SEEN["sign_in"] and SEEN["answered"] and SEEN["sent again"], SEEN
