"""Answers to questions of services, and the card with a refused answer."""

import uuid
from typing import cast

from django.http import HttpResponse
from django.middleware.csrf import get_token
from django.shortcuts import redirect

from chatapp.approvals import questions
from chatapp.approvals.questions import Action, InvalidAnswer
from chatapp.live.page_facts import render_call
from chatapp.models import Question, ToolCall
from chatapp.people.refused import Refused
from chatapp.rendering.cards.paused_cards import RefusedAnswer
from chatapp.rendering.cards.question_form import read_values
from chatapp.views.access import MemberRequest, for_members
from chatapp.views.chat.conversations import build_call_address

from .decisions import UNREADABLE, render_call_page


@for_members("POST")
def answer(request: MemberRequest, question_id: uuid.UUID) -> HttpResponse:
    """Answer, decline or dismiss. A refused answer is shown again with what was typed."""
    question = questions.get_question(request.user, question_id)
    refusal, status, typed = "", 200, None
    try:
        _answer(request, question)
    except InvalidAnswer as misfit:
        refusal, status = misfit.sentence, misfit.status
        typed = RefusedAnswer(sent=request.POST, problems=misfit.problems)
    except Refused as refused:
        refusal, status = refused.sentence, refused.status
    call = ToolCall.of(request.user, question.tool_call_id)
    if request.htmx:
        html = render_call(call, get_token(request), refusal, typed=typed)
        return HttpResponse(html, status=status)
    if refusal:
        return render_call_page(request, call, refusal, status, typed)
    return redirect(build_call_address(call))


def _answer(request: MemberRequest, question: Question) -> None:
    action = request.POST.get("action", "")
    if action not in questions.STATE_OF_ACTION:
        raise Refused(UNREADABLE)
    asked = questions.read_requests(question)
    values = {each.key: read_values(each, place, request.POST) for place, each in enumerate(asked)}
    questions.answer(question, by=request.user, action=cast(Action, action), values=values)
