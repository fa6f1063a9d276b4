"""The filters of lists of activity."""

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as _lazy

from chatapp.admin.badges import CALL_STATES
from chatapp.models import Member, ToolCall
from chatapp.models.policy.policy import LEVEL_LABELS
from mcpconfig.admin.big_lists import PeriodFilter
from mcpconfig.admin.filters import EmptyChoiceMixin, HeadingMixin
from mcpconfig.values.numbers import read_number

SERVER = "server"


class CallStateFilter(admin.SimpleListFilter):
    """A filter of tool calls by state, in the words of their badges."""

    title = _lazy("state")
    parameter_name = "state__exact"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(value, str(label)) for value, label in CALL_STATES.items()]

    def queryset(self, request: HttpRequest, queryset: QuerySet[ToolCall]) -> QuerySet[ToolCall]:
        return queryset.filter(state=self.value()) if self.value() else queryset


class RiskFilter(admin.SimpleListFilter):
    """The risks are known, so no statement looks for those that there are."""

    title = _lazy("risk")
    parameter_name = field = "risk"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(level, str(label)) for level, label in LEVEL_LABELS.items()]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return queryset.filter(**{self.field: self.value()}) if self.value() else queryset


class RiskOfCallFilter(RiskFilter):
    parameter_name = field = "tool_call__risk"


class PersonFilter(admin.SimpleListFilter):
    """A filter by member, which links lead to. It names the chosen member, and lists no others.
    `person_path` of the list leads from a row to the member."""

    title = _lazy("member")
    parameter_name = "person"
    path = ""

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        self.path = self.path or str(model_admin.person_path)
        chosen = self._read_pk()
        if chosen is None:
            return []
        names = {each.pk: each.display_name for each in Member.objects.filter(pk=chosen)}
        return [(str(chosen), names.get(chosen) or _("Member %(id)s") % {"id": chosen})]

    def _read_pk(self) -> int | None:
        return read_number(self.value() or "")

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        chosen = self._read_pk()
        return queryset if chosen is None else queryset.filter(**{self.path: chosen})


class ConcernedFilter(PersonFilter):
    """Of the log, which keeps the ids of members that are no longer there."""

    path = "person_id"


class ActorFilter(PersonFilter):
    title = _lazy("actor")
    parameter_name = "actor"
    path = "actor_id"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(SERVER, _("server")), *super().lookups(request, model_admin)]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        if self.value() == SERVER:
            return queryset.filter(actor_id=None)
        return super().queryset(request, queryset)


class ServiceFilter(EmptyChoiceMixin, admin.RelatedFieldListFilter):
    empty_choice = _lazy("No service")


class DateFilter(HeadingMixin, PeriodFilter):
    heading = _lazy("date")


class CreatedFilter(HeadingMixin, PeriodFilter):
    heading = _lazy("date created")


class SentFilter(HeadingMixin, PeriodFilter):
    heading = _lazy("date sent")


class LastActiveFilter(HeadingMixin, PeriodFilter):
    heading = _lazy("last activity")


class StateFilter(HeadingMixin, admin.ChoicesFieldListFilter):
    heading = _lazy("state")
