"""The filters of exchanges that are typed into the form above their list."""

from datetime import UTC, datetime, timedelta
from typing import Any

from django.contrib import admin, messages
from django.contrib.auth import get_user_model
from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.utils import timezone
from django.utils.dateparse import parse_date, parse_datetime
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as _lazy

from mcpconfig.models import Exchange

# How many of the newest exchanges are searched for a text. Their bodies have no index.
SEARCHED = 20_000
MAX_MILLISECONDS = 2_147_483_647
Exchanges = QuerySet[Exchange]


class TypedFilter(admin.SimpleListFilter):
    """A filter whose value comes from the form above the list, so it shows no choices itself."""

    template = "admin/mcpconfig/exchange/_typed_filter.html"

    def has_output(self) -> bool:
        return True

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return []

    def choices(self, changelist: Any) -> Any:
        return iter(())

    def queryset(self, request: HttpRequest, queryset: Exchanges) -> Exchanges:
        text = (self.value() or "").strip().replace("\0", "")
        return self.narrow(request, queryset, text) if text else queryset

    def narrow(self, request: HttpRequest, rows: Exchanges, text: str) -> Exchanges:
        raise NotImplementedError

    def refuse(self, request: HttpRequest, rows: Exchanges, problem: str) -> Exchanges:
        """Say what is wrong, and return these rows. A list that asks again for what is new shows no
        messages, so they would collect for the next page."""
        if "HX-Request" not in request.headers:
            messages.error(request, problem)
        return rows


class LiveFilter(TypedFilter):
    """Not a filter: its parameter keeps the list live, also while filters change."""

    title, parameter_name = _lazy("live"), "live"

    def narrow(self, request: HttpRequest, rows: Exchanges, text: str) -> Exchanges:
        return rows


class ToolFilter(TypedFilter):
    title, parameter_name = _lazy("tool"), "tool"

    def narrow(self, request: HttpRequest, rows: Exchanges, text: str) -> Exchanges:
        return rows.filter(tool=text)


class PersonFilter(TypedFilter):
    title, parameter_name = _lazy("member"), "person"

    def narrow(self, request: HttpRequest, rows: Exchanges, text: str) -> Exchanges:
        people = get_user_model().objects.filter(username=text)
        found = people.values_list("pk", flat=True).first()
        if found is None:
            return self.refuse(
                request, rows.none(), _("No member has the user name “%(name)s”.") % {"name": text}
            )
        return rows.filter(person_id=found)


class OutcomeFilter(TypedFilter):
    title, parameter_name = _lazy("outcome"), "outcome"

    def narrow(self, request: HttpRequest, rows: Exchanges, text: str) -> Exchanges:
        failed = Q(status=None) | Q(status__gte=400)
        match text:
            case "failed":
                return rows.filter(failed)
            case "answered":
                return rows.exclude(failed)
        return rows


class SlowerFilter(TypedFilter):
    title, parameter_name = _lazy("duration"), "slower"

    def narrow(self, request: HttpRequest, rows: Exchanges, text: str) -> Exchanges:
        is_number = text.isascii() and text.isdecimal() and len(text) <= 10
        if not is_number or int(text) > MAX_MILLISECONDS:
            problem = _("Enter the duration as a number of milliseconds, such as 500.")
            return self.refuse(request, rows, problem)
        return rows.filter(duration_ms__gte=int(text))


class MomentFilter(TypedFilter):
    def read_moment(self, text: str, *, is_end: bool) -> datetime | None:
        """Return the moment of a date, or of a date and a time, in the reader's time zone. A date
        as an end is the end of that day."""
        try:
            moment = parse_datetime(text)
            day = parse_date(text)
            if day is not None:
                moment = datetime.combine(day, datetime.min.time())
                moment += timedelta(days=1) if is_end else timedelta()
            if moment is not None and timezone.is_naive(moment):
                moment = timezone.make_aware(moment)
            if moment is not None:
                # The database stores UTC. The first and the last day may have no such moment.
                moment = moment.astimezone(UTC)
        except (ValueError, OverflowError):
            return None
        return moment

    def refuse_moment(self, request: HttpRequest, rows: Exchanges) -> Exchanges:
        return self.refuse(request, rows, _("Enter a date and a time, such as 2026-11-28 14:00."))


class SinceFilter(MomentFilter):
    title, parameter_name = _lazy("from"), "from"

    def narrow(self, request: HttpRequest, rows: Exchanges, text: str) -> Exchanges:
        moment = self.read_moment(text, is_end=False)
        if moment is None:
            return self.refuse_moment(request, rows)
        return rows.filter(created_at__gte=moment)


class UntilFilter(MomentFilter):
    title, parameter_name = _lazy("to"), "to"

    def narrow(self, request: HttpRequest, rows: Exchanges, text: str) -> Exchanges:
        moment = self.read_moment(text, is_end=True)
        if moment is None:
            return self.refuse_moment(request, rows)
        return rows.filter(created_at__lt=moment)


class AnswerFilter(TypedFilter):
    """Finds a text in what services answered, such as that of an error."""

    title, parameter_name = _lazy("text of the answer"), "said"

    def __init__(self, request: HttpRequest, params: Any, model: Any, model_admin: Any) -> None:
        super().__init__(request, params, model, model_admin)
        self.searched: Q = model_admin.limit_searched(request) if self.value() else Q()

    def narrow(self, request: HttpRequest, rows: Exchanges, text: str) -> Exchanges:
        newest = Exchange.objects.order_by("-pk").values_list("pk", flat=True)
        oldest = newest[SEARCHED : SEARCHED + 1].first()
        recent = rows if oldest is None else rows.filter(pk__gt=oldest)
        recent = recent.filter(self.searched)
        return recent.filter(response_body__icontains=text)


TYPED_FILTERS = (
    *(ToolFilter, PersonFilter, OutcomeFilter, SlowerFilter, SinceFilter, UntilFilter),
    *(AnswerFilter, LiveFilter),
)
