"""The values of the cards of paused calls (a sign-in or an answer that a service needs, a result
that waits for review) and of the cards of built-in tools (a plan, a remembered fact)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from django.conf import settings
from django.http import QueryDict
from django.urls import reverse
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from chatapp.models import Plan, Question, Review, ToolCall
from chatapp.rendering import call_values, results
from chatapp.rendering.cards.question_form import build_request_form
from chatapp.rendering.hidden_characters import draw_hidden
from chatapp.rendering.page_values import CallFacts, SignInFacts
from mcpconfig.values.results import InputRequest

State = ToolCall.State
WAITS_FOR = {
    State.AWAITING_APPROVAL: gettext_lazy("Waiting for your approval"),
    State.AWAITING_INPUT: gettext_lazy("Waiting for your answer"),
    State.UNKNOWN: gettext_lazy("Waiting for your answer"),
    State.AWAITING_SIGN_IN: gettext_lazy("Waiting for your sign-in"),
    State.AWAITING_TASK: gettext_lazy("Waiting for a long task"),
}


class SignInLink(Protocol):
    """The address where a sign-in begins, with the host that the page shows."""

    @property
    def url(self) -> str: ...
    @property
    def host(self) -> str: ...
    @property
    def scopes(self) -> tuple[str, ...]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedAnswer:
    """A refused answer: what was typed, and the problem of each field."""

    sent: QueryDict
    problems: Mapping[str, Mapping[str, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    template: str
    context: dict[str, Any]


def build_paused_card(
    call: ToolCall, facts: CallFacts, leads_to: SignInLink | None, typed: RefusedAnswer | None
) -> Card | None:
    """Return the card of a call that waits for a person, or None for any other call."""
    review = get_open_review(call)
    if review is not None:
        return Card(template="chat/_review.html", context=_build_review_card(call, review))
    if call.state == State.AWAITING_SIGN_IN:
        return Card(
            template="chat/_connect.html", context=_build_sign_in_card(call, facts, leads_to)
        )
    if facts.question is not None:
        return Card(
            template="chat/_question.html",
            context=_build_question_card(call, facts.question, typed),
        )
    return None


def get_open_review(call: ToolCall) -> Review | None:
    review: Review | None = getattr(call, "review", None)
    return review if review is not None and review.state == Review.State.OPEN else None


def _build_review_card(call: ToolCall, review: Review) -> dict[str, Any]:
    """Return the values of the card with a result that waits for review."""
    return {
        "risk": "medium",
        "keep": f"review-{review.binding}",
        "places": call_values.draw_places(call_values.get_host(call)),
        "arguments": call_values.draw_arguments(call),
        "problem": call_values.draw_problem(call),
        "results": results.build_call_pieces(call),
        "answer_to": reverse("review", args=[call.pk]),
    }


def _build_question_card(
    call: ToolCall, question: Question, typed: RefusedAnswer | None
) -> dict[str, Any]:
    """Return the values of the card with a question of a service: one form for each request."""
    requests = [InputRequest.from_json(each) for each in question.requests]
    sent = typed.sent if typed else None
    problems = typed.problems if typed else {}
    host = call_values.get_host(call)
    return {
        "risk": "medium",
        # The card is replaced only when the question changes, so that typed text stays.
        "keep": f"question-{question.pk}{'-typed' if typed else ''}",
        "places": [draw_hidden(host)] if host else [],
        "question": question,
        "asked": [
            build_request_form(request, place, sent, problems.get(request.key, {}))
            for place, request in enumerate(requests)
        ],
        "opens": any(request.mode == "url" for request in requests),
        "answer_to": reverse("answer", args=[question.pk]),
        "is_live": question.source == Question.Source.LIVE,
    }


def _build_sign_in_card(
    call: ToolCall, facts: CallFacts, leads_to: SignInLink | None
) -> dict[str, Any]:
    """Return the values of the card with *Connect*: which service needs a sign-in and why, and
    whether this person can sign in."""
    service, sign_in = call.service, facts.sign_in
    card = {
        "risk": "medium",
        "keep": f"sign-in-{call.attempt}-{'begun' if leads_to else 'open'}",
        "decline_to": reverse("decline-sign-in", args=[call.pk]),
        "leads_to": leads_to,
        "minutes": round(settings.SIGN_IN_SECONDS / 60),
        "is_task": facts.is_task,
    }
    if service is None or sign_in is None:
        return card
    return card | {
        "places": [draw_hidden(call_values.get_host(call))],
        "why": _explain_sign_in(sign_in),
        "wanted": [draw_hidden(scope) for scope in sign_in.wanted_scopes],
        "again": not sign_in.is_first,
        "may_connect": sign_in.may_connect,
        "connect_to": reverse("connect", args=[service.name]),
    }


def _explain_sign_in(sign_in: SignInFacts) -> str:
    if sign_in.is_first:
        if sign_in.is_shared:
            return _("No one has signed in to this service yet.")
        return _("You have not signed in to this service yet.")
    if sign_in.wanted_scopes:
        return _("This action needs more access than the sign-in gave.")
    return _("The sign-in has expired or is no longer accepted.")


WORDS = {
    "open": gettext_lazy("to do"),
    "doing": gettext_lazy("in progress"),
    "done": gettext_lazy("done"),
}


def build_own_card(call: ToolCall, facts: CallFacts) -> Card | None:
    """Return the card of a call that succeeded, or None for a call that is shown as a row."""
    if not call.is_core or call.state != ToolCall.State.SUCCEEDED:
        return None
    match call.tool_name:
        case "make-plan":
            return _build_plan_card(facts.plan)
        case "remember":
            return _build_memory_card(call)
    return None


def _build_plan_card(plan: Plan | None) -> Card | None:
    """A call that only ticks a step has no plan of its own and is shown as a row."""
    if plan is None:
        return None
    steps = [
        {"text": draw_hidden(step["text"]), "state": step["state"], "word": WORDS[step["state"]]}
        for step in plan.steps
    ]
    done = sum(step["state"] == "done" for step in plan.steps)
    return Card(template="chat/_plan.html", context={"steps": steps, "done": done})


def summarise_plan(call: ToolCall) -> dict[str, SafeString]:
    """Return the title and progress for the row of a call that changed a plan."""
    if not call.is_core or call.tool_name != "make-plan" or call.result is None:
        return {}
    steps = call.result["structured"]["steps"]
    done = sum(step["state"] == "done" for step in steps)
    progress = _("%(done)d of %(count)d done") % {"done": done, "count": len(steps)}
    return {"title": draw_hidden(_("Plan")), "brief": draw_hidden(progress)}


def _build_memory_card(call: ToolCall) -> Card:
    fact = (call.result or {})["structured"]
    text, is_new = draw_hidden(str(fact["text"])), bool(fact["is_new"])
    return Card(template="chat/_remembered.html", context={"text": text, "is_new": is_new})
