"""The files of a project: added, shown as text with a place marked, downloaded and deleted."""

import uuid

from django.conf import settings
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.text import capfirst
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from chatapp.background.jobs import read_project_file
from chatapp.models import Project, ProjectFile, ProjectFileData
from chatapp.people.refused import Refused
from chatapp.projects import files
from chatapp.rendering.hidden_characters import draw_hidden
from chatapp.rendering.stored_sentences import translate_stored
from chatapp.server.request_rates import TooManyRequests, count_request
from chatapp.views.access import MemberRequest, for_members
from chatapp.views.chat.conversations import build_sidebar_context
from chatapp.views.chat.results import read_stored
from chatapp.views.chat.uploads import FIELD, read_upload
from chatapp.views.downloads import build_download

from .projects import build_files_context, render_project


@for_members("GET", "HEAD", "POST")
def list_files(request: MemberRequest, project_id: uuid.UUID) -> HttpResponse:
    """Show the files, also while they are read; a POST adds some."""
    if request.method != "POST":
        project = Project.of(request.user, project_id)
        return _render_files(request, project) if request.htmx else redirect("project", project.pk)
    project = Project.edited_by(request.user, project_id)
    problems, status = _add_files(request, project)
    if request.htmx:
        return _render_files(request, project, " ".join(problems), status)
    if problems:
        return render_project(request, project, problem=" ".join(problems), status=status)
    return redirect("project", project.pk)


def _add_files(request: MemberRequest, project: Project) -> tuple[list[str], int]:
    """Store the files of the form. Return why others were refused, and the status of the answer."""
    received = request.FILES.getlist(FIELD)
    if not received:
        return [_("Choose a file.")], 422
    try:
        count_request("uploads", str(request.user.pk), settings.UPLOADS_PER_MINUTE)
    except TooManyRequests as error:
        return [_("You added too many files within a minute."), error.hint], 429
    problems: list[str] = []
    for file in received[: settings.MESSAGE_MAX_FILES]:
        try:
            added = files.add_file(request.user, project, read_upload(file))
        except Refused as refused:
            problems.append(refused.sentence)
        else:
            if added.state == ProjectFile.State.READING:
                read_project_file.enqueue(str(added.pk))
    if len(received) > settings.MESSAGE_MAX_FILES:
        most = settings.MESSAGE_MAX_FILES
        sentence = ngettext(
            "Only the first file was added. You can add %(count)d file at a time.",
            "Only the first %(count)d files were added. You can add %(count)d files at a time.",
            most,
        )
        problems.append(sentence % {"count": most})
    return problems, 422 if problems else 200


def _render_files(
    request: MemberRequest, project: Project, problem: str = "", status: int = 200
) -> HttpResponse:
    context = {"project": project, "problem": problem, **build_files_context(project)}
    return render(request, "projects/_files.html", context, status=status)


@for_members("GET", "HEAD")
def show(request: MemberRequest, project_id: uuid.UUID, file_id: uuid.UUID) -> HttpResponse:
    """Show the text of a file. A link of an answer names the passage that is marked."""
    project = Project.of(request.user, project_id)
    file = files.find_file(project, file_id)
    context = {
        "project": project,
        "file": file,
        "problem": capfirst(translate_stored(file.problem)),
        "passages": [
            (each.anchor, each.describe_place(), draw_hidden(each.text))
            for each in file.passages.all()
        ],
        **build_sidebar_context(request.user, str(project.pk)),
    }
    return render(request, "projects/file.html", context)


@for_members("GET", "HEAD")
def download(request: MemberRequest, project_id: uuid.UUID, file_id: uuid.UUID) -> HttpResponse:
    file = files.find_file(Project.of(request.user, project_id), file_id)
    kept = get_object_or_404(ProjectFileData.objects.select_related("stored"), file=file)
    data = read_stored(request, kept)
    if isinstance(data, HttpResponse):
        return data
    return build_download(data, "application/octet-stream", file.name)


@for_members("POST")
def delete(request: MemberRequest, project_id: uuid.UUID, file_id: uuid.UUID) -> HttpResponse:
    project = Project.edited_by(request.user, project_id)
    try:
        files.delete_file(request.user, project, file_id)
    except Refused as refused:
        return render_project(request, project, problem=refused.sentence, status=refused.status)
    return redirect("project", project.pk)
