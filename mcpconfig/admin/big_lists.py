"""Lists of tables that grow without end. The cost of a page does not depend on the rows that there
are: rows are counted up to a limit, only orders with an index are offered, and a search reads the
newest rows. The pages say so."""

from collections.abc import Iterator
from datetime import date, datetime, timedelta
from functools import cached_property
from typing import Any, ClassVar, TypeVar

from django.contrib import admin
from django.contrib.admin.utils import get_last_value_from_parameters
from django.contrib.admin.views.main import PAGE_VAR, ChangeList
from django.contrib.auth import get_user_model
from django.contrib.humanize.templatetags.humanize import intcomma
from django.core.exceptions import ValidationError
from django.core.paginator import Page, Paginator
from django.db.models import Model, Q, QuerySet
from django.http import HttpRequest
from django.utils import timezone
from django.utils.functional import lazy
from django.utils.text import format_lazy
from django.utils.translation import gettext_lazy as _lazy

from .filters import SeveralValuesFilter

Row = TypeVar("Row", bound=Model)
MOST_COUNTED = 5_000
MOST_SEARCHED = 10_000
MOST_VALUES_READ = 5_000
# The help of a search without `exact_fields` and `person_fields`.
SEARCHES_NEWEST = format_lazy(
    _lazy("Searches the newest {count} rows that match the filters."),
    count=lazy(intcomma, str)(MOST_SEARCHED),
)


def list_up_to(most: int, rows: QuerySet[Row]) -> tuple[list[Row], int]:
    """Return the first rows, up to `most`, and how many more there are."""
    found = list(rows[: most + 1])
    left_out = rows.count() - most if len(found) > most else 0
    return found[:most], left_out


class KeyedPaginator(Paginator[Any]):
    """Finds the rows of a page by their keys, so that nothing is computed for the rows before."""

    def page(self, number: int | str) -> Page[Any]:
        page = super().page(number)
        rows: Any = self.object_list
        page.object_list = rows.filter(pk__in=self._read_keys((page.number - 1) * self.per_page))
        return page

    def _read_keys(self, first: int) -> list[Any]:
        rows: Any = self.object_list
        keys = rows.select_related(None).values_list("pk", flat=True)
        return list(keys[first : first + self.per_page])


class CappedPaginator(KeyedPaginator):
    """Counts up to MOST_COUNTED rows. If there are more, the pages end there. `newest_first` is the
    order by date with an index."""

    newest_first = ""

    @cached_property
    def _some_keys(self) -> list[Any]:
        """The keys of some rows, enough for one page. Without an order, few rows among many are
        found by one look at the table, and many at once."""
        rows: Any = self.object_list
        return list(rows.order_by().values_list("pk", flat=True)[: self.per_page])

    def _read_keys(self, first: int) -> list[Any]:
        if self._is_short:
            return self._some_keys
        newest = [] if first else self._read_newest_keys()
        return newest if len(newest) == self.per_page else super()._read_keys(first)

    def _read_newest_keys(self) -> list[Any]:
        """Read the keys of the first page among the newest MOST_SEARCHED rows of the table. A
        database may otherwise sort all rows of a filter for it."""
        rows: Any = self.object_list
        is_newest_first = rows.query.order_by[:1] == (self.newest_first,)
        if not (self.is_capped and rows.query.where and is_newest_first):
            return []
        keys = _keep_newest(rows, rows.model._default_manager.all(), self.newest_first)
        return list(keys.select_related(None).values_list("pk", flat=True)[: self.per_page])

    @property
    def _is_short(self) -> bool:
        return len(self._some_keys) < self.per_page

    @cached_property
    def _found(self) -> int:
        if self._is_short:
            return len(self._some_keys)
        rows: Any = self.object_list
        # Without its order: counting needs none, and an index of a filter is then enough.
        return int(rows.order_by()[: MOST_COUNTED + 1].count())

    @property
    def count(self) -> int:
        return min(self._found, MOST_COUNTED)

    @property
    def is_capped(self) -> bool:
        return self._found > MOST_COUNTED


def _keep_newest(rows: QuerySet[Any], among: QuerySet[Any], order: str) -> QuerySet[Any]:
    """Return the rows that are as new as the newest MOST_SEARCHED rows of `among`."""
    field = order.removeprefix("-")
    values = among.select_related(None).order_by(f"-{field}").values_list(field, flat=True)
    # The oldest of them; none if there are fewer rows.
    for oldest in values[MOST_SEARCHED - 1 : MOST_SEARCHED]:
        rows = rows.filter(**{f"{field}__gte": oldest})
    return rows


