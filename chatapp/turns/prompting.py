"""How often people are asked, whatever about, and how they answer: too many questions tire people
until they say yes to anything, so it is measured."""

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import timedelta
from statistics import median

from django.utils import timezone

from chatapp.models import Turn

from .past_questions import PastQuestion, State, past_questions


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The questions of one kind, about one tool, to one person or of one day."""

    label: str
    asked: int
    granted: int
    denied: int
    unanswered: int
    still_open: int
    median_seconds: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompting:
    """`turns` counts the messages in that time, whether or not anybody was asked about them."""

    turns: int
    total: Asked
    by_kind: list[Asked]
    by_day: list[Asked]
    by_tool: list[Asked]
    by_person: list[Asked]

    @property
    def per_turn(self) -> float:
        return self.total.asked / self.turns if self.turns else 0.0


def prompting(days: int) -> Prompting:
    """The questions of the last days, days in the server's time zone."""
    since = timezone.now() - timedelta(days=days)
    found = list(past_questions(since))
    by_day = _grouped(found, lambda each: timezone.localtime(each.asked_at).date().isoformat())
    return Prompting(
        turns=Turn.objects.filter(created_at__gte=since).count(),
        total=_asked("", found),
        by_kind=_most_first(_grouped(found, lambda each: each.kind)),
        by_day=sorted(by_day, key=lambda each: each.label, reverse=True),
        by_tool=_most_first(_grouped(found, lambda each: each.tool)),
        by_person=_most_first(_grouped(found, lambda each: each.person)),
    )


def _grouped(found: Iterable[PastQuestion], by: Callable[[PastQuestion], str]) -> list[Asked]:
    groups = defaultdict(list)
    for each in found:
        groups[by(each)].append(each)
    return [_asked(label, members) for label, members in groups.items()]


def _most_first(rows: list[Asked]) -> list[Asked]:
    return sorted(rows, key=lambda each: (-each.asked, each.label))


def _asked(label: str, found: list[PastQuestion]) -> Asked:
    states = [each.state for each in found]
    took = [seconds for each in found if (seconds := each.seconds) is not None]
    return Asked(
        label=label,
        asked=len(found),
        granted=states.count(State.GRANTED),
        denied=states.count(State.DENIED),
        unanswered=states.count(State.EXPIRED) + states.count(State.WITHDRAWN),
        still_open=states.count(State.OPEN),
        median_seconds=median(took) if took else None,
    )
