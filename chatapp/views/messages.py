"""What a person says to a conversation: a message, or Stop."""

import uuid

from django.http import HttpResponse
from django.shortcuts import redirect, render
from django_htmx.http import HttpResponseClientRedirect

from chatapp.forms import MessageForm
from chatapp.models import Conversation
from chatapp.turns import intake
from chatapp.turns.refusals import Refused

from .access import MemberRequest, for_members
from .conversations import Draft, show


@for_members("POST")
def send(request: MemberRequest, conversation_id: uuid.UUID | None = None) -> HttpResponse:
    """Accept a message; without an id it starts a conversation. The socket paints what follows."""
    conversation = Conversation.of(request.user, conversation_id) if conversation_id else None
    form = MessageForm(request.POST)
    try:
        if not form.is_valid():
            raise Refused("This message could not be read. Reload the page and send it again.")
        turn = intake.receive(request.user, conversation, **form.cleaned_data)
    except Refused as refused:
        return _refused(request, conversation, refused)
    if request.htmx and conversation is not None and turn.conversation_id == conversation.pk:
        return HttpResponse(status=204)
    if request.htmx:
        return HttpResponseClientRedirect(f"/c/{turn.conversation_id}/")
    return redirect("conversation", turn.conversation_id)


@for_members("POST")
def stop(request: MemberRequest, conversation_id: uuid.UUID) -> HttpResponse:
    conversation = Conversation.of(request.user, conversation_id)
    intake.stop(conversation)
    if request.htmx:
        return HttpResponse(status=204)
    return redirect("conversation", conversation.pk)


def _refused(
    request: MemberRequest, conversation: Conversation | None, refused: Refused
) -> HttpResponse:
    """Why it was not sent, beside the box; what was written stays there."""
    if request.htmx:
        context = {"sentence": refused.sentence}
        return render(request, "chat/_refusal.html", context, status=refused.status)
    draft = Draft(
        text=request.POST.get("text", ""),
        model=request.POST.get("model", ""),
        refusal=refused.sentence,
    )
    return show(request, conversation, draft, refused.status)
