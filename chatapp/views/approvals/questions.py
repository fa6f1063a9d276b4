"""Answering what a service asks: the form on the card, and the card with what did not fit."""

import uuid
from typing import cast

from django.http import HttpResponse
from django.middleware.csrf import get_token
from django.shortcuts import redirect

from chatapp.models import Question, ToolCall
from chatapp.rendering import fragments, page
from chatapp.rendering.pauses import Typed
from chatapp.rendering.questions import values_of
from chatapp.turns import questions
from chatapp.turns.questions import Action, Misfit
from chatapp.turns.refusals import Refused

from .access import MemberRequest, for_members
from .approvals import UNREADABLE, call_page


@for_members("POST")
def answer(request: MemberRequest, question_id: uuid.UUID) -> HttpResponse:
    """Answer, decline or dismiss; what does not fit comes back with what was typed."""
    question = questions.question_of(request.user, question_id)
    refusal, status, typed = "", 200, None
    try:
        _answer(request, question)
    except Misfit as misfit:
        refusal, status = misfit.sentence, misfit.status
        typed = Typed(sent=request.POST, problems=misfit.problems)
    except Refused as refused:
        refusal, status = refused.sentence, refused.status
    call = ToolCall.of(request.user, question.tool_call_id)
    if request.htmx:
        html = fragments.tool_call(call, get_token(request), refusal, typed=typed)
        return HttpResponse(html, status=status)
    if refusal:
        return call_page(request, call, refusal, status, typed)
    return redirect(f"/c/{call.turn.conversation_id}/#{page.tool_call_id(call.pk)}")


def _answer(request: MemberRequest, question: Question) -> None:
    action = request.POST.get("action", "")
    if action not in questions.STATE_OF_ACTION:
        raise Refused(UNREADABLE)
    asked = questions.requests_of(question)
    values = {each.key: values_of(each, place, request.POST) for place, each in enumerate(asked)}
    questions.answer(question, by=request.user, action=cast(Action, action), values=values)
