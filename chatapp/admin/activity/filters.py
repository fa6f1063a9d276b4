"""The filters of lists of activity."""

from typing import Any

from django.contrib import admin
from django.contrib.humanize.templatetags.humanize import intcomma
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.functional import lazy
from django.utils.text import format_lazy
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as _lazy

from chatapp.admin.badges import CALL_STATES
from chatapp.models import Member, ToolCall
from chatapp.models.policy.policy import LEVEL_LABELS
from mcpconfig.admin.big_lists import MOST_SEARCHED, PeriodFilter
from mcpconfig.admin.filters import EmptyChoiceMixin, HeadingMixin
from mcpconfig.models import Service
from mcpconfig.values.numbers import read_number

from .service_entries import filter_by_names, find_names, keep_newest, list_changes_of_services

SERVER = "server"
# How many user names the field of the filter offers while somebody types.
MOST_OFFERED = 300
# Before the id of a member in links. No user name may have a colon, so none is taken for an id.
ID_MARK = "id:"


def mark_id(pk: int) -> str:
    """Return what a link to a list has for this member, also one that is no longer there."""
    return f"{ID_MARK}{pk}"


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
    """A filter by member with a field for the user name. Links name the member by the id, also one
    that is no longer there. `person_path` of the list leads from a row to the member."""

    template = "admin/person_filter.html"
    title = _lazy("member")
    parameter_name = "person"
    path = ""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.typed = self.problem = ""
        self.kept: list[tuple[str, str]] = []
        self.names: list[str] = []
        self.pk: int | None = None
        super().__init__(*args, **kwargs)

    def has_output(self) -> bool:
        return True

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        self.path = self.path or str(model_admin.person_path)
        if request.user.has_perm("chatapp.view_member"):
            people = Member.objects.filter(is_active=True).order_by("username")
            self.names = list(people.values_list("username", flat=True)[:MOST_OFFERED])
        # PostgreSQL refuses a text with a NUL.
        text = (self.value() or "").replace("\0", "").strip()
        return [] if not text else self._find(text)

    def _find(self, text: str) -> list[tuple[str, str]]:
        """Find the member by the id, if a link names one, and else by the user name."""
        number = None
        if text.startswith(ID_MARK):
            number = read_number(text.removeprefix(ID_MARK))
            member = None if number is None else Member.objects.filter(pk=number).first()
        else:
            member = Member.objects.filter(username=text).first()
        if member is not None:
            self.pk, self.typed = member.pk, member.username
            return [(text, member.display_name)]
        self.pk, self.typed = -1 if number is None else number, text
        if number is None:
            self.problem = _("No member has the user name “%(name)s”.") % {"name": text}
            return [(text, text)]
        return [(text, _("Member %(id)s") % {"id": number})]

    def choices(self, changelist: Any) -> Any:
        """Keep the rest of the address in the form. Choose from all and the chosen member."""
        left_out = {self.parameter_name, "p", "e"}
        self.kept = [
            (name, value)
            for name, values in changelist.filter_params.items()
            for value in values
            if name not in left_out
        ]
        return super().choices(changelist) if self.lookup_choices else iter(())

    def _read_pk(self) -> int | None:
        return self.pk

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
        server = (SERVER, _("server"))
        found = super().lookups(request, model_admin)
        if self.value() == SERVER:
            self.typed = self.problem = ""
            return [server]
        return [server, *found]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        if self.value() == SERVER:
            return queryset.filter(actor_id=None)
        return super().queryset(request, queryset)


class ServiceFilter(EmptyChoiceMixin, admin.RelatedFieldListFilter):
    empty_choice = _lazy("No service")


class NamedServiceFilter(admin.SimpleListFilter):
    """Of the log, which keeps the names that services had. The title says how far it reaches."""

    title = format_lazy(
        _lazy("service, in the newest {count} entries"),
        count=lazy(intcomma, str)(MOST_SEARCHED),
    )
    parameter_name = "service"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        services = Service.objects.order_by("title", "name").only("name", "title")
        return [(service.name, str(service)) for service in services]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        # PostgreSQL refuses a text with a NUL.
        name = (self.value() or "").replace("\0", "")
        if not name:
            return queryset
        changes, _is_cut = list_changes_of_services()
        newest, _is_cut = keep_newest(queryset)
        return filter_by_names(newest, find_names(name, changes))


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
