"""The project of a chat: the page on which a person moves a chat into one or out of it."""

import uuid

from django.db.models.functions import Lower
from django.http import HttpResponse
from django.shortcuts import redirect, render

from chatapp.conversations.projects import move_chat
from chatapp.models import Conversation, Project
from chatapp.people.refused import Refused
from chatapp.views.access import MemberRequest, for_members, read_id
from chatapp.views.chat.conversations import build_sidebar_context


@for_members("GET", "HEAD", "POST")
def move(request: MemberRequest, conversation_id: uuid.UUID) -> HttpResponse:
    """Show the projects to choose from; a POST moves the chat."""
    conversation = Conversation.of(request.user, conversation_id)
    problem = None
    if request.method == "POST":
        chosen = request.POST.get("project", "")
        try:
            # Text that is no id is the id of no project.
            move_chat(conversation, (read_id(chosen) or uuid.UUID(int=0)) if chosen else None)
        except Refused as refused:
            problem = refused
        else:
            return redirect("conversation", conversation.pk)
    context = {
        "conversation": conversation,
        "projects": Project.filter_active(request.user).order_by(Lower("name"), "pk"),
        "problem": problem,
        **build_sidebar_context(request.user, str(conversation.pk)),
    }
    status = problem.status if problem else 200
    return render(request, "projects/move.html", context, status=status)
