"""The admin of policy changes: their list, and the page on which one is drafted and decided."""

from typing import Any, ClassVar, cast

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import Count, QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as _lazy

from chatapp.admin.badges import render_badge
from chatapp.models import Member, PolicyChange
from chatapp.people.refused import Refused
from chatapp.policy_changes import decisions, drafting
from chatapp.policy_changes.checks import run_checks
from chatapp.policy_changes.rows import PolicyRows
from mcpconfig.values.numbers import read_number

from .change_page import build_page, get_row_address, list_related, read_option
from .drafted_saves import get_change_address

State = PolicyChange.State
TONES = {
    State.DRAFT: "",
    State.WAITING: "medium",
    State.APPLIED: "low",
    State.REJECTED: "high",
}
MOST_NOTE: int = PolicyChange._meta.get_field("note").max_length or 0
DONE = {
    "apply": _lazy("The change is applied. It counts from the next call on."),
    "submit": _lazy("The change waits for another admin."),
    "approve": _lazy(
        "You approved the change, and it is applied. It counts from the next call on."
    ),
    "reject": _lazy("You rejected the change. Its author can edit it again."),
    "discard": _lazy("The change is discarded."),
    "reopen": _lazy("The change is a draft again."),
}


def render_state(change: PolicyChange) -> SafeString | str:
    return render_badge(TONES.get(State(change.state)) or "quiet", change.get_state_display())


class ChangeForm(forms.ModelForm):
    class Meta:
        model = PolicyChange
        fields = ("title", "reason")
        widgets: ClassVar = {"reason": forms.Textarea(attrs={"rows": 3})}


