"""What the cards of paused calls show: the sign-in or the answers that a service wants first, and
the result that the assistant has not seen yet."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from django.conf import settings
from django.http import QueryDict
from django.urls import reverse

from chatapp.models import Question, RemoteTask, Review, ToolCall
from mcpconfig.acting import Acting
from mcpconfig.oauth.standing import Standing, standing
from mcpconfig.oauth.standing import State as StandingState
from mcpconfig.results import InputRequest
from mcpconfig.sharing import may_connect

from . import call_values, results
from .questions import asked_of
from .visible import draw_hidden

State = ToolCall.State
WAITS_FOR = {
    State.AWAITING_APPROVAL: "Waiting for your approval",
    State.AWAITING_INPUT: "Waiting for your answer",
    State.UNKNOWN: "Waiting for your answer",
    State.AWAITING_SIGN_IN: "Waiting for your sign-in",
    State.AWAITING_TASK: "Waiting for a long task",
}


class Way(Protocol):
    """Where a sign-in begins: our own link leads there, and its host is shown."""

    @property
    def url(self) -> str: ...
    @property
    def host(self) -> str: ...
    @property
    def scopes(self) -> tuple[str, ...]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Typed:
    """An answer that did not fit: what was typed, and what is wrong with each field."""

    sent: QueryDict
    problems: Mapping[str, Mapping[str, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    template: str
    context: dict[str, Any]


def card_of(call: ToolCall, leads_to: Way | None, typed: Typed | None) -> Card | None:
    """The card of a call for which somebody has to do something first; None for any other."""
    review = open_review_of(call)
    if review is not None:
        return Card(template="chat/_review.html", context=reviewing(call, review))
    if call.state == State.AWAITING_SIGN_IN:
        return Card(template="chat/_connect.html", context=connecting(call, leads_to))
    if call.state in (State.AWAITING_INPUT, State.SENDING):
        question = call.questions.filter(state=Question.State.OPEN).last()
        if question is not None:
            return Card(template="chat/_question.html", context=asking(call, question, typed))
    return None


def open_review_of(call: ToolCall) -> Review | None:
    review: Review | None = getattr(call, "review", None)
    return review if review is not None and review.state == Review.State.OPEN else None


def reviewing(call: ToolCall, review: Review) -> dict[str, Any]:
    """The card with a result that the assistant has not seen yet."""
    return {
        "risk": "medium",
        "keep": f"review-{review.binding}",
        "places": call_values.places(call_values.host_of(call)),
        "arguments": call_values.arguments_of(call),
        "problem": call_values.problem_of(call),
        "results": results.pieces_of_call(call),
        "answer_to": reverse("review", args=[call.pk]),
    }


def asking(call: ToolCall, question: Question, typed: Typed | None) -> dict[str, Any]:
    """The card with a service's question: a form for each thing that it asks."""
    requests = [InputRequest.from_json(each) for each in question.requests]
    sent = typed.sent if typed else None
    problems = typed.problems if typed else {}
    host = call_values.host_of(call)
    return {
        "risk": "medium",
        # Another card only where it asks something else, so that what was typed stays.
        "keep": f"question-{question.pk}{'-typed' if typed else ''}",
        "places": [draw_hidden(host)] if host else [],
        "question": question,
        "asked": [
            asked_of(request, place, sent, problems.get(request.key, {}))
            for place, request in enumerate(requests)
        ],
        "opens": any(request.mode == "url" for request in requests),
        "answer_to": reverse("answer", args=[question.pk]),
        "is_live": question.source == Question.Source.LIVE,
    }


def connecting(call: ToolCall, leads_to: Way | None) -> dict[str, Any]:
    """The card with *Connect*: what wants a sign-in, why, and whether this person can make it."""
    service, person = call.service, call.turn.conversation.owner
    card = {
        "risk": "medium",
        "keep": f"sign-in-{call.attempt}-{'begun' if leads_to else 'open'}",
        "decline_to": reverse("decline-sign-in", args=[call.pk]),
        "leads_to": leads_to,
        "minutes": round(settings.SIGN_IN_SECONDS / 60),
        "is_task": RemoteTask.objects.filter(tool_call=call).exists(),
    }
    if service is None:
        return card
    stands = standing(service, Acting.of(person))
    return card | {
        "places": [draw_hidden(call_values.host_of(call))],
        "why": _why(stands),
        "wanted": [draw_hidden(scope) for scope in stands.wanted],
        "again": stands.state != StandingState.NOT_CONNECTED,
        "may_connect": may_connect(service, person),
        "connect_to": reverse("connect", args=[service.name]),
    }


def _why(stands: Standing) -> str:
    if stands.state == StandingState.NOT_CONNECTED:
        return "Nobody has signed in to it yet." if stands.is_shared else "It is the first time."
    if stands.wanted:
        return "It wants more rights for this than it has been given."
    return "The sign-in has ended or is not accepted any more."
