"""The admin of usage and allowances."""

from decimal import Decimal
from typing import Any

from django import forms
from django.contrib import admin
from django.contrib.admin.views.main import ChangeList
from django.db.models import QuerySet, Sum
from django.http import HttpRequest
from django.template.response import TemplateResponse
from django.utils.formats import number_format
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as _lazy

from chatapp.admin.activity.filters import PersonFilter
from chatapp.admin.badges import EMPTY
from chatapp.models import Allowance, UsageOfDay
from mcpconfig.admin.big_lists import BigListMixin, PeriodFilter, RecentValuesFilter
from mcpconfig.admin.read_only import ReadOnlyMixin


@admin.register(UsageOfDay)
class UsageAdmin(BigListMixin, ReadOnlyMixin, admin.ModelAdmin):
    """Usage by person, day and model, with the sums of the filtered rows above the list."""

    empty_list = _lazy("No usage yet. Tokens and costs by member, model and day appear here.")
    list_display = (
        "day",
        "person",
        "model",
        "calls",
        "input_tokens",
        "cached_tokens",
        "output_tokens",
        "money",
    )
    list_filter = (("day", PeriodFilter), ("model", RecentValuesFilter), PersonFilter)
    person_path = "person"
    newest_first = ("-day", "person", "model")
    list_select_related = ("person",)
    change_list_template = "admin/chatapp/usageofday/change_list.html"

    @admin.display(description=_lazy("Cost"))
    def money(self, row: UsageOfDay) -> str:
        return f"{number_format(row.cost, 4)} {row.currency}" if row.currency else EMPTY

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> Any:
        response = super().changelist_view(request, extra_context)
        if isinstance(response, TemplateResponse) and response.context_data:
            changelist = response.context_data.get("cl")
            if isinstance(changelist, ChangeList):
                response.context_data["sums"] = _sum_usage(changelist.queryset)
        return response


def _sum_usage(rows: QuerySet[UsageOfDay]) -> dict[str, Any]:
    sums: dict[str, Any] = rows.aggregate(
        calls=Sum("calls"),
        read=Sum("input_tokens"),
        written=Sum("output_tokens"),
        unpriced=Sum("unpriced_tokens"),
    )
    by_currency = rows.exclude(currency="").order_by("currency").values_list("currency")
    sums["costs"] = list(by_currency.annotate(spent=Sum("cost")))
    return sums


class AllowanceForm(forms.ModelForm):
    class Meta:
        model = Allowance
        fields = ("person", "group", "is_shared", "tokens", "cost", "currency")
        help_texts = {  # noqa: RUF012  # as in the documentation of Django
            "person": _lazy(
                "If this and the group are empty, the allowance applies to each member separately."
            ),
            "group": _lazy(
                "Limits each member of the group. If Shared is on, limits the group as a whole."
            ),
        }

    def clean(self) -> dict[str, Any]:
        values = super().clean() or self.cleaned_data
        if values.get("person") and values.get("group"):
            self.add_error("group", _("Choose a member or a group, not both."))
        if values.get("is_shared") and not values.get("group"):
            self.add_error("is_shared", _("Only a group can share an allowance."))
        has_errors = "tokens" in self.errors or "cost" in self.errors
        if not has_errors and values.get("tokens") is None and values.get("cost") is None:
            self.add_error("tokens", _("Enter a number of tokens, a cost, or both."))
        return values


@admin.register(Allowance)
class AllowanceAdmin(admin.ModelAdmin):
    empty_list = _lazy(
        "No allowances yet. Add one to limit what a member or a group can use in a month."
    )
    form = AllowanceForm
    fieldsets = (
        (
            None,
            {
                "fields": ("person", "group", "is_shared", "tokens", "cost", "currency"),
                "description": _lazy(
                    "When an allowance is used up, the members it is for get no answers until the "
                    "next month (UTC)."
                ),
            },
        ),
    )
    list_display = ("__str__", "tokens", "money")
    list_select_related = ("person", "group")
    autocomplete_fields = ("person",)

    @admin.display(description=_lazy("Cost"), ordering="cost")
    def money(self, allowance: Allowance) -> str:
        cost: Decimal | None = allowance.cost
        return EMPTY if cost is None else f"{number_format(cost, 2)} {allowance.currency}"
