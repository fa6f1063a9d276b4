"""What a person tells the assistant about a service and its tools."""

from typing import Any

from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render

from chatapp.forms import GuidanceForm
from chatapp.models import Guidance, Member
from mcpconfig.models import Service, ToolSetting
from mcpconfig.sharing import shared_view

from .access import MemberRequest, for_members
from .conversations import sidebar_context


@for_members("GET", "HEAD", "POST")
def guidance(request: MemberRequest, name: str) -> HttpResponse:
    """A text for the service or for one tool of it; an empty text takes the old one away."""
    service = get_object_or_404(Service.objects.for_member(request.user), name=name)
    tools = shared_view(service, request.user).tools or ()
    form = GuidanceForm(request.POST or None, tools=tools)
    if form.is_valid():
        _tell(request.user, service, form.cleaned_data["tool"], form.cleaned_data["text"])
        return redirect("guidance", service.name)
    said = Guidance.objects.filter(person=request.user, service=service).order_by("tool")
    own = {"": "", **{row.tool: row.text for row in said if row.tool in ("", *tools)}}
    new = own | ({form["tool"].value(): form["text"].value()} if form.errors else {})
    context = {
        "service": service,
        "of_admins": _of_admins(service, tools),
        "own": {tool: new.pop(tool) for tool in own},
        "gone": [(row.tool, row.text) for row in said if row.tool not in own],
        "new": next(iter(new.items()), ("", "")),
        "tools": [tool for tool in tools if tool not in own],
        "form": form,
        **sidebar_context(request.user, ""),
    }
    return render(request, "services/guidance.html", context, status=422 if form.errors else 200)


def _tell(person: Member, service: Service, tool: str, text: str) -> None:
    mine: dict[str, Any] = {"person": person, "service": service, "tool": tool}
    if text:
        Guidance.objects.update_or_create(**mine, defaults={"text": text})
    else:
        Guidance.objects.filter(**mine).delete()


def _of_admins(service: Service, tools: tuple[str, ...]) -> list[tuple[str, str]]:
    """What admins say, by tool. A person may know what is told in their name."""
    decided = ToolSetting.objects.filter(service=service, name__in=tools).exclude(guidance="")
    said = [(setting.name, setting.guidance) for setting in decided.order_by("name")]
    return [("", service.guidance), *said] if service.guidance else said
