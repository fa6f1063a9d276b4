"""The Tools menu: above the message box with htmx, otherwise as a page that carries the content of
the message box."""

from typing import Any

from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.utils.translation import gettext as _

from chatapp.tool_menu import switches
from chatapp.tool_menu.menu import MenuRequest, build_menu
from chatapp.tool_menu.own_tools import OWN, build_own_tools, load_own_tools
from chatapp.tool_menu.paging import can_see_tools
from chatapp.views.access import MemberRequest, for_members
from mcpconfig.models import Service
from mcpconfig.values.results import make_storable

from .picker import find_chat, list_carried_fields, render_step

QUERY_CHARACTERS = 200
ALL_CHATS = "all"


@for_members("GET", "HEAD", "POST")
def tools(request: MemberRequest) -> HttpResponse:
    return render_step(request, "tools", _build_context(request))


@for_members("POST")
def refresh(request: MemberRequest) -> HttpResponse:
    """Refresh the open menu, while its search is typed and after a change elsewhere."""
    if "scope" not in request.POST:
        return HttpResponse(status=204)
    return _render_list(request)


@for_members("POST")
def switch(request: MemberRequest) -> HttpResponse:
    """Switch tools, or show another part of the menu."""
    _apply_switches(request)
    return (
        _render_list(request)
        if request.htmx
        else render_step(request, "tools", _build_context(request))
    )


def _apply_switches(request: MemberRequest) -> None:
    wanted = _read_wanted(request)
    chat = find_chat(request)
    for name, is_on in (("on", True), ("off", False)):
        if name in request.POST:
            service, tool = _find_switched(request, request.POST[name])
            switches.switch(request.user, wanted.conversation, service, tool, is_on)
    if chat is not None and "chat-tools" in request.POST:
        switches.switch_all(chat, request.POST["chat-tools"] == "on")
    if chat is not None and "as-elsewhere" in request.POST:
        switches.reset_switches(chat)


def _find_switched(request: MemberRequest, place: str) -> tuple[Service | None, str]:
    """Return the service and the tool of a switch. Without a service it is a built-in tool. Raises
    Http404 if this person may not see them."""
    name, _, tool = make_storable(place).partition("/")
    if name == OWN:
        if tool not in load_own_tools(request.user):
            raise Http404("No such tool.")
        return None, tool
    service = get_object_or_404(Service.objects.for_member(request.user), name=name)
    if tool and not can_see_tools(service, request.user):
        raise Http404("No such tool.")
    if tool and not service.definitions.filter(is_current=True, name=tool).exists():
        raise Http404("No such tool.")
    return service, tool


def _render_list(request: MemberRequest) -> HttpResponse:
    response = render(request, "chat/_tools.html", _build_context(request))
    response["HX-Retarget"] = "#tools"
    response["HX-Reswap"] = "outerMorph"
    return response


def _build_context(request: MemberRequest) -> dict[str, Any]:
    wanted = _read_wanted(request)
    return {
        "heading": _("Tools"),
        "menu": build_menu(request.user, wanted),
        "own": build_own_tools(request.user, wanted),
        "chat": find_chat(request),
        "scope": "chat" if wanted.conversation else ALL_CHATS,
        "carried": [] if request.htmx else list_carried_fields(request),
    }


def _read_wanted(request: MemberRequest) -> MenuRequest:
    scope = request.POST.get("to") or request.POST.get("scope")
    opened = request.POST.get("opens", request.POST.get("open", ""))
    return MenuRequest(
        conversation=None if scope == ALL_CHATS else find_chat(request),
        query=make_storable(request.POST.get("q", "")[:QUERY_CHARACTERS]).strip(),
        opened=make_storable(opened[:QUERY_CHARACTERS]),
    )
