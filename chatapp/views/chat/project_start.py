"""The project in which a new chat begins: what its page shows, and what its form sends."""

import uuid
from dataclasses import dataclass

from django.db.models import QuerySet
from django.http import Http404, HttpRequest
from django.utils.safestring import SafeString

from chatapp.conversations.assistants import may_use_model
from chatapp.conversations.projects import ProjectChoice, filter_usable_services
from chatapp.models import Member, Project
from chatapp.rendering.hidden_characters import draw_look_alikes
from chatapp.views.access import find_row, read_id

FIELD = "project"
VERSION_FIELD = "project_version"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectStart:
    """A project as the page of a new chat shows it. `services` is None if it does not limit them;
    `left_out` are those that the person may not use, and `lacks_model` says the same of its
    model."""

    project: Project
    version: str
    instructions: SafeString
    services: tuple[str, ...] | None
    left_out: tuple[str, ...]
    lacks_model: bool


def build_project_start(person: Member, project: Project) -> ProjectStart:
    services: tuple[str, ...] | None = None
    left_out: tuple[str, ...] = ()
    if project.limits_services:
        usable = {each.pk for each in filter_usable_services(person, project)}
        listed = list(project.services.order_by("title", "name"))
        services = tuple(str(each) for each in listed if each.pk in usable)
        left_out = tuple(str(each) for each in listed if each.pk not in usable)
    return ProjectStart(
        project=project,
        version=project.version,
        instructions=draw_look_alikes(project.instructions),
        services=services,
        left_out=left_out,
        lacks_model=bool(project.model) and not may_use_model(person, project.model),
    )


def open_project_start(person: Member, project_id: str) -> ProjectStart:
    """Return the project of the address, or raise 404."""
    project = find_row(_filter_startable(person), project_id)
    if project is None:
        raise Http404("No such project.")
    return build_project_start(person, project)


def read_project_start(request: HttpRequest, person: Member) -> ProjectStart | None:
    """Return the project of the form, or None if there is none or the person cannot use it."""
    project = find_row(_filter_startable(person), request.POST.get(FIELD, ""))
    return build_project_start(person, project) if project else None


def read_project_choice(request: HttpRequest) -> ProjectChoice | None:
    """Return the project of the form. Text that is no id is that of no project."""
    given = request.POST.get(FIELD, "")
    if not given:
        return None
    return ProjectChoice(
        project_id=read_id(given) or uuid.UUID(int=0), version=request.POST.get(VERSION_FIELD, "")
    )


def _filter_startable(person: Member) -> QuerySet[Project]:
    return Project.filter_active(person).select_related("owner", "instructions_by")
