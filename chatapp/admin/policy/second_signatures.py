"""The admin of second signatures and of stand-ins."""

from typing import Any

from django.contrib import admin
from django.db.models import Count, QuerySet
from django.forms import ModelForm
from django.http import HttpRequest
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as _lazy

from chatapp.models import SecondSignature, StandIn
from mcpconfig.admin.filters import HeadingMixin

from .drafted_saves import DraftedSavesMixin
from .sentences import describe_second_signature


class FirstDayFilter(HeadingMixin, admin.DateFieldListFilter):
    heading = _lazy("first day")


class LastDayFilter(HeadingMixin, admin.DateFieldListFilter):
    heading = _lazy("last day")


@admin.register(SecondSignature)
class SecondSignatureAdmin(DraftedSavesMixin, admin.ModelAdmin):
    empty_list = _lazy(
        "No second-approval requirements yet. Add one, then choose it in a rule or in the policy "
        "for everybody."
    )
    list_display = ("name", "sentence", "people")
    list_select_related = ("approvers", "escalation")
    search_fields = ("name", "approvers__name")
    actions = None
    fieldsets = (
        (
            None,
            {
                "fields": ("name",),
                "description": _lazy(
                    "Has no effect until a rule or the policy for everybody uses it."
                ),
            },
        ),
        (_lazy("Approvers"), {"fields": ("approvers", "deadline_hours")}),
        (_lazy("Escalation"), {"fields": ("escalation", "escalates_after_hours")}),
    )

    def get_queryset(self, request: HttpRequest) -> QuerySet[SecondSignature]:
        rows: QuerySet[SecondSignature] = super().get_queryset(request)
        return rows.annotate(size=Count("approvers__user"))

    def get_form(
        self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any
    ) -> Any:
        """Remove the buttons beside the group fields. Groups are edited on their own pages."""
        form: type[ModelForm] = super().get_form(request, obj, change, **kwargs)
        for name in {"approvers", "escalation"} & form.base_fields.keys():
            widget: Any = form.base_fields[name].widget
            widget.can_add_related = widget.can_change_related = widget.can_delete_related = False
        return form

    @admin.display(description=_lazy("Requirement"))
    def sentence(self, second: SecondSignature) -> str:
        return describe_second_signature(second)

    @admin.display(description=_lazy("Number of approvers"))
    def people(self, second: Any) -> str:
        return str(second.size) if second.size else _("none: every such call expires")


@admin.register(StandIn)
class StandInAdmin(admin.ModelAdmin):
    empty_list = _lazy(
        "No delegates yet. Approvers add their own in the chat, or you add one here."
    )
    list_display = ("approver", "stand_in", "begins_on", "ends_on")
    list_filter = (("begins_on", FirstDayFilter), ("ends_on", LastDayFilter))
    list_select_related = ("approver", "stand_in")
    autocomplete_fields = ("approver", "stand_in")
    search_fields = ("approver__username", "stand_in__username")
    actions = None
