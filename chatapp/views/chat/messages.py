"""What a person says to a conversation: a message, or Stop."""

import uuid
from collections.abc import Callable, Sequence

from django.http import HttpResponse
from django.shortcuts import redirect, render
from django_htmx.http import HttpResponseClientRedirect

from chatapp.forms import MessageForm
from chatapp.models import Attachment, Conversation, Turn
from chatapp.turns import asking_again, intake
from chatapp.turns.refusals import Refused

from . import prompts
from .access import MemberRequest, for_members
from .conversations import show
from .picker import draft_of
from .uploads import take_files


@for_members("POST")
def send(request: MemberRequest, conversation_id: uuid.UUID | None = None) -> HttpResponse:
    """Accept a message; without an id it starts a conversation. The socket paints what follows."""
    conversation = Conversation.of(request.user, conversation_id) if conversation_id else None
    kept, problem = take_files(request)
    form = MessageForm(request.POST)
    if wanted := prompts.asked_for(request):
        return prompts.form_of(request, *wanted)
    try:
        if not form.is_valid():
            raise Refused("This message could not be read. Reload the page and send it again.")
        if problem:
            raise Refused(problem)
        turn = intake.receive(request.user, conversation, **form.cleaned_data)
    except Refused as refused:
        return _refused(request, conversation, refused, kept)
    if request.htmx and conversation is not None and turn.conversation_id == conversation.pk:
        context = {"client_id": uuid.uuid4(), "had_files": form.cleaned_data["attachments"]}
        return render(request, "chat/_sent.html", context)
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


@for_members("POST")
def switch_mode(request: MemberRequest, conversation_id: uuid.UUID) -> HttpResponse:
    """Let this chat plan or act."""
    conversation = Conversation.of(request.user, conversation_id)
    try:
        intake.switch_mode(conversation, request.POST.get("mode", ""))
    except Refused as refused:
        return _refused(request, conversation, refused)
    if request.htmx:
        return HttpResponse(status=204)
    return redirect("conversation", conversation.pk)


@for_members("POST")
def ask_again(request: MemberRequest, conversation_id: uuid.UUID) -> HttpResponse:
    """Begin an answer anew that failed or was stopped; what stands in the box stays there."""
    conversation = Conversation.of(request.user, conversation_id)
    model = request.POST.get("model") or conversation.model
    return _done(
        request, conversation, lambda: asking_again.ask_again(conversation, request.user, model)
    )


@for_members("POST")
def go_on(request: MemberRequest, conversation_id: uuid.UUID) -> HttpResponse:
    """Ask for the rest of an answer that was cut short; what stands in the box stays there."""
    conversation = Conversation.of(request.user, conversation_id)
    model = request.POST.get("model") or conversation.model
    text = asking_again.GO_ON
    return _done(
        request,
        conversation,
        lambda: intake.receive(request.user, conversation, text=text, model=model),
    )


def _done(
    request: MemberRequest, conversation: Conversation, act: Callable[[], Turn]
) -> HttpResponse:
    _, problem = ([], "") if request.htmx else take_files(request)
    try:
        act()
    except Refused as refused:
        return _refused(request, conversation, refused)
    if request.htmx:
        return HttpResponse(status=204)
    conversation.refresh_from_db()
    return show(request, conversation, draft_of(request, problem))


def _refused(
    request: MemberRequest,
    conversation: Conversation | None,
    refused: Refused,
    kept: Sequence[Attachment] = (),
) -> HttpResponse:
    """Why it was not sent, beside the box; what was written stays there, and so do files that came
    along."""
    if request.htmx:
        context = {"sentence": refused.sentence, "attachments": kept}
        template = "chat/_files_added.html" if request.FILES else "chat/_refusal.html"
        return render(request, template, context, status=refused.status)
    return show(request, conversation, draft_of(request, refused.sentence), refused.status)
