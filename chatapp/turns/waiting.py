"""What waits for one person, whoever asked: to be decided, answered, opened or looked at."""

import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db.models import DateTimeField, F, OuterRef, QuerySet, Subquery, Value
from django.db.models.expressions import Combinable
from django.utils import timezone

from chatapp.models import Member, Question, ToolCall
from chatapp.rendering.inbox import Found, Kind, Pile, Waiting

from .reviews import open_reviews
from .second_signatures import open_for

State = ToolCall.State
# Of each kind, on one page. Lists that are longer are answered from their beginning.
MOST_SHOWN = 50
# Nobody settles an outcome that is older: it is in the log, and on its card, where it still can be.
OUTCOMES_KEPT = timedelta(days=30)
# Asked in the same query as the calls: between two, a question may be answered.
OPEN = Question.objects.filter(state=Question.State.OPEN)


def waiting_for(person: Member) -> list[Pile]:
    """What waits for this person, by what is wanted: the oldest, and how many there are."""
    return _piles(person, MOST_SHOWN, besides=None)


def others(person: Member, call_id: uuid.UUID) -> list[Pile]:
    """The same without this call, and with no more of each kind than the very oldest."""
    return _piles(person, 1, besides=call_id)


def all_waiting_for(person: Member) -> list[Found]:
    """Everything that waits for this person, by what is wanted, the oldest first; without the
    calls, since it has no end."""
    return [each for kind in SOURCES for each in _values(kind, _found(person, kind, besides=None))]


def with_calls(found: Sequence[Found]) -> list[Waiting]:
    """The same with their calls, where they still have one."""
    return list(_with_calls(found, _calls(each.call_id for each in found)))


def count_for(person: Member) -> int:
    """How many things wait for this person: one query, for every page shows it."""
    first, *more = (source.calls(person).order_by().values("pk") for source in SOURCES.values())
    return first.union(*more, all=True).count()


def old_outcomes(person: Member) -> int:
    """How many calls of this person have an outcome that nobody knew for so long that they are no
    longer listed."""
    return _unknown(person).filter(sent_at__lt=timezone.now() - OUTCOMES_KEPT).count()


def _piles(person: Member, most: int, besides: uuid.UUID | None) -> list[Pile]:
    piles = []
    for kind in SOURCES:
        found = _found(person, kind, besides)
        oldest = _values(kind, found[:most])
        count = found.count() if len(oldest) == most else len(oldest)
        if count:
            piles.append((kind, oldest, count))
    calls = _calls(each.call_id for _kind, oldest, _count in piles for each in oldest)
    return [
        Pile(kind=kind, waiting=_with_calls(oldest, calls), count=count)
        for kind, oldest, count in piles
    ]


def _found(person: Member, kind: Kind, besides: uuid.UUID | None) -> QuerySet[ToolCall, Any]:
    source = SOURCES[kind]
    rows = source.calls(person).annotate(since=source.since, until=source.expires_at)
    if besides is not None:
        rows = rows.exclude(pk=besides)
    # What has no time comes after the others.
    oldest_first = rows.order_by(F("since").asc(nulls_last=True), "pk")
    return oldest_first.values_list("pk", "since", "until")


def _values(kind: Kind, rows: Iterable[tuple[uuid.UUID, datetime | None, Any]]) -> list[Found]:
    return [
        Found(kind=kind, call_id=call_id, since=since, expires_at=until)
        for call_id, since, until in rows
    ]


def _calls(ids: Iterable[uuid.UUID]) -> dict[uuid.UUID, ToolCall]:
    related = ("turn__conversation__owner", "service", "definition", "approval", "review")
    # No list shows results, which can be long.
    return ToolCall.objects.select_related(*related).defer("result").in_bulk(list(ids))


def _with_calls(found: Sequence[Found], calls: dict[uuid.UUID, ToolCall]) -> tuple[Waiting, ...]:
    return tuple(
        Waiting(
            kind=each.kind,
            call_id=each.call_id,
            since=each.since,
            expires_at=each.expires_at,
            call=calls[each.call_id],
        )
        for each in found
        if each.call_id in calls
    )


def _own(person: Member) -> QuerySet[ToolCall]:
    return ToolCall.objects.filter(turn__conversation__owner=person)


def _approvals(person: Member) -> QuerySet[ToolCall]:
    unsigned = _own(person).filter(state=State.AWAITING_APPROVAL)
    return unsigned.exclude(approval__first_at__isnull=False)


def _asked(person: Member) -> QuerySet[ToolCall]:
    """Calls that wait for answers, also those whose connection is open meanwhile."""
    asking = [State.AWAITING_INPUT, State.SENDING]
    return _own(person).filter(pk__in=OPEN.values("tool_call"), state__in=asking)


def _sign_ins(person: Member) -> QuerySet[ToolCall]:
    return _own(person).filter(state=State.AWAITING_SIGN_IN)


def _unknown(person: Member) -> QuerySet[ToolCall]:
    return _own(person).filter(state=State.UNKNOWN)


def _lost(person: Member) -> QuerySet[ToolCall]:
    return _unknown(person).exclude(sent_at__lt=timezone.now() - OUTCOMES_KEPT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where one kind is found, since when it waits, and until when."""

    calls: Callable[[Member], QuerySet[ToolCall]]
    since: Combinable
    expires_at: Combinable


LATEST = OPEN.filter(tool_call=OuterRef("pk")).order_by("-round")
SOURCES: dict[Kind, Source] = {
    "approval": Source(
        calls=_approvals, since=F("approval__created_at"), expires_at=F("approval__expires_at")
    ),
    "second": Source(
        calls=open_for, since=F("approval__first_at"), expires_at=F("approval__expires_at")
    ),
    "question": Source(
        calls=_asked,
        since=Subquery(LATEST.values("created_at")[:1]),
        expires_at=Subquery(LATEST.values("expires_at")[:1]),
    ),
    "sign_in": Source(calls=_sign_ins, since=F("sent_at"), expires_at=F("waits_until")),
    "outcome": Source(
        calls=_lost, since=F("sent_at"), expires_at=Value(None, output_field=DateTimeField())
    ),
    "review": Source(
        calls=open_reviews, since=F("review__created_at"), expires_at=F("review__expires_at")
    ),
}
