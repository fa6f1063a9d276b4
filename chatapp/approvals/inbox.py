"""The calls that wait for one person: approvals, questions, sign-ins, outcomes and reviews."""

import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from functools import lru_cache
from typing import Any

from django.db import connection
from django.db.models import DateTimeField, F, OuterRef, QuerySet, Subquery, Value
from django.db.models.expressions import Combinable
from django.http import Http404
from django.utils import timezone

from chatapp.models import Approval, Member, Project, Question, ToolCall
from chatapp.people.second_signers import filter_signing, find_waiting_calls, get_call
from chatapp.rendering.pages.inbox import Kind, WaitingCall, WaitingGroup, WaitingItem
from chatapp.server.database import from_now
from chatapp.server.time_zones import get_server_day
from mcpconfig.models import Service
from mcpconfig.secrets.credentials import has_personal_headers
from mcpconfig.services.sharing import can_sign_in
from mcpconfig.values.service_admins import manages_services

from .attention_checks import build_waiting_call, filter_open, find_open
from .reviews import filter_open_reviews

State = ToolCall.State
# Of each kind, on one page. The oldest come first.
MAX_SHOWN = 50
# Older outcomes are not listed. They can still be resolved on their card.
OUTCOMES_KEPT = timedelta(days=30)
KEPT_SINCE = from_now(days=-OUTCOMES_KEPT.days)
# No person has this id.
NOBODY = -1
# Part of the query for the calls: between two queries, a question may be answered.
OPEN = Question.objects.filter(state=Question.State.OPEN)


def list_waiting(person: Member, opened: ToolCall | None = None) -> list[WaitingGroup]:
    """Return what waits for this person by kind: the oldest calls, and the number of all. The call
    whose card is open stays in its place after its approval is answered."""
    piles = _add_check(_build_piles(person, MAX_SHOWN, besides=None), person)
    if opened is None or any(opened.pk == each.call_id for pile in piles for each in pile.waiting):
        return piles
    approval: Approval | None = getattr(opened, "approval", None)
    return _add_opened(piles, person, opened, approval) if approval else piles


def _add_check(piles: list[WaitingGroup], person: Member) -> list[WaitingGroup]:
    """Put an attention check among the approvals, by its age."""
    check = find_open(person)
    if check is None:
        return piles
    found = {pile.kind: pile for pile in piles}
    group = found.get("approval") or WaitingGroup(kind="approval", waiting=(), count=0)
    rows = sorted(
        [*group.waiting, build_waiting_call(check)], key=lambda each: each.since or timezone.now()
    )
    found["approval"] = WaitingGroup(kind="approval", waiting=tuple(rows), count=group.count + 1)
    return [found[kind] for kind in SOURCES if kind in found]


def _add_opened(
    piles: list[WaitingGroup], person: Member, opened: ToolCall, approval: Approval
) -> list[WaitingGroup]:
    is_own = opened.turn.conversation.owner_id == person.pk
    item = WaitingItem(
        kind="approval" if is_own else "second",
        call_id=opened.pk,
        since=approval.created_at if is_own else approval.first_at,
        expires_at=None,
    )
    found = {pile.kind: pile for pile in piles}
    group = found.get(item.kind) or WaitingGroup(kind=item.kind, waiting=(), count=0)
    rows = [*group.waiting, *_add_calls([item], _load_calls([opened.pk]))]
    rows.sort(key=lambda each: each.since or timezone.now())
    found[item.kind] = WaitingGroup(kind=item.kind, waiting=tuple(rows), count=group.count + 1)
    return [found[kind] for kind in SOURCES if kind in found]


def get_opened(person: Member, call_id: uuid.UUID) -> ToolCall:
    """Return a call whose card this person can open in the inbox, answered or not. Raises
    Http404."""
    call = get_call(person, call_id)
    if getattr(call, "approval", None) is None:
        raise Http404("Nobody was asked about this call.")
    return call


def list_others(person: Member, call_id: uuid.UUID) -> list[WaitingGroup]:
    """Do the same without this call, and with the oldest call of each kind only."""
    return _build_piles(person, 1, besides=call_id)


