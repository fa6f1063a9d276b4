"""The page on which a second signer sees a call, and the response to their answer."""

from django.http import HttpResponse
from django.middleware.csrf import get_token
from django.shortcuts import redirect, render
from django.utils.safestring import SafeString

from chatapp.approvals.inbox import list_others
from chatapp.live.page_facts import load_call_facts
from chatapp.live.shown_cards import mark_shown_to_second
from chatapp.models import ToolCall
from chatapp.rendering import page_values
from chatapp.rendering.cards import approval_card
from chatapp.rendering.pages import inbox, second_signature
from chatapp.views.access import MemberRequest
from chatapp.views.chat.conversations import build_sidebar_context


def is_own_call(request: MemberRequest, call: ToolCall) -> bool:
    return call.turn.conversation.owner_id == request.user.pk


def render_answer(
    request: MemberRequest,
    call: ToolCall,
    refusal: str,
    status: int,
    said: approval_card.RefusedValues | None,
) -> HttpResponse:
    """Return the call as it is after an answer."""
    if request.htmx:
        html = second_signature.render_card(
            call, load_call_facts(call), get_token(request), refusal, said
        )
        return HttpResponse(html, status=status)
    if refusal:
        return render_signing_page(request, call, refusal, status, said)
    return redirect("approval", call.pk)


def render_signing_page(
    request: MemberRequest,
    call: ToolCall,
    refusal: str = "",
    status: int = 200,
    said: approval_card.RefusedValues | None = None,
) -> HttpResponse:
    mark_shown_to_second(call)
    card = second_signature.render_card(
        call, load_call_facts(call), get_token(request), refusal, said
    )
    context = {
        "card": SafeString(card),
        "requester": call.turn.conversation.owner.display_name,
        "next": SafeString(inbox.render_next(list_others(request.user, call.pk), call.pk)),
        "shows": f"{page_values.tool_call_id(call.pk)},{page_values.next_id(call.pk)}",
        **build_sidebar_context(request.user, ""),
    }
    return render(request, "chat/second_signature.html", context, status=status)
