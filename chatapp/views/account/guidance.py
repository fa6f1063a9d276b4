"""A person's guidance for the assistant about a service and its tools."""

from typing import Any

from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render

from chatapp.forms import GuidanceForm
from chatapp.models import Guidance, Member
from chatapp.views.access import MemberRequest, for_members
from chatapp.views.chat.conversations import build_sidebar_context
from mcpconfig.models import Service, ToolSetting
from mcpconfig.services.sharing import build_shared_view


@for_members("GET", "HEAD", "POST")
def guidance(request: MemberRequest, name: str) -> HttpResponse:
    """Save a text for the service or for one of its tools; an empty text deletes it."""
    service = get_object_or_404(Service.objects.for_member(request.user), name=name)
    tools = build_shared_view(service, request.user).tools or ()
    form = GuidanceForm(request.POST or None, tools=tools)
    if form.is_valid():
        _save_guidance(request.user, service, form.cleaned_data["tool"], form.cleaned_data["text"])
        return redirect("guidance", service.name)
    said = Guidance.objects.filter(person=request.user, service=service).order_by("tool")
    own = {"": "", **{row.tool: row.text for row in said if row.tool in ("", *tools)}}
    new = own | ({form["tool"].value(): form["text"].value()} if form.errors else {})
    context = {
        "service": service,
        "of_admins": _list_admin_guidance(service, tools),
        "own": {tool: new.pop(tool) for tool in own},
        "gone": [(row.tool, row.text) for row in said if row.tool not in own],
        "new": next(iter(new.items()), ("", "")),
        "tools": [tool for tool in tools if tool not in own],
        "form": form,
        **build_sidebar_context(request.user, ""),
    }
    return render(request, "services/guidance.html", context, status=422 if form.errors else 200)


def _save_guidance(person: Member, service: Service, tool: str, text: str) -> None:
    mine: dict[str, Any] = {"person": person, "service": service, "tool": tool}
    if text:
        Guidance.objects.update_or_create(**mine, defaults={"text": text})
    else:
        Guidance.objects.filter(**mine).delete()


def _list_admin_guidance(service: Service, tools: tuple[str, ...]) -> list[tuple[str, str]]:
    """Return the guidance of admins by tool, because it is sent in the name of the person."""
    decided = ToolSetting.objects.filter(service=service, name__in=tools).exclude(guidance="")
    said = [(setting.name, setting.guidance) for setting in decided.order_by("name")]
    return [("", service.guidance), *said] if service.guidance else said