def list_all_waiting(person: Member) -> list[WaitingItem]:
    """Return everything that waits for this person by kind, oldest first. It may be long, so the
    rows of the calls are not loaded."""
    return [
        each
        for kind in SOURCES
        for each in _build_found(kind, _filter_waiting(person, kind, besides=None))
    ]


def add_calls(found: Sequence[WaitingItem]) -> list[WaitingCall]:
    """Return these with the rows of their calls, without those whose call is gone."""
    return list(_add_calls(found, _load_calls(each.call_id for each in found)))


def count_waiting(person: Member) -> int:
    """Count what waits for this person, in one query, as every page shows the number."""
    return read_person_facts(person).waiting


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonFacts:
    """What the frame of each page shows of a person: how many calls wait for them, whether they
    give second signatures, and whether a service of theirs may show apps."""

    waiting: int
    is_approver: bool
    has_apps: bool
    has_projects: bool


def read_person_facts(person: Member) -> PersonFacts:
    sql, parameters = _compile_facts(get_server_day(), manages_services(person))
    with connection.cursor() as cursor:
        cursor.execute(sql, [person.pk if each == NOBODY else each for each in parameters])
        waiting, is_approver, has_apps, has_projects = cursor.fetchone()
    return PersonFacts(
        waiting=waiting,
        is_approver=bool(is_approver),
        has_apps=bool(has_apps),
        has_projects=bool(has_projects),
    )


# The ORM takes twenty times as long to build this statement as a database to run it. The right of
# delegates depends on the day.
@lru_cache(maxsize=4)
def _compile_facts(day: date, manages: bool) -> tuple[str, tuple[Any, ...]]:
    """Return the statement and its parameters, with the id `NOBODY` in the places of a
    person's."""
    person = Member(pk=NOBODY, is_staff=manages, is_superuser=manages)
    first, *more = (source.calls(person).order_by().values("pk") for source in SOURCES.values())
    # An attention check counts as a request: a number without it would give it away.
    checks = filter_open(person).order_by().values("pk")
    waiting, of_waiting = first.union(*more, checks, all=True).query.sql_with_params()
    signs, of_signs = filter_signing(person).values("pk").query.sql_with_params()
    with_apps = Service.objects.for_member(person).filter(allows_apps=True).order_by()
    apps, of_apps = with_apps.values("pk").query.sql_with_params()
    joined = Project.filter_active(person).order_by().values("pk")
    projects, of_projects = joined.query.sql_with_params()
    # All parts are made by the ORM, without a value in them.
    facts = f"EXISTS ({signs}), EXISTS ({apps}), EXISTS ({projects})"
    sql = f"SELECT (SELECT COUNT(*) FROM ({waiting}) waiting), {facts}"  # noqa: S608
    return sql, (*of_waiting, *of_signs, *of_apps, *of_projects)


def count_old_outcomes(person: Member) -> int:
    """Count the calls of this person with an unknown outcome that are too old to be listed."""
    return _filter_unknown(person).filter(sent_at__lt=KEPT_SINCE).count()


def _build_piles(person: Member, most: int, besides: uuid.UUID | None) -> list[WaitingGroup]:
    piles = []
    for kind in SOURCES:
        found = _filter_waiting(person, kind, besides)
        oldest = _build_found(kind, found[:most])
        count = found.count() if len(oldest) == most else len(oldest)
        if count:
            piles.append((kind, oldest, count))
    calls = _load_calls(each.call_id for _kind, oldest, _count in piles for each in oldest)
    return [
        WaitingGroup(kind=kind, waiting=_add_calls(oldest, calls), count=count)
        for kind, oldest, count in piles
    ]


def _filter_waiting(
    person: Member, kind: Kind, besides: uuid.UUID | None
) -> QuerySet[ToolCall, Any]:
    source = SOURCES[kind]
    rows = source.calls(person).annotate(since=source.since, until=source.expires_at)
    if besides is not None:
        rows = rows.exclude(pk=besides)
    # Rows without a time come last.
    oldest_first = rows.order_by(F("since").asc(nulls_last=True), "pk")
    return oldest_first.values_list("pk", "since", "until")


