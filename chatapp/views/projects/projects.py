"""The list of projects, the page of each, and its form."""

import uuid
from functools import partial
from typing import Any

from django.db.models.functions import Lower
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils.text import capfirst

from chatapp.conversations.projects import filter_chats, filter_usable_services
from chatapp.models import Project, ProjectFile
from chatapp.models.projects.project import RESTORABLE
from chatapp.models.projects.project_file import PROJECT_MAX_BYTES
from chatapp.people.refused import Refused
from chatapp.projects import changes
from chatapp.projects.files import measure_files
from chatapp.projects.members import list_members
from chatapp.providers.access.embeddings import find_label
from chatapp.providers.access.model_choice import describe_model
from chatapp.rendering.hidden_characters import draw_look_alikes
from chatapp.rendering.stored_sentences import translate_stored
from chatapp.views.access import MemberRequest, find_row, for_members
from chatapp.views.chat.conversations import build_sidebar_context
from chatapp.views.presets.forms import try_to_store

from .forms import ROLES, NewMemberForm, ProjectForm

CHATS_SHOWN = 10


@for_members("GET", "HEAD")
def projects(request: MemberRequest) -> HttpResponse:
    return render_list(request)


def render_list(
    request: MemberRequest, form: ProjectForm | None = None, problem: Refused | None = None
) -> HttpResponse:
    """Render the projects of the person, and the form of a new one if it is open."""
    joined = list(
        Project.filter_joined(request.user).select_related("owner").order_by(Lower("name"), "pk")
    )
    deleted = Project.filter_deleted(request.user)
    context = {
        "active": [each for each in joined if each.archived_at is None],
        "archived": [each for each in joined if each.archived_at is not None],
        "deleted": [(each, each.deleted_at + RESTORABLE) for each in deleted if each.deleted_at],
        "just_deleted": find_row(deleted, request.GET.get("deleted", "")),
        "form": form,
        "problem": problem,
        **build_sidebar_context(request.user, ""),
    }
    status = problem.status if problem else 422 if form and form.errors else 200
    return render(request, "projects/projects.html", context, status=status)


@for_members("GET", "HEAD", "POST")
def add(request: MemberRequest) -> HttpResponse:
    form = _build_form(request, None)
    if form.is_valid():
        create = partial(changes.create_project, request.user, form.read_values())
        created = try_to_store(form, create)
        if created is not None:
            return redirect("project", created.pk)
    return render_list(request, form)


@for_members("GET", "HEAD")
def project(request: MemberRequest, project_id: uuid.UUID) -> HttpResponse:
    return render_project(request, Project.of(request.user, project_id))


@for_members("GET", "HEAD", "POST")
def edit(request: MemberRequest, project_id: uuid.UUID) -> HttpResponse:
    found = Project.edited_by(request.user, project_id)
    form = _build_form(request, found)
    if form.is_valid():
        change = partial(changes.change_project, request.user, found, form.read_values())
        try_to_store(form, change)
        if not form.errors:
            return redirect("project", found.pk)
    return render_project(request, found, form=form)


@for_members("POST")
def archive(request: MemberRequest, project_id: uuid.UUID) -> HttpResponse:
    found = Project.owned_by(request.user, project_id)
    changes.archive(found, is_on=request.POST.get("archive") != "no")
    return redirect("project", found.pk)


@for_members("POST")
def delete(request: MemberRequest, project_id: uuid.UUID) -> HttpResponse:
    found = Project.owned_by(request.user, project_id)
    changes.delete(found)
    response = redirect("projects")
    response["Location"] += f"?deleted={found.pk}"
    return response


@for_members("POST")
def restore(request: MemberRequest, project_id: uuid.UUID) -> HttpResponse:
    found = changes.find_deleted(request.user, project_id)
    try:
        changes.restore(found)
    except Refused as refused:
        return render_list(request, problem=refused)
    return redirect("project", found.pk)


def _build_form(request: MemberRequest, row: Project | None) -> ProjectForm:
    data = request.POST if request.method == "POST" else None
    return ProjectForm(data, person=request.user, row=row)


def render_project(
    request: MemberRequest,
    found: Project,
    *,
    form: ProjectForm | None = None,
    member_form: NewMemberForm | None = None,
    problem: str = "",
    status: int = 200,
) -> HttpResponse:
    """Render the page of a project as its person may see it, with a form that is open or was
    refused."""
    mine = set(filter_usable_services(request.user, found).values_list("pk", flat=True))
    chats = list(filter_chats(request.user, found)[: CHATS_SHOWN + 1])
    context = {
        "project": found,
        "instructions": draw_look_alikes(found.instructions),
        "model": describe_model(found.model) if found.model else None,
        "services": [(each, each.pk in mine) for each in found.services.order_by("title", "name")],
        "members": list_members(found),
        "roles": ROLES,
        "chats": chats[:CHATS_SHOWN],
        "has_more_chats": len(chats) > CHATS_SHOWN,
        "form": form,
        "member_form": member_form or NewMemberForm(),
        "problem": problem,
        **build_files_context(found),
        **build_sidebar_context(request.user, str(found.pk)),
    }
    if form and form.errors:
        status = 422
    return render(request, "projects/project.html", context, status=status)


def build_files_context(found: Project) -> dict[str, Any]:
    count, size = measure_files(found)
    files = list(found.files.select_related("added_by"))
    return {
        "meaning_label": find_label(),
        "files": [(each, capfirst(translate_stored(each.problem))) for each in files],
        "file_count": count,
        "file_bytes": size,
        "most_bytes": PROJECT_MAX_BYTES,
        "is_reading": any(each.state == ProjectFile.State.READING for each in files),
    }
