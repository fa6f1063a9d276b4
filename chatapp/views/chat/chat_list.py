"""Forms of a whole chat, in its menu and in that of its row in the list, and the pages of its
instructions and of archived and deleted chats."""

import uuid
from typing import Any

from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.safestring import SafeString
from django_htmx.http import HttpResponseClientRedirect, reswap, retarget

from chatapp.context.projects import find_project_of
from chatapp.conversations import chat_list
from chatapp.conversations.assistants import find_assistant_of
from chatapp.forms import InstructionsForm
from chatapp.models import Conversation
from chatapp.models.conversations.conversation import RESTORABLE
from chatapp.people.refused import Refused
from chatapp.rendering.pages import fragments
from chatapp.views.access import MemberRequest, for_members

from .conversations import (
    Renaming,
    build_sidebar_context,
    open_draft,
    read_open_chat,
    render_chat,
)
from .model_button import takes_temperature

# On the page of archived chats, of each kind.
MAX_SHOWN = 200


@for_members("POST")
def rename(request: MemberRequest, conversation_id: uuid.UUID) -> HttpResponse:
    conversation = Conversation.of(request.user, conversation_id)
    title = request.POST.get("title", "")
    try:
        chat_list.rename(conversation, title)
    except Refused as refused:
        return _render_refused_title(request, conversation, title, refused)
    return _render_change(request, conversation, focus="title")


@for_members("GET")
def row_menu(request: MemberRequest, conversation_id: uuid.UUID) -> HttpResponse:
    """Return the menu of a chat in the list of chats."""
    conversation = Conversation.of(request.user, conversation_id)
    return render(request, "chat/_row_menu.html", {"conversation": conversation})


@for_members("GET", "HEAD", "POST")
def instructions(request: MemberRequest, conversation_id: uuid.UUID) -> HttpResponse:
    """Show the instructions for a chat; a POST saves them."""
    conversation = Conversation.of(request.user, conversation_id)
    if request.method == "POST":
        form = InstructionsForm(request.POST)
        if form.is_valid():
            given = form.cleaned_data
            chat_list.set_instructions(conversation, given["text"])
            chat_list.set_parameters(conversation, given["temperature"], given["output_tokens"])
            return redirect("conversation", conversation.pk)
    else:
        form = InstructionsForm(
            initial={
                "text": conversation.instructions,
                "temperature": conversation.temperature,
                "output_tokens": conversation.output_tokens,
            }
        )
    context = {
        "conversation": conversation,
        "assistant": find_assistant_of(conversation),
        "project": find_project_of(conversation),
        "form": form,
        "takes_temperature": takes_temperature(
            request.user, conversation.model, conversation.effort
        ),
        **build_sidebar_context(request.user, str(conversation.pk)),
    }
    return render(request, "chat/instructions.html", context, status=422 if form.errors else 200)


@for_members("POST")
def pin(request: MemberRequest, conversation_id: uuid.UUID) -> HttpResponse:
    conversation = Conversation.of(request.user, conversation_id)
    chat_list.pin(conversation, is_on=request.POST.get("pin") != "no")
    return _render_change(request, conversation)


@for_members("POST")
def archive(request: MemberRequest, conversation_id: uuid.UUID) -> HttpResponse:
    conversation = Conversation.of(request.user, conversation_id)
    is_on = request.POST.get("archive") != "no"
    chat_list.archive(conversation, is_on=is_on)
    return _render_change(request, conversation, offers_undo=is_on)


@for_members("POST")
def keep(request: MemberRequest, conversation_id: uuid.UUID) -> HttpResponse:
    """Make an ordinary chat of a temporary one."""
    conversation = Conversation.of(request.user, conversation_id)
    chat_list.keep(conversation)
    return _render_change(request, conversation, is_kept=True)


