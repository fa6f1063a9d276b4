"""The chat's pages: a new chat, a conversation, and the list of conversations beside them."""

import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

from csp.constants import SELF
from csp.decorators import csp_update
from django.conf import settings
from django.http import HttpResponse
from django.middleware.csrf import get_token
from django.shortcuts import render
from django.urls import reverse
from django.utils.safestring import SafeString

from chatapp.models import Attachment, Conversation, Member
from chatapp.rendering import fragments, inbox, page
from chatapp.turns.gauge import gauge_of
from chatapp.turns.model_choice import default_model
from chatapp.turns.reading import read_conversation, sidebar
from chatapp.turns.second_signatures import is_approver
from chatapp.turns.tool_menu import button_of
from chatapp.turns.waiting import count_for
from mcpconfig.models import Service

from .access import MemberRequest, for_members
from .model_pick import model_pick


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """What stands in the message box. `refusal` says why it was not sent."""

    text: str = ""
    model: str = ""
    mode: str = ""
    tools: str = ""
    refusal: str = ""
    attachments: tuple[Attachment, ...] = ()
    client_id: uuid.UUID = field(default_factory=uuid.uuid4)


@dataclass(frozen=True, slots=True, kw_only=True)
class Starter:
    """A first message that a new chat suggests."""

    text: str
    about: str


View = Callable[..., HttpResponse]
# The apps of a conversation's calls, each sealed off by a policy of its own: no other page of ours
# frames anything. The decorator's own types know no view with arguments.
frames_apps = cast(Callable[[View], View], csp_update({"frame-src": [SELF]}))

DEMO_STARTERS = (
    Starter(text="What notes are there?", about="Lists the demo notebook"),
    Starter(text="Find notes about milk and read them", about="Two tools, one after another"),
    Starter(text="Delete the note Old ideas", about="Asks you before anything happens"),
    Starter(text="Show me everything you can do", about="Tables, code and formulas"),
)


@for_members("GET", "HEAD")
def new_chat(request: MemberRequest) -> HttpResponse:
    start = request.GET.get("start", "")
    starters = dict(enumerate(_starters(), start=1))
    chosen = starters.get(int(start)) if start.isdecimal() else None
    return show(request, None, Draft(text=chosen.text if chosen else ""))


@for_members("GET", "HEAD")
@frames_apps
def conversation(request: MemberRequest, conversation_id: uuid.UUID) -> HttpResponse:
    return show(request, Conversation.of(request.user, conversation_id), Draft())


@for_members("GET")
def sidebar_list(request: MemberRequest) -> HttpResponse:
    """The list of conversations, asked for again from time to time."""
    context = sidebar_context(request.user, request.GET.get("current", ""))
    return render(request, "chat/_sidebar_list.html", context)


def show(
    request: MemberRequest, conversation: Conversation | None, draft: Draft, status: int = 200
) -> HttpResponse:
    """The chat page: a conversation as it is now, or an empty one, with `draft` in the box."""
    token = get_token(request)
    chosen = (
        draft.model or (conversation.model if conversation else "") or default_model(request.user)
    )
    context: dict[str, Any] = {
        "conversation": conversation,
        "draft": draft,
        "pick": model_pick(request.user, chosen),
        "starters": () if conversation else _starters(),
        "mode": SafeString(fragments.mode(conversation, token, draft.mode)),
        "gauge": SafeString(fragments.gauge(gauge_of(conversation))),
        "tools_button": SafeString(button_of(request.user, conversation)),
        "thread_id": page.THREAD_ID,
        **sidebar_context(request.user, str(conversation.pk) if conversation else ""),
    }
    if conversation is None:
        context["send_to"] = reverse("send-first")
        context["actions"] = SafeString(fragments.composer_actions(None, None))
        return render(request, "chat/page.html", context, status=status)
    view = read_conversation(conversation)
    shown = (fragments.message(message, token) for message in view.messages)
    context |= {
        "view": view,
        "send_to": reverse("send", args=[conversation.pk]),
        "title": SafeString(fragments.title(conversation)),
        "messages": SafeString("".join(shown)),
        "shows_apps": Service.objects.for_member(request.user).filter(allows_apps=True).exists(),
        "actions": SafeString(fragments.composer_actions(conversation, view.live_turn, token)),
    }
    return render(request, "chat/page.html", context, status=status)


def sidebar_context(person: Member, current: str) -> dict[str, Any]:
    """What the list of conversations shows; `current` is the id of the one that is open."""
    groups = sidebar(person)
    links = [
        (
            group.label,
            [
                SafeString(
                    fragments.conversation_link(
                        link.conversation, link.dot, str(link.conversation.pk) == current
                    )
                )
                for link in group.links
            ],
        )
        for group in groups
    ]
    waiting = count_for(person)
    return {
        "groups": links,
        "waiting": waiting,
        "badge": SafeString(inbox.badge(waiting)),
        "is_approver": is_approver(person),
    }


def _starters() -> tuple[Starter, ...]:
    return DEMO_STARTERS if settings.DEMO else ()
