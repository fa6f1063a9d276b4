"""Saves of policy that become edits of a policy change: on request, and for every save if the
policy asks for a second admin. The forms and their validation are the same."""

from dataclasses import dataclass
from typing import Any, cast

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404, redirect
from django.urls import reverse
from django.utils.translation import gettext as _

from chatapp.models import Member, PolicyChange, PolicyEdit
from chatapp.people.refused import Refused
from chatapp.policy_changes import drafting
from chatapp.policy_changes.approvers import PERMISSION
from chatapp.policy_changes.checks import run_checks
from chatapp.policy_changes.rows import GROUPS, KINDS, Values, read_values
from mcpconfig.values.numbers import read_number

# The parameter of an address with the id of the change that the form edits, or NEW.
IN_CHANGE = "in_change"
NEW = "new"
AS_CHANGE = "_as_change"


@dataclass(frozen=True, slots=True, kw_only=True)
class Drafting:
    """Where a form is saved: in a draft of its author, or in a new one. `edit` is the edit of a
    row that the draft adds."""

    change: PolicyChange | None = None
    edit: PolicyEdit | None = None


def get_change_address(change: PolicyChange) -> str:
    return reverse("admin:chatapp_policychange_change", args=[change.pk])


class DraftedSavesMixin(admin.ModelAdmin):
    """A model admin of a part of the policy. A save is stored at once or as an edit of a change."""

    change_form_template = "admin/chatapp/policychange/edit_form.html"
    delete_confirmation_template = "admin/chatapp/policychange/delete_confirmation.html"

    # --- where it is saved -----------------------------------------------------------------------
    def get_drafting(self, request: HttpRequest) -> Drafting | None:
        """Return where this request saves; None if at once. It is found once, under the lock of
        the policy for a request that saves."""
        found: Drafting | None = getattr(request, "policy_drafting", None)
        return found

    def _find_drafting(self, request: HttpRequest) -> Drafting | None:
        wanted = request.GET.get(IN_CHANGE, "")
        is_save = request.method == "POST"
        if not wanted and not (is_save and (AS_CHANGE in request.POST or self._needs_change())):
            return None
        if not request.user.has_perm(PERMISSION):
            raise PermissionDenied
        if wanted in ("", NEW):
            return Drafting()
        change = get_object_or_404(
            PolicyChange, pk=read_number(wanted), author=cast(Member, request.user)
        )
        edit_id = request.GET.get("edit", "")
        edit = get_object_or_404(change.edits, pk=read_number(edit_id)) if edit_id else None
        return Drafting(change=change, edit=edit)

    def _needs_change(self) -> bool:
        return drafting.needs_second_admin()

    # --- forms -----------------------------------------------------------------------------------
    def changeform_view(
        self,
        request: HttpRequest,
        object_id: str | None = None,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        with transaction.atomic():
            context = {**(extra_context or {}), **self._prepare(request)}
            response: HttpResponse = super().changeform_view(request, object_id, form_url, context)
        return self._finish(request, response)

    def _prepare(self, request: HttpRequest) -> dict[str, Any]:
        """Lock the policy for a save, and find where it is saved. Return what templates need."""
        if request.method == "POST":
            drafting.lock_policy()
        found = self._find_drafting(request)
        request.policy_drafting = found  # type: ignore[attr-defined]
        return {
            "draft": found,
            "draft_address": get_change_address(found.change) if found and found.change else "",
            "drafts_only": found is None and self._needs_change(),
            "can_draft": request.user.has_perm(PERMISSION),
        }

    def _finish(self, request: HttpRequest, response: HttpResponse) -> HttpResponse:
        """Run the checks of the change that was edited, after the lock of the policy is released.
        They decide thousands of past calls again."""
        change: PolicyChange | None = getattr(request, "edited_change", None)
        if change is not None:
            run_checks(change)
        return response

    def get_form(
        self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any
    ) -> Any:
        form: Any = super().get_form(request, obj, change=change, **kwargs)
        found = self.get_drafting(request)
        if found is None:
            return form
        drafted = self._find_drafted_values(found, obj)

        class DraftedForm(form):  # type: ignore[misc]
            runs_tests = False

            def __init__(self, *args: Any, **kwargs: Any) -> None:
                kwargs["initial"] = {**(kwargs.get("initial") or {}), **drafted}
                super().__init__(*args, **kwargs)

        return DraftedForm

    def _find_drafted_values(self, found: Drafting, row: Any) -> Values:
        """Return the values of the draft by the names of the fields of the form."""
        values: Values | None = found.edit.after if found.edit else None
        if found.change is not None and row is not None:
            values = drafting.find_values(found.change, KINDS[self.model], row.pk)
        names = {field.attname: field.name for field in self.opts.concrete_fields}
        return {names.get(name, name): value for name, value in (values or {}).items()}

    # --- saving ----------------------------------------------------------------------------------
    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        found = self.get_drafting(request)
        if found is None:
            super().save_model(request, obj, form, change)
            return
        groups = form.cleaned_data.get(GROUPS.get(KINDS[self.model], ""))
        row_id = obj.pk if change else None
        self._store(request, found, obj, row_id, read_values(obj, groups))

    def _store(
        self,
        request: HttpRequest,
        found: Drafting,
        row: Any,
        row_id: int | None,
        after: Values | None,
    ) -> None:
        author, kind = cast(Member, request.user), KINDS[self.model]
        change = found.change or drafting.start(author, _name_change(row, kind, row_id, after))
        request.edited_change = change  # type: ignore[attr-defined]
        edit_id = found.edit.pk if found.edit else None
        try:
            drafting.store_edit(change, author, kind, row_id, after, edit_id=edit_id)
        except Refused as refused:
            request.edit_refusal = refused.sentence  # type: ignore[attr-defined]

    def save_related(self, request: HttpRequest, form: Any, formsets: Any, change: bool) -> None:
        if self.get_drafting(request) is None:
            super().save_related(request, form, formsets, change)

    def log_addition(self, request: HttpRequest, obj: Any, message: Any) -> Any:
        if self.get_drafting(request) is None:
            return super().log_addition(request, obj, message)
        return None

    def log_change(self, request: HttpRequest, obj: Any, message: Any) -> Any:
        if self.get_drafting(request) is None:
            return super().log_change(request, obj, message)
        return None

    def response_add(
        self, request: HttpRequest, obj: Any, post_url_continue: str | None = None
    ) -> HttpResponse:
        return self._lead_to_change(request) or super().response_add(
            request, obj, post_url_continue
        )

    def response_change(self, request: HttpRequest, obj: Any) -> HttpResponse:
        return self._lead_to_change(request) or super().response_change(request, obj)

    def _lead_to_change(self, request: HttpRequest) -> HttpResponseRedirect | None:
        change: PolicyChange | None = getattr(request, "edited_change", None)
        if change is None:
            return None
        if refusal := getattr(request, "edit_refusal", ""):
            messages.error(request, refusal)
        else:
            messages.success(
                request, _("Saved in this change. The policy is the same until you apply it.")
            )
        return redirect(get_change_address(change))

    # --- deleting --------------------------------------------------------------------------------
    def delete_view(
        self, request: HttpRequest, object_id: str, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        with transaction.atomic():
            context = {**(extra_context or {}), **self._prepare(request)}
            found = self.get_drafting(request)
            if request.method != "POST" or found is None:
                return self.delete_at_once(request, object_id, context)
            row = self.get_object(request, object_id)
            if row is None:
                raise Http404
            if not self.has_delete_permission(request, row):
                raise PermissionDenied
            self._store(request, found, row, row.pk, None)
            response = self._lead_to_change(request)
        return self._finish(request, cast(HttpResponse, response))

    def delete_at_once(
        self, request: HttpRequest, object_id: str, extra_context: dict[str, Any]
    ) -> HttpResponse:
        response: HttpResponse = super().delete_view(request, object_id, extra_context)
        return response


def _name_change(row: Any, kind: PolicyEdit.Kind, row_id: int | None, after: Values | None) -> str:
    """Return the title of a change that this edit begins."""
    if kind == PolicyEdit.Kind.HOUSE:
        return _("Change the policy for everybody")
    names = {"kind": kind.label, "name": row}
    if row_id is None:
        return _("Add %(kind)s: %(name)s") % names
    if after is None:
        return _("Remove %(kind)s: %(name)s") % names
    return _("Change %(kind)s: %(name)s") % names
