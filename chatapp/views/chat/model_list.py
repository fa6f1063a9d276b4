"""The list of models with a search: above the message box with htmx, otherwise as a page that
carries the content of the message box."""

from dataclasses import replace

from django.http import HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext as _

from chatapp.models import Member
from chatapp.providers.access.model_choice import choose_model, find_list_problem
from chatapp.providers.events import ProviderError
from chatapp.views.access import MemberRequest, for_members
from mcpconfig.values.errors import OperationError
from mcpconfig.values.results import make_storable

from .conversations import render_chat
from .model_button import NEEDS, build_model_pick, find_models, find_recent_models
from .picker import find_chat, read_draft, render_step

QUERY_CHARACTERS = 200


@for_members("POST")
def models(request: MemberRequest) -> HttpResponse:
    return _render_list(request)


@for_members("POST")
def search(request: MemberRequest) -> HttpResponse:
    """Return the models that match the search while it is typed."""
    return render(request, "chat/_models_found.html", _build_context(request))


@for_members("POST")
def choose(request: MemberRequest) -> HttpResponse:
    """Choose the model for the next message, and for new chats if that is ticked. The conversation
    stores it when the message is sent."""
    model_id = make_storable(request.POST.get("chosen", ""))
    try:
        choose_model(model_id, request.user)
    except ProviderError as error:
        problem = OperationError(kind="not_found", message=error.message, hint=error.hint)
        return _render_list(request, problem)
    if request.POST.get("keep"):
        Member.objects.filter(pk=request.user.pk).update(preferred_model=model_id)
    if not request.htmx:
        return render_chat(
            request, find_chat(request), replace(read_draft(request), model=model_id)
        )
    context = {"pick": build_model_pick(request.user, model_id), "is_update": True}
    return render(request, "chat/_model_chosen.html", context)


def _render_list(request: MemberRequest, problem: OperationError | None = None) -> HttpResponse:
    return render_step(request, "models", _build_context(request), problem)


def _build_context(request: MemberRequest) -> dict[str, object]:
    query = request.POST.get("q", "")[:QUERY_CHARACTERS]
    needs = [name for name in request.POST.getlist("need") if name in NEEDS]
    found = find_models(request.user, make_storable(query), needs)
    if not query and not needs:
        found = [*find_recent_models(request.user, found), *found]
    listed = [model for _provider, models in found for model in models]
    return {
        "heading": _("Choose a model"),
        "query": query,
        "needs": [(name, label, name in needs) for name, (label, _test) in NEEDS.items()],
        "is_filtered": bool(query or needs),
        "found": found,
        "has_prices": any(model.price for model in listed),
        "has_contexts": any(model.context for model in listed),
        "chosen": request.POST.get("model", ""),
        "preferred": request.user.preferred_model,
        "list_problem": find_list_problem(),
    }
