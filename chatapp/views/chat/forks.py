"""Forks of chats."""

import uuid

from django.http import HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django_htmx.http import HttpResponseClientRedirect

from chatapp.conversations import forks
from chatapp.people.refused import Refused
from chatapp.views.access import MemberRequest, for_members

from .conversations import render_chat
from .messages import render_refusal
from .picker import read_draft
from .uploads import keep_files


@for_members("POST")
def fork(request: MemberRequest, conversation_id: uuid.UUID, message_id: uuid.UUID) -> HttpResponse:
    """Copy the chat up to this answer and open the copy. Without JavaScript, what is in the message
    box goes along, because the page that had it is replaced."""
    answer = forks.find_answer(request.user, conversation_id, message_id)
    kept, problem = ([], None) if request.htmx else keep_files(request)
    try:
        made = forks.fork_chat(answer)
    except Refused as refused:
        return render_refusal(request, answer.conversation, refused, kept)
    address = reverse("conversation", args=[made.pk])
    if request.htmx:
        return HttpResponseClientRedirect(address)
    has_draft = bool(request.POST.get("text") or kept or problem or request.POST.get("attachments"))
    if not has_draft:
        return redirect(address)
    return render_chat(request, made, read_draft(request, problem.sentence if problem else ""))
