"""What the log says of a person: their own acts and what was theirs."""

from django.db.models import Q
from django.http import HttpResponse
from django.shortcuts import render

from chatapp.models import Conversation, LogEntry
from chatapp.rendering.log import line_of
from chatapp.turns.log import end

from .access import MemberRequest, for_members
from .conversations import sidebar_context

AT_ONCE = 50
LONGEST_NUMBER = 18


@for_members("GET")
def log(request: MemberRequest) -> HttpResponse:
    mine = LogEntry.objects.filter(Q(actor_id=request.user.pk) | Q(person_id=request.user.pk))
    before = request.GET.get("before", "")
    if before.isdecimal() and len(before) <= LONGEST_NUMBER:
        mine = mine.filter(position__lt=int(before))
    lines = [line_of(entry) for entry in mine.order_by("-position")[: AT_ONCE + 1]]
    chats = Conversation.objects.filter(owner=request.user)
    named = {line.conversation_id for line in lines if line.conversation_id}
    context = {
        "lines": lines[:AT_ONCE],
        "chats": set(chats.filter(pk__in=named).values_list("pk", flat=True)),
        "next": lines[AT_ONCE - 1].position if len(lines) > AT_ONCE else None,
        "end": end(),
        **sidebar_context(request.user, ""),
    }
    return render(request, "chat/log.html", context)
