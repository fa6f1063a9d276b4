"""The page of one operation: its exchanges in order, drawn as a waterfall, each with what was sent
beside what was received."""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.db.models import Min
from django.http import Http404, HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from mcpconfig.models import Exchange

from .display import format_to_the_second, render_json
from .exchange_display import describe_messages, describe_request, render_body

MOST_EXCHANGES = 100
MOST_OPERATIONS = 50
# The width of the waterfall in units of its drawing.
WIDTH = 1_000
# Shorter ones would not be seen.
LEAST_WIDTH = 4


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Sibling:
    """Another operation of the same tool call."""

    operation_id: uuid.UUID
    name: str
    started: str
    is_current: bool


def show_operation(
    pages: "admin.ModelAdmin[Exchange]", request: HttpRequest, operation_id: uuid.UUID
) -> HttpResponse:
    if not pages.has_view_permission(request):
        raise PermissionDenied
    rows = Exchange.objects.filter(operation_id=operation_id).select_related("service")
    exchanges = list(rows.order_by("pk")[:MOST_EXCHANGES])
    if not exchanges:
        raise Http404("No such operation.")
    first = exchanges[0]
    spans, milliseconds = _build_spans(exchanges)
    context = {
        **admin.site.each_context(request),
        "opts": Exchange._meta,
        "title": _("%(operation)s of %(service)s")
        % {"operation": first.operation, "service": first.service},
        "first": first,
        "started": format_to_the_second(_get_start(first), "DATETIME_FORMAT"),
        "milliseconds": milliseconds,
        "spans": spans,
        "siblings": _list_siblings(first),
    }
    return TemplateResponse(request, "admin/mcpconfig/exchange/operation.html", context)


def _get_start(exchange: Exchange) -> datetime:
    taken = timedelta(milliseconds=exchange.duration_ms)
    return exchange.started_at or exchange.created_at - taken


def _build_spans(exchanges: Sequence[Exchange]) -> tuple[list[Span], int]:
    """Return the exchanges in the order of their start, and how long all took in milliseconds."""
    timed = sorted(((_get_start(each), each) for each in exchanges), key=lambda pair: pair[0])
    start = timed[0][0]
    begun = [round((at - start).total_seconds() * 1_000) for at, _each in timed]
    whole = max(at + each.duration_ms for at, (_start, each) in zip(begun, timed, strict=True))
    spans = [
        _build_span(number, each, at, max(whole, 1))
        for number, (at, (_start, each)) in enumerate(zip(begun, timed, strict=True))
    ]
    return spans, whole


def _build_span(number: int, exchange: Exchange, at: int, whole: int) -> Span:
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
        sent_headers=render_json(exchange.request_headers),
        sent_body=render_body(exchange.request_body, exchange.request_bytes),
        received_headers=render_json(exchange.response_headers),
        received_body=render_body(exchange.response_body, exchange.response_bytes),
        messages=describe_messages(exchange),
    )


def _list_siblings(exchange: Exchange) -> list[Sibling]:
    """Return the operations of the same tool call, this one among them; none if it is alone."""
    if not exchange.round_id:
        return []
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
    return found if len(found) > 1 else []
