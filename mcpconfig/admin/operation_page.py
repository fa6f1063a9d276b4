"""The page of one operation: its exchanges in order, drawn as a waterfall, each with what was sent
beside what was received."""

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from urllib.parse import urlencode

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.db.models import (
    Count,
    DurationField,
    ExpressionWrapper,
    F,
    IntegerField,
    Max,
    Min,
    Q,
    QuerySet,
    Value,
)
from django.db.models.functions import Cast, Coalesce
from django.http import Http404, HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from mcpconfig.models import Exchange

from .display import format_to_the_second, render_json
from .exchange_display import describe_messages, describe_request, render_body

HIDDEN = "…"
MOST_EXCHANGES = 100
MOST_OPERATIONS = 50
# The width of the waterfall in units of its drawing.
WIDTH = 1_000
# Shorter ones would not be seen.
LEAST_WIDTH = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Lock:
    """Why an admin may not see what exchanges sent and received, and where they can be opened. The
    chat decides that; without it nothing is locked."""

    owner: str = ""
    open_address: str = ""
    is_removed: bool = False
    is_from_other: bool = False

    @property
    def context(self) -> dict[str, object]:
        """What the template about hidden values expects."""
        return {
            "owner": self.owner,
            "open_address": self.open_address,
            "lacks_right": bool(self.owner and not self.open_address),
            "was_removed": self.is_removed,
            "is_from_other": self.is_from_other,
        }


class LockedPages(admin.ModelAdmin):
    """The pages of exchanges, for the chat to lock those of other people's calls."""

    def find_lock(self, request: HttpRequest, exchange: Exchange) -> Lock | None:
        """Return why this admin may not see what the exchange sent and received."""
        return None

    def limit_searched(self, request: HttpRequest) -> Q:
        """Return which exchanges a search for a text may look into."""
        return Q()


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """One exchange. `x` and `width` are its time in the waterfall."""

    number: int
    title: str
    status: str
    tone: str
    duration_ms: int
    x: int
    width: int
    sent_headers: SafeString | str
    sent_body: SafeString | str
    received_headers: SafeString | str
    received_body: SafeString | str
    messages: Sequence[str]
    try_address: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sibling:
    """Another operation of the same tool call."""

    operation_id: uuid.UUID
    name: str
    started: str
    is_current: bool


def show_operation(
    pages: LockedPages, request: HttpRequest, operation_id: uuid.UUID
) -> HttpResponse:
    if not pages.has_view_permission(request):
        raise PermissionDenied
    rows = Exchange.objects.filter(operation_id=operation_id)
    exchanges = list(rows.select_related("service").order_by("pk")[:MOST_EXCHANGES])
    if not exchanges:
        raise Http404("No such operation.")
    first = exchanges[0]
    may_try = request.user.has_perm("mcpconfig.change_service")
    lock = pages.find_lock(request, first)
    definitions = _find_definitions(exchanges) if may_try and lock is None else {}
    total, milliseconds = _count_and_time(rows)
    siblings, operations = _list_siblings(first)
    context = {
        **admin.site.each_context(request),
        "opts": Exchange._meta,
        "title": _("%(operation)s of %(service)s")
        % {"operation": first.operation, "service": first.service},
        "first": first,
        "started": format_to_the_second(_get_start(first), "DATETIME_FORMAT"),
        "total": total,
        "milliseconds": milliseconds,
        "spans": _build_spans(exchanges, definitions, is_locked=lock is not None),
        "siblings": siblings,
        "operations": operations,
        **(lock.context if lock else {}),
    }
    return TemplateResponse(request, "admin/mcpconfig/exchange/operation.html", context)


def _get_start(exchange: Exchange) -> datetime:
    taken = timedelta(milliseconds=exchange.duration_ms)
    return exchange.started_at or exchange.created_at - taken