@for_members("POST")
def delete(request: MemberRequest, conversation_id: uuid.UUID) -> HttpResponse:
    conversation = Conversation.of(request.user, conversation_id)
    chat_list.delete(conversation)
    if _is_from_list(request) and read_open_chat(request) != str(conversation.pk):
        return _render_list(request, conversation, offers_undo=True)
    address = f"{reverse('home')}?deleted={conversation.pk}"
    return HttpResponseClientRedirect(address) if request.htmx else redirect(address)


@for_members("POST")
def restore(request: MemberRequest, conversation_id: uuid.UUID) -> HttpResponse:
    conversation = chat_list.find_deleted(request.user, conversation_id)
    chat_list.restore(conversation)
    if _is_from_list(request):
        return _render_list(request, conversation)
    return redirect("conversation", conversation.pk)


@for_members("GET")
def archived(request: MemberRequest) -> HttpResponse:
    deleted = chat_list.filter_deleted(request.user).filter(is_temporary=False)[:MAX_SHOWN]
    context = {
        "archived": chat_list.filter_archived(request.user)[:MAX_SHOWN],
        "deleted": [(each, each.deleted_at + RESTORABLE) for each in deleted if each.deleted_at],
        "days": RESTORABLE.days,
        **build_sidebar_context(request.user, ""),
    }
    return render(request, "chat/archived.html", context)


def _is_from_list(request: MemberRequest) -> bool:
    """Whether a script sent the form of a row in the list of chats."""
    return bool(request.htmx) and request.GET.get("from") == "list"


def _render_change(
    request: MemberRequest,
    conversation: Conversation,
    *,
    focus: str = "menu",
    is_kept: bool = False,
    offers_undo: bool = False,
) -> HttpResponse:
    """Answer a form about a chat: with the changed heading and list, or without htmx with the page
    of the chat. `focus` is the button of the heading that takes the focus."""
    if _is_from_list(request):
        return _render_list(request, conversation, offers_undo=offers_undo)
    if not request.htmx:
        return redirect("conversation", conversation.pk)
    context = {
        **_build_head_context(conversation),
        "focus": focus,
        "is_kept": is_kept,
        **build_sidebar_context(request.user, str(conversation.pk)),
    }
    changed = render(request, "chat/_chat_head_changed.html", context)
    return reswap(retarget(changed, "#chat-head"), "outerHTML")


def _render_list(
    request: MemberRequest, conversation: Conversation, *, offers_undo: bool = False
) -> HttpResponse:
    """Answer an action in the list of chats: with the list, in which the focus goes to the row of
    the chat or to *Undo*, and with the heading if the chat is open."""
    current = read_open_chat(request)
    context = build_sidebar_context(request.user, current, focused=conversation.pk)
    context["conversation"] = conversation
    if offers_undo:
        context["undo"] = chat_list.find_just_removed(request.user, conversation.pk)
    if current == str(conversation.pk):
        context |= {"is_open": True, **_build_head_context(conversation)}
    changed = render(request, "chat/_row_changed.html", context)
    changed["HX-Reswap"] = "innerMorph"  # which the library does not know
    return retarget(changed, "#sidebar-list")


def _build_head_context(conversation: Conversation) -> dict[str, Any]:
    conversation.refresh_from_db()
    return {
        "conversation": conversation,
        "title": SafeString(fragments.render_title(conversation)),
        "assistant": find_assistant_of(conversation),
        "project": find_project_of(conversation),
    }


def _render_refused_title(
    request: MemberRequest, conversation: Conversation, title: str, refused: Refused
) -> HttpResponse:
    renaming = Renaming(title=title, problem=refused.sentence)
    if not request.htmx:
        draft = open_draft(request.user, conversation)
        return render_chat(request, conversation, draft, refused.status, renaming=renaming)
    context = {
        "conversation": conversation,
        "renaming": renaming,
        "in_list": _is_from_list(request),
    }
    return render(request, "chat/_rename.html", context, status=refused.status)
