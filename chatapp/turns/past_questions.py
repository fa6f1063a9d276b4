"""What people were asked, as it is stored: each question with whoever it was for, and their answer.

A call that two people sign was two questions, each with a time of its own.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from django.db.models import Q

from chatapp.models import Approval, Question, Review

State = Approval.State
TO_RUN, SECOND = "Run it or not", "Second signature"
ANSWER, RESULT = "Answer a question", "Look at a result"
STATES: dict[str, str] = {
    Question.State.ANSWERED: State.GRANTED,
    Question.State.DECLINED: State.DENIED,
    Question.State.CANCELLED: State.DENIED,
    Review.State.GIVEN: State.GRANTED,
    Review.State.HELD_BACK: State.DENIED,
}
OWNER = "tool_call__turn__conversation__owner__username"
ABOUT = ("state", "tool_call__tool_id", OWNER, "created_at")


@dataclass(frozen=True, slots=True, kw_only=True)
class PastQuestion:
    """`state` is that of an approval, whatever was asked."""

    kind: str
    state: str
    tool: str
    person: str
    asked_at: datetime
    answered_at: datetime | None

    @property
    def seconds(self) -> float | None:
        """How long it took a person to answer."""
        if self.answered_at is None or self.state not in (State.GRANTED, State.DENIED):
            return None
        return (self.answered_at - self.asked_at).total_seconds()


def past_questions(since: datetime) -> Iterator[PastQuestion]:
    yield from (each for each in _approvals(since) if each.asked_at >= since)
    yield from _answers(since)
    yield from _reviews(since)


def _approvals(since: datetime) -> Iterator[PastQuestion]:
    rows = Approval.objects.filter(Q(created_at__gte=since) | Q(first_at__gte=since))
    besides = ("first_at", "decided_by__username", "second__name")
    for *row, first_at, by, name in rows.values_list(*ABOUT, "decided_at", *besides).iterator():
        whole = _asked(TO_RUN, row)
        if first_at is None:
            yield whole
        else:
            yield replace(whole, state=State.GRANTED, answered_at=first_at)
            yield _second(replace(whole, kind=SECOND, asked_at=first_at), by, f"“{name}”")


def _second(asked: PastQuestion, by: str | None, name: str) -> PastQuestion:
    """Nobody in particular is asked until somebody answers; a requester who takes their own
    signature back leaves the others without an answer."""
    if by is not None and by == asked.person:
        return replace(asked, state=State.WITHDRAWN, person=name)
    return replace(asked, person=by or name)


def _answers(since: datetime) -> Iterator[PastQuestion]:
    """A round without requests asked nobody: the service only wanted to be asked again later."""
    rows = Question.objects.filter(created_at__gte=since).exclude(requests=[])
    for row in rows.values_list(*ABOUT, "answered_at").iterator():
        yield _asked(ANSWER, row)


def _reviews(since: datetime) -> Iterator[PastQuestion]:
    rows = Review.objects.filter(created_at__gte=since)
    for row in rows.values_list(*ABOUT, "decided_at").iterator():
        yield _asked(RESULT, row)


def _asked(kind: str, row: Sequence[Any]) -> PastQuestion:
    state, tool, person, asked_at, answered_at = row
    return PastQuestion(
        kind=kind,
        state=STATES.get(state, state),
        tool=tool,
        person=person,
        asked_at=asked_at,
        answered_at=answered_at,
    )