@admin.register(PolicyChange)
class PolicyChangeAdmin(admin.ModelAdmin):
    empty_list = _lazy(
        "No policy changes yet. Start one to see the effects of several edits before they apply."
    )
    form = ChangeForm
    list_display = ("title", "state_badge", "author", "edit_count", "created_at", "applied_at")
    list_filter = ("state", ("author", admin.RelatedOnlyFieldListFilter), "created_at")
    list_select_related = ("author",)
    search_fields = ("title", "reason", "author__username")
    show_full_result_count = False
    actions = None

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def get_queryset(self, request: HttpRequest) -> QuerySet[PolicyChange]:
        rows: QuerySet[PolicyChange] = super().get_queryset(request)
        return rows.annotate(edit_count=Count("edits"))

    @admin.display(description=_lazy("State"), ordering="state")
    def state_badge(self, change: PolicyChange) -> SafeString | str:
        return render_state(change)

    @admin.display(description=_lazy("Edits"), ordering="edit_count")
    def edit_count(self, change: Any) -> int:
        return int(change.edit_count)

    # --- a new change ----------------------------------------------------------------------------
    def save_model(self, request: HttpRequest, obj: PolicyChange, form: Any, change: bool) -> None:
        obj.author = cast(Member, request.user)
        super().save_model(request, obj, form, change)
        drafting.log_draft(obj, "started")

    def response_add(
        self, request: HttpRequest, obj: PolicyChange, post_url_continue: str | None = None
    ) -> HttpResponseRedirect:
        return redirect(get_change_address(obj))

    # --- the page of a change --------------------------------------------------------------------
    def change_view(
        self,
        request: HttpRequest,
        object_id: str,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        if not self.has_view_or_change_permission(request):
            raise PermissionDenied
        change = self._load(request, object_id)
        if request.method != "POST":
            return self._show(request, change)
        if not self.has_change_permission(request, change):
            raise PermissionDenied
        try:
            return self._act(request, change)
        except Refused as refused:
            # Show the present state with the reasons and what was typed.
            change = self._load(request, object_id)
            if change.state in (State.DRAFT, State.WAITING):
                run_checks(change)
                change = self._load(request, object_id)
            return self._show(request, change, refused.sentences, refused.status)

    def _load(self, request: HttpRequest, object_id: str) -> PolicyChange:
        rows = PolicyChange.objects.select_related("author", "decided_by", "applied_by", "undoes")
        pk = read_number(object_id)
        change = None if pk is None else rows.filter(pk=pk).first()
        if change is None:
            raise Http404
        return change

    def _show(
        self,
        request: HttpRequest,
        change: PolicyChange,
        refusals: Any = (),
        status: int = 200,
    ) -> HttpResponse:
        typed = request.POST
        context = {
            **self.admin_site.each_context(request),
            "opts": self.opts,
            "original": change,
            "state_badge": render_state(change),
            "refusals": refusals,
            "note": typed.get("note", ""),
            "form": ChangeForm(typed if typed.get("do") == "describe" else None, instance=change),
            "related": list_related(change),
            **build_page(request, change),
        }
        return TemplateResponse(
            request, "admin/chatapp/policychange/change.html", context, status=status
        )

    def _act(self, request: HttpRequest, change: PolicyChange) -> HttpResponse:
        person, act = cast(Member, request.user), request.POST.get("do", "")
        version = request.POST.get("version", "")
        match act:
            case "apply":
                decisions.apply_change(change.pk, person, version)
            case "submit":
                decisions.submit(change.pk, person, version)
            case "approve":
                decisions.approve(change.pk, person, version, _read_note(request))
            case "reject":
                decisions.reject(change.pk, person, _read_note(request))
            case "discard":
                drafting.discard(change, person)
            case "reopen":
                drafting.reopen(change, person)
            case "undo":
                return self._undo(request, change, person)
            case "check" if change.state in (State.DRAFT, State.WAITING):
                drafting.log_draft(change, "checked")
                run_checks(change)
            case "remove":
                edit = read_number(request.POST.get("edit", ""))
                if edit is None:
                    raise Http404
                drafting.remove_edit(change, person, edit)
                run_checks(change)
            case "edit":
                return _open_form(request, change)
            case "describe":
                return self._describe(request, change, person)
        if act in DONE:
            messages.success(request, str(DONE[act]))
        return redirect(get_change_address(change))

    def _undo(self, request: HttpRequest, change: PolicyChange, person: Member) -> HttpResponse:
        reverse, refusal = decisions.undo(change.pk, person)
        if refusal is not None:
            run_checks(reverse)
            for sentence in refusal.sentences:
                messages.error(request, sentence)
        elif PolicyChange.objects.filter(pk=reverse.pk, state=State.WAITING).exists():
            run_checks(reverse)
            messages.success(request, _("The change that undoes it waits for another admin."))
        else:
            messages.success(request, _("The change is undone. It counts from the next call on."))
            return redirect(get_change_address(change))
        return redirect(get_change_address(reverse))

    def _describe(self, request: HttpRequest, change: PolicyChange, person: Member) -> HttpResponse:
        form = ChangeForm(request.POST, instance=PolicyChange(pk=change.pk))
        if not form.is_valid():
            return self._show(request, change, status=422)
        values = form.cleaned_data
        drafting.describe(change, person, values["title"], values["reason"])
        return redirect(get_change_address(change))


def _read_note(request: HttpRequest) -> str:
    note = request.POST.get("note", "").strip()
    if len(note) > MOST_NOTE:
        text = _("The note is too long. Write at most %(number)s characters.")
        raise Refused(text % {"number": MOST_NOTE})
    return note


def _open_form(request: HttpRequest, change: PolicyChange) -> HttpResponse:
    """Open the form of the chosen row, or the page that confirms its removal."""
    rows = list(PolicyRows.load().rows.values())
    row = read_option(rows, request.POST.get("row", ""))
    if row is None:
        raise Refused(_("Choose what to edit. It may have been removed meanwhile."))
    act = "delete" if "remove" in request.POST else "change"
    return redirect(get_row_address(change, row.kind, row.row.pk, act))
