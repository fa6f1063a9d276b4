"""Choosing a model from a list with a search: above the message box with htmx, without JavaScript
as a page that carries along what was written."""

from dataclasses import replace

from django.http import HttpResponse
from django.shortcuts import render

from chatapp.providers.events import ProviderError
from chatapp.turns.model_choice import chosen_model
from mcpconfig.errors import OperationError
from mcpconfig.results import storable

from .access import MemberRequest, for_members
from .conversations import show
from .model_pick import found_models, model_pick
from .picker import chat_of, draft_of, step

QUERY_CHARACTERS = 200


@for_members("POST")
def models(request: MemberRequest) -> HttpResponse:
    return _list(request)


@for_members("POST")
def found(request: MemberRequest) -> HttpResponse:
    """What fits the search, while it is typed."""
    return render(request, "chat/_models_found.html", _found(request))


@for_members("POST")
def choose(request: MemberRequest) -> HttpResponse:
    """Take this model for the next message. It is kept with the conversation once that is sent."""
    model_id = storable(request.POST.get("chosen", ""))
    try:
        chosen_model(model_id, request.user)
    except ProviderError as error:
        problem = OperationError(kind="not_found", message=error.message, hint=error.hint)
        return _list(request, problem)
    if not request.htmx:
        return show(request, chat_of(request), replace(draft_of(request), model=model_id))
    context = {"pick": model_pick(request.user, model_id), "is_update": True}
    return render(request, "chat/_model_chosen.html", context)


def _list(request: MemberRequest, problem: OperationError | None = None) -> HttpResponse:
    return step(request, "models", _found(request), problem)


def _found(request: MemberRequest) -> dict[str, object]:
    query = request.POST.get("q", "")[:QUERY_CHARACTERS]
    return {
        "heading": "Choose a model",
        "query": query,
        "found": found_models(request.user, storable(query)),
        "chosen": request.POST.get("model", ""),
    }
