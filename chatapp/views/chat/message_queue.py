"""What a person does to a queued message: send it now, edit it, remove it."""

import uuid

from django.http import HttpResponse
from django.shortcuts import redirect
from django_htmx.http import HttpResponseClientRedirect

from chatapp.conversations import intake, message_queue
from chatapp.forms import DraftForm
from chatapp.models import Conversation
from chatapp.people.refused import Refused
from chatapp.views.access import MemberRequest, for_members

from .messages import perform, render_refusal
from .uploads import keep_files


@for_members("POST")
def send_now(request: MemberRequest, conversation_id: uuid.UUID, message_id: int) -> HttpResponse:
    """Send a queued message before the others. The message box keeps its content."""
    conversation = Conversation.of(request.user, conversation_id)
    return perform(
        request,
        conversation,
        lambda: message_queue.send_now(request.user, conversation, message_id),
    )


@for_members("POST")
def edit(request: MemberRequest, conversation_id: uuid.UUID, message_id: int) -> HttpResponse:
    """Move a queued message into the message box, before what is there."""
    conversation = Conversation.of(request.user, conversation_id)
    kept, problem = keep_files(request)
    form = DraftForm(request.POST)
    try:
        if not form.is_valid():
            raise Refused(intake.NOT_VALID)
        if problem:
            raise problem
        box = {name: form.cleaned_data[name] for name in ("text", "attachments", "client_id")}
        message_queue.take_back(request.user, conversation, message_id, **box)
    except Refused as refused:
        return render_refusal(request, conversation, refused, kept)
    if request.htmx:
        return HttpResponseClientRedirect(f"/c/{conversation_id}/")
    return redirect("conversation", conversation_id)


@for_members("POST")
def remove(request: MemberRequest, conversation_id: uuid.UUID, message_id: int) -> HttpResponse:
    """Remove a queued message. The message box keeps its content."""
    conversation = Conversation.of(request.user, conversation_id)
    return perform(request, conversation, lambda: message_queue.remove(conversation, message_id))
