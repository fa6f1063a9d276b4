"""The filters of lists of activity."""

from collections.abc import Iterator
from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _lazy

from chatapp.admin.badges import CALL_STATES
from chatapp.models import ToolCall
from mcpconfig.admin.filters import EmptyChoiceMixin, HeadingMixin, SeveralValuesFilter


class CallStateFilter(admin.SimpleListFilter):
    """A filter of tool calls by state, in the words of their badges."""

    title = _lazy("state")
    parameter_name = "state__exact"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(value, str(label)) for value, label in CALL_STATES.items()]

    def queryset(self, request: HttpRequest, queryset: QuerySet[ToolCall]) -> QuerySet[ToolCall]:
        return queryset.filter(state=self.value()) if self.value() else queryset


class ServiceFilter(EmptyChoiceMixin, admin.RelatedFieldListFilter):
    empty_choice = _lazy("No service")


class NamedListFilter(SeveralValuesFilter):
    """A filter by name, with a label for the entries that have none."""

    unnamed: Promise

    def choices(self, changelist: Any) -> Iterator[Any]:
        for choice in super().choices(changelist):
            yield {**choice, "display": choice["display"] or self.unnamed}


class ActorFilter(HeadingMixin, NamedListFilter):
    heading = _lazy("actor")
    unnamed = _lazy("server")


class ConcernedFilter(HeadingMixin, NamedListFilter):
    heading = _lazy("member")
    unnamed = _lazy("No member")


class DateFilter(HeadingMixin, admin.DateFieldListFilter):
    heading = _lazy("date")


class CreatedFilter(HeadingMixin, admin.DateFieldListFilter):
    heading = _lazy("date created")


class SentFilter(HeadingMixin, admin.DateFieldListFilter):
    heading = _lazy("date sent")


class LastActiveFilter(HeadingMixin, admin.DateFieldListFilter):
    heading = _lazy("last activity")


class StateFilter(HeadingMixin, admin.ChoicesFieldListFilter):
    heading = _lazy("state")
