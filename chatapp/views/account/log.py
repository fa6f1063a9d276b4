"""The activity log of a person: entries by them and about them."""

from django.db.models import Q
from django.http import HttpResponse
from django.shortcuts import render

from chatapp.approvals.attention_checks import hide_open
from chatapp.audit.audit_log import read_end
from chatapp.models import Conversation, LogEntry
from chatapp.rendering.pages.log import build_line
from chatapp.views.access import MemberRequest, for_members
from chatapp.views.chat.conversations import build_sidebar_context
from mcpconfig.values.numbers import read_number

PAGE_LENGTH = 50


@for_members("GET")
def log(request: MemberRequest) -> HttpResponse:
    own = LogEntry.objects.filter(Q(actor_id=request.user.pk) | Q(person_id=request.user.pk))
    mine = hide_open(own, request.user)
    before = read_number(request.GET.get("before", ""))
    if before is not None:
        mine = mine.filter(position__lt=before)
    lines = [build_line(entry) for entry in mine.order_by("-position")[: PAGE_LENGTH + 1]]
    chats = Conversation.filter_owned(request.user)
    named = {line.conversation_id for line in lines if line.conversation_id}
    context = {
        "lines": lines[:PAGE_LENGTH],
        "chats": set(chats.filter(pk__in=named).values_list("pk", flat=True)),
        "next": lines[PAGE_LENGTH - 1].position if len(lines) > PAGE_LENGTH else None,
        "end": read_end(),
        **build_sidebar_context(request.user, ""),
    }
    return render(request, "chat/log.html", context)
