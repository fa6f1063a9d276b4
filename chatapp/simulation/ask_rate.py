"""How often people are asked, about what, and how they answer. Too many questions teach people
to allow everything."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from statistics import median
from typing import Any

from django.db.models import Q
from django.utils import timezone
from django.utils.translation import gettext_lazy

from chatapp.models import Approval, Question, Review, Turn

State = Approval.State
TO_RUN, SECOND = gettext_lazy("Approval"), gettext_lazy("Second approval")
ANSWER, RESULT = gettext_lazy("Question from a service"), gettext_lazy("Review of a result")
STATES: dict[str, str] = {
    Question.State.ANSWERED: State.GRANTED,
    Question.State.DECLINED: State.DENIED,
    Question.State.CANCELLED: State.DENIED,
    Review.State.GIVEN: State.GRANTED,
    Review.State.HELD_BACK: State.DENIED,
}
OWNER = "tool_call__turn__conversation__owner__username"
ABOUT = ("state", "tool_call__tool_id", OWNER, "created_at", "shown_at")


@dataclass(frozen=True, slots=True, kw_only=True)
class PastQuestion:
    """One question to a person, with the answer. `state` is a state of `Approval` for every
    kind."""

    kind: str
    state: str
    tool: str
    person: str
    asked_at: datetime
    shown_at: datetime | None
    answered_at: datetime | None

    @property
    def seconds(self) -> float | None:
        """How long the person took to answer since a page first showed the question, or since it
        was asked if no page is known to have shown it; None without an answer."""
        if self.answered_at is None or self.state not in (State.GRANTED, State.DENIED):
            return None
        return (self.answered_at - (self.shown_at or self.asked_at)).total_seconds()


def load_past_questions(since: datetime) -> Iterator[PastQuestion]:
    """Yield the questions since that time. A call with a second signature counts as two
    questions, each with its own time."""
    yield from (each for each in _load_approvals(since) if each.asked_at >= since)
    yield from _load_answers(since)
    yield from _load_reviews(since)


def _load_approvals(since: datetime) -> Iterator[PastQuestion]:
    rows = Approval.objects.filter(Q(created_at__gte=since) | Q(first_at__gte=since))
    besides = ("first_at", "second_shown_at", "decided_by__username", "second__name")
    kind = str(TO_RUN)
    found = rows.values_list(*ABOUT, "decided_at", *besides)
    for *row, first_at, second_shown_at, by, name in found.iterator():
        whole = _build_question(kind, row)
        if first_at is None:
            yield whole
        else:
            yield replace(whole, state=State.GRANTED, answered_at=first_at)
            second = replace(whole, kind=str(SECOND), asked_at=first_at, shown_at=second_shown_at)
            yield _build_second(second, by, f"“{name}”")


def _build_second(asked: PastQuestion, by: str | None, name: str) -> PastQuestion:
    """Return the question to the second signer.

    Before an answer it names the group. If the requester withdrew their own signature, the second
    question has no answer.
    """
    if by is not None and by == asked.person:
        return replace(asked, state=State.WITHDRAWN, person=name)
    return replace(asked, person=by or name)


def _load_answers(since: datetime) -> Iterator[PastQuestion]:
    """Yield the questions of services. A round without requests is left out, because it asked
    nobody: the service only wanted to be called again later."""
    rows = Question.objects.filter(created_at__gte=since).exclude(requests=[])
    kind = str(ANSWER)
    for row in rows.values_list(*ABOUT, "answered_at").iterator():
        yield _build_question(kind, row)


def _load_reviews(since: datetime) -> Iterator[PastQuestion]:
    rows = Review.objects.filter(created_at__gte=since)
    kind = str(RESULT)
    for row in rows.values_list(*ABOUT, "decided_at").iterator():
        yield _build_question(kind, row)


def _build_question(kind: str, row: Sequence[Any]) -> PastQuestion:
    state, tool, person, asked_at, shown_at, answered_at = row
    return PastQuestion(
        kind=kind,
        state=STATES.get(state, state),
        tool=tool,
        person=person,
        asked_at=asked_at,
        shown_at=shown_at,
        answered_at=answered_at,
    )


# Nobody reads a card in less time.
QUICK_SECONDS = 2
# More are not counted for one page: the period begins later then.
MOST_QUESTIONS = 2_000
# With fewer approvals, nothing can be said about how a person reads.
LEAST_APPROVALS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionStats:
    """The questions of one kind, about one tool, to one person or of one day. `quick` counts the
    approvals within QUICK_SECONDS; `not_shown` counts the answers to questions that no page is
    known to have shown."""

    label: str
    asked: int
    granted: int
    quick: int
    denied: int
    unanswered: int
    still_open: int
    median_seconds: float | None
    not_shown: int

    @property
    def answered(self) -> int:
        return self.granted + self.denied

    @property
    def quick_percent(self) -> int:
        return round(100 * self.quick / self.granted) if self.granted else 0

    @property
    def is_hasty(self) -> bool:
        """Whether most of many approvals were quick."""
        return self.granted >= LEAST_APPROVALS and 2 * self.quick > self.granted


@dataclass(frozen=True, slots=True, kw_only=True)
class AskRate:
    """`turns` counts all messages in that time, with or without a question. `starts_at` is set if
    the time is shorter than it was asked for, because there are too many questions. Of the people,
    hasty ones come first."""

    starts_at: datetime | None
    turns: int
    total: QuestionStats
    by_kind: list[QuestionStats]
    by_day: list[QuestionStats]
    by_tool: list[QuestionStats]
    by_person: list[QuestionStats]

    @property
    def hasty(self) -> int:
        """How many people approve most of what they are asked without reading it."""
        return sum(each.is_hasty for each in self.by_person)

    @property
    def per_turn(self) -> float:
        return self.total.asked / self.turns if self.turns else 0.0


def measure_ask_rate(days: int) -> AskRate:
    """Measure the questions of the last days. Days are those of the server's time zone."""
    since = timezone.now() - timedelta(days=days)
    starts_at = _find_start(since)
    since = starts_at or since
    found = list(load_past_questions(since))
    people = _sort_by_count(_group(found, lambda each: each.person))
    by_day = _group(found, lambda each: timezone.localtime(each.asked_at).date().isoformat())
    return AskRate(
        starts_at=starts_at,
        turns=Turn.objects.filter(created_at__gte=since).count(),
        total=_build_stats("", found),
        by_kind=_sort_by_count(_group(found, lambda each: each.kind)),
        by_day=sorted(by_day, key=lambda each: each.label, reverse=True),
        by_tool=_sort_by_count(_group(found, lambda each: each.tool)),
        by_person=sorted(people, key=lambda each: not each.is_hasty),
    )


