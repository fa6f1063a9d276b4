"""Signing second: pages and answers for whoever signs somebody else's call."""

from django.http import HttpResponse
from django.middleware.csrf import get_token
from django.shortcuts import redirect, render
from django.utils.safestring import SafeString

from chatapp.models import ToolCall
from chatapp.rendering import changing, inbox, page, second_signature
from chatapp.turns.waiting import others

from .access import MemberRequest
from .conversations import sidebar_context


def is_own(request: MemberRequest, call: ToolCall) -> bool:
    return call.turn.conversation.owner_id == request.user.pk


def signed(
    request: MemberRequest,
    call: ToolCall,
    refusal: str,
    status: int,
    said: changing.Typed | None,
) -> HttpResponse:
    """The call as it is after an answer."""
    if request.htmx:
        html = second_signature.card(call, get_token(request), refusal, said)
        return HttpResponse(html, status=status)
    if refusal:
        return signing_page(request, call, refusal, status, said)
    return redirect("approval", call.pk)


def signing_page(
    request: MemberRequest,
    call: ToolCall,
    refusal: str = "",
    status: int = 200,
    said: changing.Typed | None = None,
) -> HttpResponse:
    card = second_signature.card(call, get_token(request), refusal, said)
    context = {
        "card": SafeString(card),
        "requester": call.turn.conversation.owner.display_name,
        "next": SafeString(inbox.what_next(others(request.user, call.pk), call.pk)),
        "shows": f"{page.tool_call_id(call.pk)},{page.next_id(call.pk)}",
        **sidebar_context(request.user, ""),
    }
    return render(request, "chat/second_signature.html", context, status=status)
