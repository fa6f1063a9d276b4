"""`next_action` alone, as a state machine: whatever order events come in, nothing runs unasked
or twice."""

import uuid
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from chatapp.calls.attempts import MAX_ATTEMPTS
from chatapp.engine.next_action import (
    OVER,
    Budget,
    CallModel,
    CallState,
    Decide,
    Execute,
    Finish,
    StepState,
    TurnState,
    Wait,
    next_action,
)

NOTHING = Budget(steps=0, seconds=0, tokens=0, calls=0)
LIMIT = Budget(steps=4, seconds=100, tokens=10_000, calls=8)
FRESH = TurnState(stop_requested=False, step=None, used=NOTHING, limit=LIMIT)


def a_step(*states: str, state: str = "done", finish_reason: str = "tool_calls") -> StepState:
    calls = tuple(CallState(id=uuid.uuid4(), state=s) for s in states)
    return StepState(number=1, state=state, finish_reason=finish_reason, calls=calls)


def test_a_new_turn_asks_the_model() -> None:
    assert next_action(FRESH) == CallModel(number=1)


def test_a_step_whose_worker_died_is_asked_anew() -> None:
    assert next_action(replace(FRESH, step=a_step(state="calling"))) == CallModel(number=1)


def test_a_step_that_has_ended_too_many_workers_is_not_asked_anew() -> None:
    step = a_step(state="calling")
    last = replace(FRESH, step=replace(step, attempt=MAX_ATTEMPTS - 1))
    assert next_action(last) == CallModel(number=1)
    end = next_action(replace(FRESH, step=replace(step, attempt=MAX_ATTEMPTS)))
    assert isinstance(end, Finish)
    assert end.reason == "failed"
    assert f"{MAX_ATTEMPTS} times" in end.sentence


def test_a_step_that_came_to_its_end_at_last_is_like_any_other() -> None:
    step = replace(a_step("succeeded"), attempt=MAX_ATTEMPTS)
    assert next_action(replace(FRESH, step=step)) == CallModel(number=2)


def test_approved_calls_wait_until_every_call_of_the_step_is_decided() -> None:
    step = a_step("approved", "awaiting_approval")
    assert next_action(replace(FRESH, step=step)) == Wait(calls=(step.calls[1].id,))


def test_decided_calls_run_together() -> None:
    step = a_step("approved", "denied", "approved")
    expected = Execute(calls=(step.calls[0].id, step.calls[2].id))
    assert next_action(replace(FRESH, step=step)) == expected


def test_an_unknown_outcome_waits_for_a_person() -> None:
    step = a_step("succeeded", "unknown")
    assert next_action(replace(FRESH, step=step)) == Wait(calls=(step.calls[1].id,))


@pytest.mark.parametrize("state", ["succeeded", "failed"])
def test_a_result_that_nobody_has_looked_at_yet_waits_for_a_person(state: str) -> None:
    seen, unseen = a_step("succeeded", state).calls
    step = replace(a_step(), calls=(seen, replace(unseen, is_held=True)))
    assert next_action(replace(FRESH, step=step)) == Wait(calls=(unseen.id,))


def test_other_calls_run_while_a_result_waits_to_be_looked_at() -> None:
    unseen, ready = a_step("succeeded", "approved").calls
    step = replace(a_step(), calls=(replace(unseen, is_held=True), ready))
    assert next_action(replace(FRESH, step=step)) == Execute(calls=(ready.id,))


def test_a_state_that_this_version_does_not_know_waits() -> None:
    step = a_step("teleported")
    assert next_action(replace(FRESH, step=step)) == Wait(calls=(step.calls[0].id,))


def test_the_model_is_asked_again_when_every_call_has_an_outcome() -> None:
    step = a_step("succeeded", "failed", "denied", "expired")
    assert next_action(replace(FRESH, step=step)) == CallModel(number=2)


@pytest.mark.parametrize(
    ("finish_reason", "reason"),
    [("stop", "complete"), ("length", "length"), ("refused", "refused"), ("filtered", "filtered")],
)
def test_an_answer_without_calls_ends_the_turn(finish_reason: str, reason: str) -> None:
    action = next_action(replace(FRESH, step=a_step(finish_reason=finish_reason)))
    assert isinstance(action, Finish)
    assert action.reason == reason


@pytest.mark.parametrize("field", ["steps", "seconds", "tokens", "calls"])
def test_each_budget_ends_the_turn_with_a_sentence(field: str) -> None:
    used = replace(NOTHING, **{field: getattr(LIMIT, field)})
    action = next_action(replace(FRESH, step=a_step("succeeded"), used=used))
    assert isinstance(action, Finish)
    assert action.reason == "budget"
    assert "limit" in action.sentence


def test_stop_wins_over_everything() -> None:
    stopped = replace(FRESH, stop_requested=True, step=a_step("approved"))
    assert next_action(stopped) == Finish(reason="stopped")


