"""Versions of messages: a person edits a message, asks for another answer, and switches between
them."""

import uuid
from http import HTTPStatus
from typing import Any

from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django_htmx.http import HttpResponseClientRedirect

from chatapp.conversations import intake, versions
from chatapp.conversations.search import read_text
from chatapp.forms import EditForm
from chatapp.live.page_view import load_person_message
from chatapp.models import Conversation, Message
from chatapp.people.refused import Refused
from chatapp.providers.access.model_choice import find_default_model
from chatapp.views.access import MemberRequest, for_members

from .conversations import build_sidebar_context
from .messages import perform


@for_members("GET", "POST")
def edit(request: MemberRequest, conversation_id: uuid.UUID, message_id: uuid.UUID) -> HttpResponse:
    """Show the form to edit a message, or with `show` the message again; send the new version."""
    message = versions.find_message(request.user, conversation_id, message_id)
    if request.method == "GET" and "show" in request.GET:
        return _render_message(request, message)
    if request.method == "GET":
        return _render_form(request, message, read_text(message), uuid.uuid4())
    form = EditForm(request.POST)
    try:
        if not form.is_valid():
            raise Refused(intake.NOT_VALID)
        model = _read_model(request, message)
        versions.edit_message(request.user, message, model=model, **form.cleaned_data)
    except Refused as refused:
        text, client_id = form.data.get("text", ""), form.data.get("client_id", "")
        return refused.set_retry(_render_form(request, message, text, client_id, refused))
    address = reverse("conversation", args=[conversation_id])
    if not request.htmx:
        return redirect(address)
    # A page of an older part has no place for the new messages.
    if request.htmx.current_url_abs_path != address:
        return HttpResponseClientRedirect(address)
    return HttpResponse(status=204)


@for_members("POST")
def answer_again(
    request: MemberRequest, conversation_id: uuid.UUID, message_id: uuid.UUID
) -> HttpResponse:
    """Ask for another answer to a message. The message box keeps its content."""
    message = versions.find_message(request.user, conversation_id, message_id)
    model = _read_model(request, message)
    return perform(
        request,
        message.conversation,
        lambda: versions.answer_again(request.user, message, model),
    )


def _read_model(request: MemberRequest, message: Message) -> str:
    """Return the model that is chosen on the page, or that of the chat. An imported chat has none
    before its person goes on."""
    chosen = request.POST.get("model") or message.conversation.model
    return chosen or find_default_model(request.user)


@for_members("POST")
def show(request: MemberRequest, conversation_id: uuid.UUID) -> HttpResponse:
    """Switch to the version with this message."""
    conversation = Conversation.of(request.user, conversation_id)
    try:
        message_id = uuid.UUID(request.POST.get("message", ""))
    except ValueError:
        raise Http404("No such message.") from None
    answer = perform(request, conversation, lambda: versions.show_version(conversation, message_id))
    # A page without a message box has nothing to keep.
    has_draft = request.htmx or "text" in request.POST
    is_switched = answer.status_code == HTTPStatus.OK and not has_draft
    return redirect("conversation", conversation_id) if is_switched else answer


def _render_message(request: MemberRequest, message: Message) -> HttpResponse:
    view = load_person_message(message.pk, message.turns_asked.first(), message.conversation)
    return render(request, "chat/_said.html", {"view": view, "is_back": True})


def _render_form(
    request: MemberRequest,
    message: Message,
    text: str,
    client_id: uuid.UUID | str,
    refused: Refused | None = None,
) -> HttpResponse:
    context: dict[str, Any] = {
        "message": message,
        "text": text,
        "client_id": client_id,
        "refusal": refused.sentence if refused else "",
        "sent_calls": versions.count_sent_calls(message),
        "ends_request": versions.has_open_request(message),
        "in_place": request.htmx,
    }
    status = refused.status if refused else 200
    if request.htmx:
        return render(request, "chat/_edit.html", context, status=status)
    context |= build_sidebar_context(request.user, str(message.conversation_id))
    return render(request, "chat/edit.html", context, status=status)
