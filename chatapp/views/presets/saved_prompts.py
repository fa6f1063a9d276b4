"""The pages of saved prompts: the list with the form beside it, and what its buttons do."""

import uuid
from typing import Any

from django.db import transaction
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse

from chatapp.conversations import saved_prompts as saved
from chatapp.conversations.variables import list_variables
from chatapp.models import Conversation, SavedPrompt
from chatapp.views.access import MemberRequest, find_row, for_members
from chatapp.views.chat.conversations import build_sidebar_context

from .forms import SavedPromptForm, try_to_store
from .gallery import build_gallery

SEARCHED = ("title", "text", "owner__first_name", "owner__last_name", "owner__username")


@for_members("GET", "HEAD")
def prompts(request: MemberRequest) -> HttpResponse:
    """Show the prompts. With `chat`, they are used in this chat of the person."""
    return _render_gallery(request)


@for_members("GET", "HEAD", "POST")
def add(request: MemberRequest) -> HttpResponse:
    return _handle_form(request, None)


@for_members("GET", "HEAD", "POST")
def edit(request: MemberRequest, prompt_id: uuid.UUID) -> HttpResponse:
    return _handle_form(request, SavedPrompt.of(request.user, prompt_id))


@for_members("POST")
def delete(request: MemberRequest, prompt_id: uuid.UUID) -> HttpResponse:
    SavedPrompt.of(request.user, prompt_id).delete()
    return redirect("prompts")


def _handle_form(request: MemberRequest, row: SavedPrompt | None) -> HttpResponse:
    data = request.POST if request.method == "POST" else None
    form = SavedPromptForm(data, person=request.user, row=row)
    if form.is_valid():
        kept = try_to_store(form, lambda: _save(request, form))
        if kept is not None:
            return redirect(f"{reverse('prompts')}#prompt-{kept.pk}")
    text = str(form["text"].value() or "")
    context = {"form": form, "edited": row, "variables": list_variables(text)}
    return _render_gallery(request, context, 422 if form.is_bound else 200)


@transaction.atomic
def _save(request: MemberRequest, form: SavedPromptForm) -> SavedPrompt:
    if form.row is None:
        saved.check_number(request.user)
    else:
        saved.check_exists(form.row)
    return form.save()


def _render_gallery(
    request: MemberRequest, more: dict[str, Any] | None = None, status: int = 200
) -> HttpResponse:
    query, show = request.GET.get("q", "")[:200].replace("\x00", ""), request.GET.get("show", "")
    rows = SavedPrompt.filter_usable(request.user)
    context = {
        "gallery": build_gallery(request.user, rows, SEARCHED, query, show),
        "chat": _find_chat(request),
        **(more or {}),
        **build_sidebar_context(request.user, ""),
    }
    return render(request, "presets/prompts.html", context, status=status)


def _find_chat(request: MemberRequest) -> Conversation | None:
    return find_row(Conversation.filter_owned(request.user), request.GET.get("chat", ""))