def _find_start(since: datetime) -> datetime | None:
    """Return the time since when there were MOST_QUESTIONS approvals, if there were more since
    then."""
    newest = Approval.objects.filter(created_at__gte=since).order_by("-created_at")
    return newest.values_list("created_at", flat=True)[MOST_QUESTIONS : MOST_QUESTIONS + 1].first()


def _group(found: Iterable[PastQuestion], by: Callable[[PastQuestion], str]) -> list[QuestionStats]:
    groups = defaultdict(list)
    for each in found:
        groups[by(each)].append(each)
    return [_build_stats(label, members) for label, members in groups.items()]


def _sort_by_count(rows: list[QuestionStats]) -> list[QuestionStats]:
    return sorted(rows, key=lambda each: (-each.asked, each.label))


def _build_stats(label: str, found: list[PastQuestion]) -> QuestionStats:
    states, times = [each.state for each in found], [each.seconds for each in found]
    took = [seconds for seconds in times if seconds is not None]
    return QuestionStats(
        label=label,
        asked=len(found),
        granted=states.count(State.GRANTED),
        quick=sum(map(_is_quick, states, times)),
        denied=states.count(State.DENIED),
        unanswered=states.count(State.EXPIRED) + states.count(State.WITHDRAWN),
        still_open=states.count(State.OPEN),
        median_seconds=median(took) if took else None,
        not_shown=sum(each.seconds is not None and each.shown_at is None for each in found),
    )


def _is_quick(state: str, seconds: float | None) -> bool:
    return state == State.GRANTED and seconds is not None and seconds < QUICK_SECONDS