class TurnMachine(RuleBasedStateMachine):
    """A turn in a world of impatient people, forgetful services and dying workers."""

    def __init__(self) -> None:
        super().__init__()
        self.turn = FRESH
        self.permits: dict[uuid.UUID, int] = {}
        self.executions: dict[uuid.UUID, int] = {}
        self.ended: Finish | None = None
        self.deaths = 0
        self.wants_review = False

    # --- the world ---------------------------------------------------------------------------
    @rule(answers=st.lists(st.booleans(), max_size=3))
    @precondition(lambda self: self.ended is None)
    def a_worker_moves_the_turn(self, answers: list[bool]) -> None:
        match next_action(self.turn):
            case CallModel(number=number):
                self._model_answers(number, len(answers))
            case Decide(calls=calls):
                for call, may_run in zip(calls, [*answers, True, True, True], strict=False):
                    self._set(call, "approved" if may_run else "awaiting_approval")
                    self.permits[call] = self.permits.get(call, 0) + may_run
            case Execute(calls=calls):
                for call, works in zip(calls, [*answers, True, False, True], strict=False):
                    self.executions[call] = self.executions.get(call, 0) + 1
                    self._set(call, "succeeded" if works else "unknown")
                    self._hold(call, self.wants_review and works)
            case Finish() as end:
                self.ended = end
            case Wait():
                pass

    @rule()
    @precondition(lambda self: self.ended is None)
    def a_worker_dies_while_it_sends(self) -> None:
        action = next_action(self.turn)
        if isinstance(action, Execute):
            self.executions[action.calls[0]] = self.executions.get(action.calls[0], 0) + 1
            self._set(action.calls[0], "unknown")

    @rule()
    @precondition(lambda self: self.ended is None)
    def a_worker_dies_while_the_model_answers(self) -> None:
        action = next_action(self.turn)
        if isinstance(action, CallModel):
            self.deaths += 1
            step = self.turn.step
            is_new = step is None or step.number != action.number
            begun = replace(a_step(state="calling", finish_reason=""), number=action.number)
            attempt = 1 if is_new or step is None else step.attempt + 1
            self.turn = replace(self.turn, step=replace(begun, attempt=attempt))

    @rule(word=st.sampled_from(["approved", "denied", "expired", "withdrawn"]))
    def a_person_answers(self, word: str) -> None:
        for call in self._calls("awaiting_approval"):
            self._set(call, word)
            self.permits[call] = self.permits.get(call, 0) + (word == "approved")

    @rule(word=st.sampled_from(["succeeded", "failed", "approved"]))
    def a_person_resolves_an_unknown_outcome(self, word: str) -> None:
        for call in self._calls("unknown"):
            self._set(call, word)
            self.permits[call] = self.permits.get(call, 0) + (word == "approved")

    @rule(wants=st.booleans())
    def an_admin_says_whether_results_are_reviewed(self, wants: bool) -> None:
        self.wants_review = wants

    @rule()
    def a_person_looks_at_a_result(self) -> None:
        for call in self._held()[:1]:
            self._hold(call, False)

    @rule()
    def a_person_stops(self) -> None:
        self.turn = replace(self.turn, stop_requested=True)

    # --- what always holds --------------------------------------------------------------------
    @invariant()
    def no_call_runs_without_a_permit_or_twice_on_one(self) -> None:
        for call, times in self.executions.items():
            assert times <= self.permits.get(call, 0)

    @invariant()
    def no_model_call_takes_more_than_a_few_workers_with_it(self) -> None:
        assert self.turn.step is None or self.turn.step.attempt <= MAX_ATTEMPTS
        assert self.deaths <= MAX_ATTEMPTS * LIMIT.steps

    @invariant()
    def asking_twice_gives_the_same_action(self) -> None:
        assert next_action(self.turn) == next_action(self.turn)

    @invariant()
    def waiting_is_for_somebody_who_can_answer(self) -> None:
        action = next_action(self.turn)
        if isinstance(action, Wait):
            assert action.calls
            assert set(action.calls) <= {
                *self._calls("awaiting_approval"),
                *self._calls("unknown"),
                *self._held(),
            }

    @invariant()
    def no_model_is_asked_while_a_result_waits_for_a_look(self) -> None:
        assert not self._held() or not isinstance(next_action(self.turn), CallModel)

    def teardown(self) -> None:
        """Left to itself, the turn comes to rest within a bound."""
        for _ in range(50):
            if self.ended is not None or isinstance(next_action(self.turn), Wait):
                return
            self.a_worker_moves_the_turn([True, True])
        raise AssertionError("The turn never comes to rest.")

    # --- bookkeeping ----------------------------------------------------------------------------
    def _model_answers(self, number: int, calls: int) -> None:
        step = replace(
            a_step(*["proposed"] * calls, finish_reason="tool_calls" if calls else "stop"),
            number=number,
        )
        used = replace(self.turn.used, steps=self.turn.used.steps + 1)
        self.turn = replace(self.turn, step=step, used=used)

    def _calls(self, state: str) -> list[uuid.UUID]:
        calls = self.turn.step.calls if self.turn.step else ()
        return [call.id for call in calls if call.state == state]

    def _held(self) -> list[uuid.UUID]:
        calls = self.turn.step.calls if self.turn.step else ()
        return [call.id for call in calls if call.is_held]

    def _hold(self, call_id: uuid.UUID, is_held: bool) -> None:
        step = self.turn.step
        assert step is not None
        calls = tuple(replace(c, is_held=is_held) if c.id == call_id else c for c in step.calls)
        self.turn = replace(self.turn, step=replace(step, calls=calls))

    def _set(self, call_id: uuid.UUID, state: str) -> None:
        step = self.turn.step
        assert step is not None
        current = next(call for call in step.calls if call.id == call_id)
        assert current.state not in OVER, "A call that is over never changes."
        calls = tuple(replace(c, state=state) if c.id == call_id else c for c in step.calls)
        self.turn = replace(self.turn, step=replace(step, calls=calls))


TurnMachine.TestCase.settings = settings(
    max_examples=200,
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=[HealthCheck.filter_too_much],
)
TestTurnMachine = TurnMachine.TestCase