def _build_found(
    kind: Kind, rows: Iterable[tuple[uuid.UUID, datetime | None, Any]]
) -> list[WaitingItem]:
    return [
        WaitingItem(kind=kind, call_id=call_id, since=since, expires_at=until)
        for call_id, since, until in rows
    ]


def _load_calls(ids: Iterable[uuid.UUID]) -> dict[uuid.UUID, ToolCall]:
    related = ("turn__conversation__owner", "service", "definition", "approval", "review")
    # Lists do not show results, which can be long.
    return ToolCall.objects.select_related(*related).defer("result").in_bulk(list(ids))


def _names_person(call: ToolCall) -> bool:
    return call.service is not None and has_personal_headers(call.service)


def _needs_admin(call: ToolCall) -> bool:
    person = call.turn.conversation.owner
    return call.service is not None and not can_sign_in(call.service, person)


def _add_calls(
    found: Sequence[WaitingItem], calls: dict[uuid.UUID, ToolCall]
) -> tuple[WaitingCall, ...]:
    return tuple(
        WaitingCall(
            kind=each.kind,
            call_id=each.call_id,
            since=each.since,
            expires_at=each.expires_at,
            call=calls[each.call_id],
            names_person=_names_person(calls[each.call_id]),
            needs_admin=_needs_admin(calls[each.call_id]),
        )
        for each in found
        if each.call_id in calls
    )


def _filter_own(person: Member) -> QuerySet[ToolCall]:
    return ToolCall.objects.filter(
        turn__conversation__owner=person, turn__conversation__deleted_at=None
    )


def _filter_approvals(person: Member) -> QuerySet[ToolCall]:
    unsigned = _filter_own(person).filter(state=State.AWAITING_APPROVAL)
    return unsigned.exclude(approval__first_at__isnull=False)


def _filter_asking(person: Member) -> QuerySet[ToolCall]:
    """Return the calls that wait for answers, also those that keep a connection open."""
    asking = [State.AWAITING_INPUT, State.SENDING]
    return _filter_own(person).filter(pk__in=OPEN.values("tool_call"), state__in=asking)


def _filter_sign_ins(person: Member) -> QuerySet[ToolCall]:
    return _filter_own(person).filter(state=State.AWAITING_SIGN_IN)


def _filter_unknown(person: Member) -> QuerySet[ToolCall]:
    return _filter_own(person).filter(state=State.UNKNOWN)


def _filter_recent_unknown(person: Member) -> QuerySet[ToolCall]:
    return _filter_unknown(person).exclude(sent_at__lt=KEPT_SINCE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """The query of one kind, and the times since and until which its calls wait."""

    calls: Callable[[Member], QuerySet[ToolCall]]
    since: Combinable
    expires_at: Combinable


LATEST = OPEN.filter(tool_call=OuterRef("pk")).order_by("-round")
SOURCES: dict[Kind, Source] = {
    "approval": Source(
        calls=_filter_approvals,
        since=F("approval__created_at"),
        expires_at=F("approval__expires_at"),
    ),
    "second": Source(
        calls=find_waiting_calls,
        since=F("approval__first_at"),
        expires_at=F("approval__expires_at"),
    ),
    "question": Source(
        calls=_filter_asking,
        since=Subquery(LATEST.values("created_at")[:1]),
        expires_at=Subquery(LATEST.values("expires_at")[:1]),
    ),
    "sign_in": Source(calls=_filter_sign_ins, since=F("sent_at"), expires_at=F("waits_until")),
    "outcome": Source(
        calls=_filter_recent_unknown,
        since=F("sent_at"),
        expires_at=Value(None, output_field=DateTimeField()),
    ),
    "review": Source(
        calls=filter_open_reviews, since=F("review__created_at"), expires_at=F("review__expires_at")
    ),
}
