"""The Tools menu: above the message box with htmx, without JavaScript as a page that carries along
what was written."""

from typing import Any

from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404, render

from chatapp.turns import switching
from chatapp.turns.own_tools_menu import OWN, own_tools, own_tools_of
from chatapp.turns.shown_tools import sees_tools
from chatapp.turns.tool_menu import Wanted, menu_of
from mcpconfig.models import Service
from mcpconfig.results import storable

from .access import MemberRequest, for_members
from .picker import carried, chat_of, step

QUERY_CHARACTERS = 200
ALL_CHATS = "all"


@for_members("GET", "HEAD", "POST")
def tools(request: MemberRequest) -> HttpResponse:
    return step(request, "tools", _context(request))


@for_members("POST")
def found(request: MemberRequest) -> HttpResponse:
    """The menu as it is now, in a page that has it open: while its search is typed, and when
    something changed elsewhere."""
    if "scope" not in request.POST:
        return HttpResponse(status=204)
    return _list(request)


@for_members("POST")
def switch(request: MemberRequest) -> HttpResponse:
    """Switch something, or look at something else of the menu."""
    _act(request)
    return _list(request) if request.htmx else step(request, "tools", _context(request))


def _act(request: MemberRequest) -> None:
    wanted = _wanted(request)
    chat = chat_of(request)
    for name, is_on in (("on", True), ("off", False)):
        if name in request.POST:
            service, tool = _named(request, request.POST[name])
            switching.switch(request.user, wanted.conversation, service, tool, is_on)
    if chat is not None and "chat-tools" in request.POST:
        switching.switch_all(chat, request.POST["chat-tools"] == "on")
    if chat is not None and "as-elsewhere" in request.POST:
        switching.switch_as_elsewhere(chat)


def _named(request: MemberRequest, place: str) -> tuple[Service | None, str]:
    """The service and the tool that a switch names, if this person may see them, or 404; without a
    service it is a tool of our own."""
    name, _, tool = storable(place).partition("/")
    if name == OWN:
        if tool not in own_tools(request.user):
            raise Http404("No such tool.")
        return None, tool
    service = get_object_or_404(Service.objects.for_member(request.user), name=name)
    if tool and not sees_tools(service, request.user):
        raise Http404("No such tool.")
    if tool and not service.definitions.filter(is_current=True, name=tool).exists():
        raise Http404("No such tool.")
    return service, tool


def _list(request: MemberRequest) -> HttpResponse:
    response = render(request, "chat/_tools.html", _context(request))
    response["HX-Retarget"] = "#tools"
    response["HX-Reswap"] = "outerMorph"
    return response


def _context(request: MemberRequest) -> dict[str, Any]:
    wanted = _wanted(request)
    return {
        "heading": "Tools",
        "menu": menu_of(request.user, wanted),
        "own": own_tools_of(request.user, wanted),
        "chat": chat_of(request),
        "scope": "chat" if wanted.conversation else ALL_CHATS,
        "carried": [] if request.htmx else carried(request),
    }


def _wanted(request: MemberRequest) -> Wanted:
    scope = request.POST.get("to") or request.POST.get("scope")
    opened = request.POST.get("opens", request.POST.get("open", ""))
    return Wanted(
        conversation=None if scope == ALL_CHATS else chat_of(request),
        query=storable(request.POST.get("q", "")[:QUERY_CHARACTERS]).strip(),
        opened=storable(opened[:QUERY_CHARACTERS]),
    )
