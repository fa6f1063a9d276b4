"""The pages of assistants: the gallery with the form beside it, and what its buttons do."""

import uuid
from typing import Any

from django.db import transaction
from django.db.models import Count
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse

from chatapp.conversations import assistants as saved
from chatapp.conversations.variables import list_variables
from chatapp.files.reader import PICTURE_TYPE
from chatapp.models import Assistant, AssistantPicture
from chatapp.people.refused import Refused
from chatapp.providers.request import read_effort
from chatapp.views.access import KEPT, MemberRequest, for_members
from chatapp.views.chat.conversations import build_sidebar_context
from chatapp.views.chat.model_button import takes_temperature
from chatapp.views.chat.results import BYTES_HEADERS

from .forms import AssistantForm, try_to_store
from .gallery import build_gallery

SEARCHED = ("name", "description", "owner__first_name", "owner__last_name", "owner__username")


@for_members("GET", "HEAD")
def assistants(request: MemberRequest) -> HttpResponse:
    return _render_gallery(request)


@for_members("GET", "HEAD", "POST")
def add(request: MemberRequest) -> HttpResponse:
    return _handle_form(request, None)


@for_members("GET", "HEAD", "POST")
def edit(request: MemberRequest, assistant_id: uuid.UUID) -> HttpResponse:
    return _handle_form(request, Assistant.of(request.user, assistant_id))


@for_members("POST")
def duplicate(request: MemberRequest, assistant_id: uuid.UUID) -> HttpResponse:
    """Copy an assistant that this person may use, and show the form of the copy."""
    source = Assistant.usable_by(request.user, assistant_id)
    try:
        copy = saved.duplicate(request.user, source)
    except Refused as refused:
        return _render_gallery(request, {"refusal": refused.sentence}, refused.status)
    return redirect("edit-assistant", copy.pk)


@for_members("POST")
def delete(request: MemberRequest, assistant_id: uuid.UUID) -> HttpResponse:
    Assistant.of(request.user, assistant_id).delete()
    return redirect("assistants")


@for_members("GET", "HEAD")
def picture(request: MemberRequest, assistant_id: uuid.UUID, picture_hash: str) -> HttpResponse:
    """Return the picture of an assistant that this person may use, by the hash of its bytes."""
    assistant = Assistant.usable_by(request.user, assistant_id)
    pictures = AssistantPicture.objects.filter(assistant__picture_hash=picture_hash)
    found = get_object_or_404(pictures, assistant=assistant)
    headers = {**BYTES_HEADERS, "Cache-Control": KEPT}
    return HttpResponse(bytes(found.data), content_type=PICTURE_TYPE, headers=headers)


def _handle_form(request: MemberRequest, row: Assistant | None) -> HttpResponse:
    sent = (request.POST, request.FILES) if request.method == "POST" else ()
    form = AssistantForm(*sent, person=request.user, row=row)
    if form.is_valid():
        kept = try_to_store(form, lambda: _save(request, form))
        if kept is not None:
            return redirect(f"{reverse('assistants')}#assistant-{kept.pk}")
    return _render_form(request, form, row)


@transaction.atomic
def _save(request: MemberRequest, form: AssistantForm) -> Assistant:
    if form.row is None:
        saved.check_number(request.user)
    else:
        saved.check_exists(form.row)
    return form.save()


def _render_form(
    request: MemberRequest, form: AssistantForm, row: Assistant | None
) -> HttpResponse:
    text = str(form["instructions"].value() or "")
    context = {
        "form": form,
        "edited": row,
        "variables": list_variables(text),
        "takes_temperature": takes_temperature(
            request.user,
            str(form["model"].value() or ""),
            read_effort(str(form["effort"].value() or "")) or "",
        ),
    }
    return _render_gallery(request, context, 422 if form.is_bound else 200)


def _render_gallery(
    request: MemberRequest, more: dict[str, Any] | None = None, status: int = 200
) -> HttpResponse:
    query, show = request.GET.get("q", "")[:200].replace("\x00", ""), request.GET.get("show", "")
    rows = Assistant.filter_usable(request.user).annotate(service_count=Count("services"))
    context = {
        "gallery": build_gallery(request.user, rows, SEARCHED, query, show),
        **(more or {}),
        **build_sidebar_context(request.user, ""),
    }
    return render(request, "presets/assistants.html", context, status=status)
