"""The chat's pages: a new chat, a conversation, and the list of conversations beside them."""

import uuid
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from django.conf import settings
from django.http import HttpResponse
from django.middleware.csrf import get_token
from django.shortcuts import render
from django.urls import reverse
from django.utils.safestring import SafeString

from chatapp.models import Conversation, Member
from chatapp.providers.registry import ModelChoice, default_model, offered_models
from chatapp.rendering import fragments, page
from chatapp.turns.reading import count_open_calls, read_conversation, sidebar

from .access import MemberRequest, for_members


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """What stands in the message box. `refusal` says why it was not sent."""

    text: str = ""
    model: str = ""
    refusal: str = ""
    client_id: uuid.UUID = field(default_factory=uuid.uuid4)


@dataclass(frozen=True, slots=True, kw_only=True)
class Starter:
    """A first message that a new chat suggests."""

    text: str
    about: str


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
    chosen = draft.model or (conversation.model if conversation else "") or default_model()
    context: dict[str, Any] = {
        "conversation": conversation,
        "draft": draft,
        "models": _models(chosen),
        "chosen_model": chosen,
        "starters": () if conversation else _starters(),
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
    return {"groups": links, "waiting": count_open_calls(person)}


def _starters() -> tuple[Starter, ...]:
    return DEMO_STARTERS if settings.DEMO else ()


def _models(chosen: str) -> list[tuple[str, list[ModelChoice]]]:
    """The offered models by provider. A conversation keeps a model that is no longer offered."""
    offered = offered_models()
    if chosen and chosen not in {choice.id for choice in offered}:
        offered = [*offered, ModelChoice(id=chosen, label=chosen, provider_label="This chat")]
    return [
        (label, list(choices))
        for label, choices in groupby(offered, key=lambda choice: choice.provider_label)
    ]
