"""Answers to programs, made of rows: nothing is told that nobody gave, and what is not finished
says so."""

import json
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from chatapp.api.outcomes import describe_outcome, describe_turn
from chatapp.context.withheld_results import hash_result
from chatapp.models import Member, Review, ToolCall, Turn
from chatapp.views.api.openai_response import build_completion
from tests.turns import rows

pytestmark = pytest.mark.django_db
State = ToolCall.State
SECRET = "The password is mellon."
FOUND = {"content": [{"type": "text", "text": SECRET}], "structured": {"said": SECRET}}


def read_response(person: Member, state: str, review: str) -> ToolCall:
    """A call that brought something back, and what became of the look at it."""
    made = rows.turn(person, Turn.State.DONE)
    error = {"kind": "tool", "message": SECRET, "hint": ""} if state == State.FAILED else None
    call = rows.call(made, {}, state, result=FOUND, error=error)
    Review.objects.create(
        tool_call=call,
        binding=hash_result(ToolCall.objects.get(pk=call.pk)),
        state=review,
        expires_at=timezone.now() + timedelta(days=7),
    )
    return ToolCall.objects.get(pk=call.pk)


def all_that_is_told(call: ToolCall) -> str:
    outcome = describe_outcome(call)
    turn = Turn.objects.get(pk=call.turn_id)
    told: list[Any] = [
        outcome.text,
        outcome.structured,
        build_completion(turn, describe_turn(turn)),
    ]
    return json.dumps(told)


@pytest.mark.parametrize("state", [State.SUCCEEDED, State.FAILED])
@pytest.mark.parametrize("review", sorted({*Review.State.values} - {Review.State.GIVEN}))
def test_a_result_that_nobody_gave_reaches_no_program(
    owner: Member, state: str, review: str
) -> None:
    call = read_response(owner, state, review)
    assert SECRET not in all_that_is_told(call)


@pytest.mark.parametrize("state", [State.SUCCEEDED, State.FAILED])
def test_a_result_that_was_given_reaches_the_program(owner: Member, state: str) -> None:
    assert SECRET in all_that_is_told(read_response(owner, state, Review.State.GIVEN))


@pytest.mark.parametrize("state", [Turn.State.QUEUED, Turn.State.RUNNING])
def test_an_answer_that_is_still_written_is_called_cut_short_and_says_where_it_goes_on(
    owner: Member, state: str
) -> None:
    turn = rows.turn(owner, state)
    rows.said(turn, "First")
    told = build_completion(turn, describe_turn(turn))
    (choice,) = told["choices"]
    assert choice["finish_reason"] == "length"
    assert choice["message"]["content"].startswith("First\n\nThe answer is not finished.")
    assert told["countersign"]["url"] in choice["message"]["content"]


def test_an_answer_that_is_over_says_nothing_of_that(owner: Member) -> None:
    turn = rows.turn(owner, Turn.State.DONE, reason="complete")
    rows.said(turn, "First")
    (choice,) = build_completion(turn, describe_turn(turn))["choices"]
    assert (choice["finish_reason"], choice["message"]["content"]) == ("stop", "First")