class BigChangeList(ChangeList):
    """Tells the templates whether there are more rows than were counted."""

    is_capped = False

    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        if not self.multi_page:
            # Django would look for the rows of a single page once more.
            self.result_list = self.paginator.page(1).object_list
        self.is_capped = getattr(self.paginator, "is_capped", False)


class BigListMixin:
    """A list of a table that grows without end. `newest_first` is an order with an index."""

    newest_first: ClassVar[Any] = ("-pk",)
    paginator: Any = CappedPaginator
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER
    list_per_page = 50
    list_max_show_all = 50
    sortable_by: ClassVar[Any] = ()
    # Fields with an index. A search for a whole value of one of them finds rows of any age, and
    # so does the user name of a member for the fields that lead to members.
    exact_fields: ClassVar[tuple[str, ...]] = ()
    person_fields: ClassVar[tuple[str, ...]] = ()
    search_help_text: ClassVar[Any] = format_lazy(
        _lazy(
            "Searches the newest {count} rows that match the filters. A full user name or ID that "
            "this list has finds its rows of any age."
        ),
        count=lazy(intcomma, str)(MOST_SEARCHED),
    )

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        return BigChangeList

    def get_paginator(self, *args: Any, **kwargs: Any) -> Any:
        page: Any = super()
        paginator = page.get_paginator(*args, **kwargs)
        paginator.newest_first = self.newest_first[0]
        return paginator

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        if search_term:
            exact = self._find_exactly(queryset, search_term.strip())
            if exact is not None:
                return exact, False
            queryset = _keep_newest(queryset, queryset, self.newest_first[0])
        page: Any = super()
        found: tuple[QuerySet[Any], bool] = page.get_search_results(request, queryset, search_term)
        return found

    def _find_exactly(self, rows: QuerySet[Any], text: str) -> QuerySet[Any] | None:
        """Return the rows of the member or with the ID that the text names, or None."""
        if "\0" in text:
            return None
        for name in self.exact_fields:
            field = rows.model._meta.get_field(name)
            try:
                value = field.to_python(text)
            except ValidationError:
                continue
            if rows.filter(**{name: value}).exists():
                return rows.filter(**{name: value})
        if not self.person_fields:
            return None
        people = get_user_model()._default_manager.filter(**{get_user_model().USERNAME_FIELD: text})
        person = people.values_list("pk", flat=True).first()
        if person is None:
            return None
        of_person = Q()
        for name in self.person_fields:
            of_person |= Q(**{name: person})
        return rows.filter(of_person) if rows.filter(of_person).exists() else None


class RecentValuesFilter(SeveralValuesFilter):
    """A filter by value, which offers the values of the newest rows."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        _field, _request, _params, model, model_admin, path = (*args, kwargs.get("field_path"))[:6]
        newest = model._default_manager.order_by(*model_admin.newest_first)
        values = set(newest.values_list(path, flat=True)[:MOST_VALUES_READ])
        chosen: Any = self.lookup_val or []
        found = {value for value in values if value is not None} | set(chosen)
        self.lookup_choices: Any = [*sorted(found, key=str), *([None] if None in values else [])]


class PeriodFilter(admin.DateFieldListFilter):
    """A filter by date: the links of Django, and a form with the first and the last day, which
    reaches rows of any age."""

    template = "admin/period_filter.html"

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        params, path = args[2], self.field_path
        self.first_name, self.last_name = f"{path}__first_day", f"{path}__last_day"
        self.first_day, self.last_day = (
            parse_day(get_last_value_from_parameters(params, name))
            for name in (self.first_name, self.last_name)
        )
        for name in (self.first_name, self.last_name):
            params.pop(name, None)
        self.others: list[tuple[str, str]] = []

    def choices(self, changelist: Any) -> Iterator[Any]:
        own = (self.field_generic, PAGE_VAR)
        params = changelist.filter_params.items()
        self.others = [
            (name, value) for name, values in params if not name.startswith(own) for value in values
        ]
        yield from super().choices(changelist)

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        found: Any = super().queryset(request, queryset)
        if self.first_day:
            found = found.filter(**{f"{self.field_path}__gte": _start(self.first_day)})
        if self.last_day:
            after = _start(self.last_day + timedelta(days=1))
            found = found.filter(**{f"{self.field_path}__lt": after})
        rows: QuerySet[Any] = found
        return rows


def parse_day(text: str | None) -> date | None:
    """Return the day, or None if there is none in the text."""
    try:
        day = date.fromisoformat(text or "")
    except ValueError:
        return None
    return day if day < date.max else None


def _start(day: date) -> datetime:
    return timezone.make_aware(datetime.combine(day, datetime.min.time()))
