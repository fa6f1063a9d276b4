"""What a person sends to a conversation: a message, Stop, the mode, Try again and Continue."""

import uuid
from collections.abc import Callable, Sequence
from typing import Any

from django.http import HttpResponse
from django.shortcuts import redirect, render
from django_htmx.http import HttpResponseClientRedirect

from chatapp.conversations import drafts, intake, message_queue, retry
from chatapp.conversations.assistants import AssistantChoice, AssistantRefused
from chatapp.conversations.projects import ProjectChoice, ProjectRefused
from chatapp.forms import MessageForm
from chatapp.models import Attachment, Conversation, Member, QueuedMessage, Turn
from chatapp.people.refused import Refused
from chatapp.views.access import MemberRequest, for_members

from . import prompts
from .assistant_start import read_choice, read_start_view
from .conversations import render_chat
from .picker import read_draft
from .project_start import read_project_choice, read_project_start
from .uploads import keep_files


@for_members("POST")
def send(request: MemberRequest, conversation_id: uuid.UUID | None = None) -> HttpResponse:
    """Accept a message; without an id it starts a conversation. The socket sends the answer."""
    conversation = Conversation.of(request.user, conversation_id) if conversation_id else None
    kept, problem = keep_files(request)
    form = MessageForm(request.POST)
    if wanted := prompts.find_named_prompt(request):
        return prompts.render_form(request, *wanted)
    if offered := prompts.offer_named_command(request):
        return offered
    try:
        if not form.is_valid():
            raise Refused(intake.NOT_VALID)
        if problem:
            raise problem
        said = dict(form.cleaned_data)
        draft_id = said.pop("draft")
        sent = _send(
            request.user, conversation, read_choice(request), read_project_choice(request), **said
        )
    except Refused as refused:
        return render_refusal(request, conversation, refused, kept)
    if conversation is None or hasattr(conversation, "message_draft"):
        drafts.delete_draft(request.user, conversation, said["client_id"], draft_id)
    if request.htmx and conversation is not None and sent.conversation_id == conversation.pk:
        context = {"client_id": uuid.uuid4(), "had_files": form.cleaned_data["attachments"]}
        return render(request, "chat/_sent.html", context)
    if request.htmx:
        return HttpResponseClientRedirect(f"/c/{sent.conversation_id}/")
    return redirect("conversation", sent.conversation_id)


def _send(
    person: Member,
    conversation: Conversation | None,
    assistant: AssistantChoice | None,
    project: ProjectChoice | None,
    *,
    queue: str,
    mode: str,
    tools: str,
    temporary: bool,
    **said: Any,
) -> Turn | QueuedMessage:
    """Start a chat with this message, or send or queue it in the chat that is open."""
    if conversation is None:
        begun: dict[str, Any] = {
            "mode": mode,
            "tools": tools,
            "is_temporary": temporary,
            "assistant": assistant,
            "project": project,
        }
        return intake.receive(person, None, **begun, **said)
    return message_queue.send_or_queue(person, conversation, waits=bool(queue), **said)


@for_members("POST")
def stop(request: MemberRequest, conversation_id: uuid.UUID) -> HttpResponse:
    conversation = Conversation.of(request.user, conversation_id)
    intake.stop(conversation)
    if request.htmx:
        return HttpResponse(status=204)
    return redirect("conversation", conversation.pk)


@for_members("POST")
def switch_mode(request: MemberRequest, conversation_id: uuid.UUID) -> HttpResponse:
    """Switch this chat to plan mode or to act mode."""
    conversation = Conversation.of(request.user, conversation_id)
    try:
        intake.switch_mode(conversation, request.POST.get("mode", ""))
    except Refused as refused:
        return render_refusal(request, conversation, refused)
    if request.htmx:
        return HttpResponse(status=204)
    return redirect("conversation", conversation.pk)


@for_members("POST")
def ask_again(request: MemberRequest, conversation_id: uuid.UUID) -> HttpResponse:
    """Retry an answer that failed or was stopped. The message box keeps its content."""
    conversation = Conversation.of(request.user, conversation_id)
    model = request.POST.get("model") or conversation.model
    return perform(
        request, conversation, lambda: retry.ask_again(conversation, request.user, model)
    )


@for_members("POST")
def go_on(request: MemberRequest, conversation_id: uuid.UUID) -> HttpResponse:
    """Ask for the rest of an answer that was cut off. The message box keeps its content."""
    conversation = Conversation.of(request.user, conversation_id)
    model = request.POST.get("model") or conversation.model
    text = retry.GO_ON
    return perform(
        request,
        conversation,
        lambda: intake.receive(request.user, conversation, text=text, model=model),
    )


def perform(
    request: MemberRequest, conversation: Conversation, act: Callable[[], object]
) -> HttpResponse:
    _, problem = ([], None) if request.htmx else keep_files(request)
    try:
        act()
    except Refused as refused:
        return render_refusal(request, conversation, refused)
    if request.htmx:
        return HttpResponse(status=204)
    conversation.refresh_from_db()
    refusal = problem.sentence if problem else ""
    return render_chat(request, conversation, read_draft(request, refusal))


def render_refusal(
    request: MemberRequest,
    conversation: Conversation | None,
    refused: Refused,
    kept: Sequence[Attachment] = (),
) -> HttpResponse:
    """Show why the message was not sent. The message box keeps its text and its files."""
    missing = refused.missing if isinstance(refused, AssistantRefused) else ()
    if request.htmx and isinstance(refused, AssistantRefused):
        context = {
            "sentence": refused.sentence,
            "attachments": kept,
            "has_files": bool(request.FILES),
            "start": read_start_view(request, request.user, missing),
        }
        answer = render(request, "chat/_assistant_refused.html", context, status=refused.status)
    elif request.htmx and isinstance(refused, ProjectRefused):
        context = {
            "sentence": refused.sentence,
            "attachments": kept,
            "has_files": bool(request.FILES),
            "start": read_project_start(request, request.user),
        }
        answer = render(request, "projects/_refused.html", context, status=refused.status)
    elif request.htmx:
        context = {"sentence": refused.sentence, "attachments": kept}
        template = "chat/_files_added.html" if request.FILES else "chat/_refusal.html"
        answer = render(request, template, context, status=refused.status)
    else:
        draft = read_draft(request, refused.sentence, missing=missing)
        answer = render_chat(request, conversation, draft, refused.status)
    return refused.set_retry(answer)