def _count_and_time(rows: QuerySet[Exchange]) -> tuple[int, int]:
    """Return how many exchanges there are, and how long all took in milliseconds: from the first
    start to the last end."""
    milliseconds = Cast("duration_ms", IntegerField())
    taken = ExpressionWrapper(
        milliseconds * Value(timedelta(milliseconds=1)), output_field=DurationField()
    )
    found = rows.order_by().aggregate(
        number=Count("pk"),
        start=Min(Coalesce("started_at", F("created_at") - taken)),
        end=Max(Coalesce(F("started_at") + taken, F("created_at"))),
    )
    return found["number"], round((found["end"] - found["start"]).total_seconds() * 1_000)


def _find_definitions(exchanges: Sequence[Exchange]) -> Mapping[str, str]:
    """Return the current definition of each tool that these exchanges call, by its name."""
    names = {each.tool for each in exchanges if each.tool}
    if not names:
        return {}
    tools = exchanges[0].service.definitions.filter(name__in=names, is_current=True)
    return dict(tools.values_list("name", "hash"))


def _build_spans(
    exchanges: Sequence[Exchange], definitions: Mapping[str, str], *, is_locked: bool
) -> list[Span]:
    """Return the exchanges in the order of their start."""
    timed = sorted(((_get_start(each), each) for each in exchanges), key=lambda pair: pair[0])
    start = timed[0][0]
    begun = [round((at - start).total_seconds() * 1_000) for at, _each in timed]
    whole = max(at + each.duration_ms for at, (_start, each) in zip(begun, timed, strict=True))
    return [
        _build_span(
            number,
            each,
            at,
            max(whole, 1),
            definitions.get(each.tool, ""),
            hidden=HIDDEN if is_locked else "",
        )
        for number, (at, (_start, each)) in enumerate(zip(begun, timed, strict=True))
    ]


def _build_span(
    number: int, exchange: Exchange, at: int, whole: int, definition: str, *, hidden: str
) -> Span:
    """`hidden` stands in place of what was sent and received, if that is locked."""
    width = max(LEAST_WIDTH, WIDTH * exchange.duration_ms // whole)
    failed = exchange.status is None or exchange.status >= 400
    return Span(
        number=number + 1,
        title=describe_request(exchange),
        status=str(exchange.status or _("no response")),
        tone="bad" if failed else "good",
        duration_ms=exchange.duration_ms,
        x=min(WIDTH * at // whole, WIDTH - width),
        width=width,
        sent_headers=hidden or render_json(exchange.request_headers),
        sent_body=hidden or render_body(exchange.request_body, exchange.request_bytes),
        received_headers=hidden or render_json(exchange.response_headers),
        received_body=hidden or render_body(exchange.response_body, exchange.response_bytes),
        messages=describe_messages(exchange),
        try_address=_get_try_address(exchange, definition) if definition else "",
    )


def _get_try_address(exchange: Exchange, definition: str) -> str:
    """Return the form to try the tool, with the values that this exchange sent."""
    address = reverse("admin:mcpconfig_service_try", args=[exchange.service_id, definition])
    return f"{address}?{urlencode({'exchange': exchange.pk})}"


def _list_siblings(exchange: Exchange) -> tuple[list[Sibling], int]:
    """Return the first operations of the same tool call, and how many it has; none if this one is
    alone."""
    if not exchange.round_id:
        return [], 0
    rows = (
        Exchange.objects.filter(round_id=exchange.round_id, service=exchange.service_id)
        .order_by()
        .values("operation_id", "operation")
        .annotate(first=Min("created_at"))
        .order_by("first")
    )
    found = [
        Sibling(
            operation_id=row["operation_id"],
            name=row["operation"],
            started=format_to_the_second(row["first"], "TIME_FORMAT"),
            is_current=row["operation_id"] == exchange.operation_id,
        )
        for row in rows[:MOST_OPERATIONS]
    ]
    if len(found) < 2:
        return [], 0
    return found, rows.count() if len(found) == MOST_OPERATIONS else len(found)
