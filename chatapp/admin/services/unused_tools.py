"""Switching tools off that nobody uses, for one or for several services at once, and on again."""

from functools import partial
from urllib.parse import urlencode

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.http import HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from chatapp.admin.policy.tested_saves import SaveRefused, save_with_tests, warn_about_failing
from chatapp.simulation.unused_tools import filter_unused, read_definition_ids
from chatapp.views.access import MemberRequest
from mcpconfig.admin.service_pages import ServicePages
from mcpconfig.models import ToolDefinition, ToolSetting


def switch_unused(pages: ServicePages, request: MemberRequest) -> HttpResponse:
    """Switch the selected tools off if nobody has used them meanwhile, or on again."""
    if not pages.has_change_permission(request):
        raise PermissionDenied
    is_on = request.POST.get("act") == "on"
    chosen = ToolDefinition.objects.filter(pk__in=read_definition_ids(request.POST.getlist("tool")))
    if not is_on:
        chosen = chosen & filter_unused()
    found = list(chosen.filter(is_current=True).select_related("service"))
    if not found:
        messages.warning(request, _("Select at least one unused tool first. Nothing was changed."))
        return redirect("admin:policy_questions")
    try:
        _none, failing = save_with_tests(partial(_switch, found, is_on))
    except SaveRefused as refused:
        messages.error(request, " ".join(refused.sentences))
        return redirect("admin:policy_questions")
    warn_about_failing(request, failing)
    if is_on:
        text = ngettext("%(count)s tool is on again.", "%(count)s tools are on again.", len(found))
        messages.success(request, text % {"count": len(found)})
        return redirect("admin:policy_questions")
    query = urlencode({"off": [each.pk for each in found]}, doseq=True)
    return redirect(f"{reverse('admin:policy_questions')}?{query}#unused")


@transaction.atomic
def _switch(definitions: list[ToolDefinition], is_on: bool) -> None:
    """Save each setting by itself, because `update()` sends no signal to the audit log."""
    for each in definitions:
        for setting in ToolSetting.objects.filter(service=each.service_id, name=each.name):
            setting.is_enabled = is_on
            setting.save(update_fields=["is_enabled"])
