"""The tools of a service in the admin: a table to search, filter and sort, with acts on the
selected tools."""

from collections.abc import Collection
from functools import partial

from django.contrib import messages
from django.core.paginator import Paginator
from django.db import transaction
from django.http import HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from chatapp.admin.policy.tested_saves import SaveRefused, save_with_tests, warn_about_failing
from chatapp.models.policy.policy import LEVEL_LABELS
from chatapp.simulation.access import list_groups
from chatapp.views.access import MemberRequest
from mcpconfig.admin.services import ServiceAdmin
from mcpconfig.models import Service, ToolSetting
from mcpconfig.services.tool_definitions import TOOL_STATES

from . import opinions
from .tool_rows import (
    MAX_TIMED_CALLS,
    SORTS,
    Filters,
    build_rows,
    choose_entries,
    list_groups_of,
    load_entries,
)

ROWS_PER_PAGE = 50
# What stands for the assessed risk in the choice of a risk.
ASSESSED = "assessed"
LEVELS = (*ToolSetting.Level.values, ASSESSED)


def show_tools(pages: ServiceAdmin, request: MemberRequest, service: Service) -> HttpResponse:
    filters, group = Filters.read(request.GET), request.GET.get("group", "")
    entries = load_entries(service)
    page = Paginator(choose_entries(entries, filters), ROWS_PER_PAGE).get_page(
        request.GET.get("page")
    )
    shown = [entry.tool.definition for entry in page.object_list]
    known = opinions.load_opinions(shown)
    judged, more_groups = list_groups_of(service, group)
    rows = build_rows(service, list(page.object_list), judged, known)
    waiting = sum(entry.state in ("new", "changed") for entry in entries)
    kept = request.GET.copy()
    selected = kept.pop("select", [""])[-1]
    context = {
        "service": service,
        "tab": "tools",
        "title": _("Tools of %(service)s") % {"service": service},
        "page": page,
        "rows": rows,
        "has_opinions": any(row.opinion and row.opinion.is_given for row in rows),
        "opinion_model": opinions.has_model(),
        "total": len(entries),
        "waiting": waiting,
        "changed": sum(entry.state == "changed" for entry in entries),
        "off": sum(entry.state == "disabled" for entry in entries),
        "tokens": sum(entry.tokens for entry in entries if entry.state != "disabled"),
        "filters": filters,
        "group": group,
        "groups": list(list_groups()),
        "more_groups": more_groups,
        "most_timed": MAX_TIMED_CALLS,
        "selects_page": selected == "page",
        "states": TOOL_STATES.items(),
        "levels": LEVEL_LABELS.items(),
        "sorts": SORTS.items(),
        "query": kept.urlencode(),
    }
    return pages.render_page(request, "tools_table", context)


def act_on_tools(pages: ServiceAdmin, request: MemberRequest, service: Service) -> HttpResponse:
    """Turn the selected tools on or off, set their risk, ask for second opinions or set them aside,
    or show the definitions to confirm them."""
    act, chosen = request.POST.get("act", ""), set(request.POST.getlist("definition"))
    if one := opinions.read_act(request):
        act, chosen = one
    names = _find_names(service, chosen)
    if not names:
        messages.warning(request, _("Select at least one tool first. Nothing was changed."))
        return _redirect(request, service)
    if act == "review":
        title = _("Confirm tools of %(service)s") % {"service": service}
        return pages.render_tools(request, service, title, ticked=chosen)
    if act in opinions.ACTS:
        current = service.definitions.filter(is_current=True, hash__in=chosen)
        opinions.act_on_opinions(request, current.select_related("service"), act)
        return _redirect(request, service, chosen)
    fields = _read_fields(act, request.POST.get("level", ""))
    if fields is None:
        messages.warning(request, _("Choose a risk first. Nothing was changed."))
        return _redirect(request, service)
    try:
        count, failing = save_with_tests(partial(_set_fields, service, names, fields))
    except SaveRefused as refused:
        messages.error(request, " ".join(refused.sentences))
        return _redirect(request, service)
    warn_about_failing(request, failing)
    text = ngettext("%(count)s tool changed.", "%(count)s tools changed.", count)
    messages.success(request, text % {"count": count})
    return _redirect(request, service)


def _find_names(service: Service, hashes: Collection[str]) -> list[str]:
    """Return the names of these definitions, if the service still lists them."""
    current = service.definitions.filter(is_current=True, hash__in=hashes)
    return list(current.values_list("name", flat=True))


def _read_fields(act: str, level: str) -> dict[str, str | bool] | None:
    if act in ("on", "off"):
        return {"is_enabled": act == "on"}
    if act == "level" and level in LEVELS:
        return {"level": "" if level == ASSESSED else level}
    return None


@transaction.atomic
def _set_fields(service: Service, names: Collection[str], fields: dict[str, str | bool]) -> int:
    """Save each setting by itself, because `update()` sends no signal to the audit log."""
    for name in names:
        ToolSetting.objects.update_or_create(service=service, name=name, defaults=fields)
    return len(names)


def _redirect(
    request: MemberRequest, service: Service, chosen: Collection[str] = ()
) -> HttpResponse:
    """Return to the table as it was filtered, or to the page from which the act came."""
    match request.POST.get("back"):
        case "review":
            return redirect("admin:mcpconfig_service_review_tools", service.pk)
        case "definition" if tool := service.definitions.filter(hash__in=chosen).first():
            return redirect("admin:mcpconfig_tooldefinition_change", tool.pk)
    address = reverse("admin:mcpconfig_service_tools", args=[service.pk])
    query = request.POST.get("query", "")[:2000]
    return redirect(f"{address}?{query}" if query else address)
