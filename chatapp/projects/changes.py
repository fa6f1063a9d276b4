"""A project as a whole: created, changed, archived, deleted and restored.

A deleted project is out of reach at once, and its owner can restore it for `RESTORABLE`. After that
a task removes it with its files. The chats in it stay.
"""

import uuid
from collections.abc import Collection
from dataclasses import dataclass

from django.db import transaction
from django.db.models.functions import Now
from django.http import Http404
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from chatapp.models import Member, Project
from chatapp.models.projects.project import PROJECTS_PER_PERSON, RESTORABLE
from chatapp.people.refused import Refused
from chatapp.tools.catalogue import strip_hidden
from mcpconfig.models import Service

from .log_entries import log_act, log_removal

ARCHIVED = gettext_lazy("This project is archived. Restore it, then try again.")
GONE = gettext_lazy(
    "This project was deleted meanwhile, or you are no longer allowed to change it."
)
REMOVED_AT_ONCE = 100
TEXTS = ("name", "description", "model", "mode", "limits_services")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectValues:
    """What the form of a project has."""

    name: str
    description: str = ""
    instructions: str = ""
    model: str = ""
    mode: str = "act"
    limits_services: bool = False
    services: Collection[Service] = ()


@transaction.atomic
def create_project(person: Member, values: ProjectValues) -> Project:
    """Return a new project of this person. Raises Refused if they have as many as they may have."""
    _check_number(person)
    project = Project(owner=person)
    _set_values(project, values, person)
    project.save()
    project.services.set(values.services)
    log_act(project, "created", person)
    return project


def _check_number(person: Member) -> None:
    """Raise Refused if this person has as many projects as they may have. Locks the person until
    the commit, so that concurrent requests do not exceed the limit."""
    Member.objects.select_for_update(no_key=True).get(pk=person.pk)
    if Project.objects.filter(owner=person, deleted_at=None).count() >= PROJECTS_PER_PERSON:
        sentence = _("You have %(count)d projects, which is the limit. Delete one first.")
        raise Refused(sentence % {"count": PROJECTS_PER_PERSON}, 409)


@transaction.atomic
def change_project(person: Member, project: Project, values: ProjectValues) -> None:
    """Save the form. Raises Refused if the person may not change the project any more."""
    project = lock_to_change(person, project)
    before = {name: getattr(project, name) for name in TEXTS}
    services = set(project.services.all())
    has_new_instructions = _set_values(project, values, person)
    project.save()
    project.services.set(values.services)
    changed = [name for name in TEXTS if before[name] != getattr(project, name)]
    changed += ["services"] if services != set(values.services) else []
    if has_new_instructions:
        log_act(project, "instructions", person)
    if changed:
        log_act(project, "changed", person, fields=changed)


def _set_values(project: Project, values: ProjectValues, by: Member) -> bool:
    """Set the fields, and return whether the instructions changed. Others read the instructions, so
    they lose the characters that nobody sees."""
    for name in TEXTS:
        setattr(project, name, getattr(values, name))
    text = strip_hidden(values.instructions)
    if text == project.instructions:
        return False
    project.instructions, project.instructions_by = text, by
    project.instructions_at = Now()
    return True


def lock_to_change(person: Member, project: Project) -> Project:
    """Lock a project until the commit and return it as it is now. Raises Refused if this person may
    not change it, or not now."""
    Project.objects.select_for_update().filter(pk=project.pk).first()
    try:
        found = Project.edited_by(person, project.pk)
    except Http404:
        raise Refused(GONE, 409) from None
    if found.archived_at is not None:
        raise Refused(ARCHIVED, 409)
    return found


@transaction.atomic
def archive(project: Project, *, is_on: bool) -> None:
    """Put a project of its owner out of use, or back into use. Its chats stay."""
    rows = Project.objects.filter(pk=project.pk, archived_at__isnull=is_on)
    if rows.update(archived_at=Now() if is_on else None):
        log_act(project, "archived" if is_on else "unarchived", project.owner)


@transaction.atomic
def delete(project: Project) -> None:
    """Put a project of its owner out of reach."""
    if Project.objects.filter(pk=project.pk, deleted_at=None).update(deleted_at=Now()):
        log_act(project, "deleted", project.owner)


@transaction.atomic
def restore(project: Project) -> None:
    """Bring a deleted project of its owner back. Raises Refused if they have as many others as they
    may have."""
    _check_number(project.owner)
    if Project.objects.filter(pk=project.pk, deleted_at__isnull=False).update(deleted_at=None):
        log_act(project, "restored", project.owner)


def find_deleted(person: Member, project_id: uuid.UUID) -> Project:
    """Return a deleted project that this person can restore, or raise 404."""
    found = Project.filter_deleted(person).select_related("owner").filter(pk=project_id).first()
    if found is None:
        raise Http404("No such deleted project.")
    return found


def remove_old() -> None:
    """Remove the projects that nobody can restore any more, with their files."""
    old = Project.objects.filter(deleted_at__lte=Now() - RESTORABLE).select_related("owner")
    for project in old[:REMOVED_AT_ONCE]:
        with transaction.atomic():
            locked = Project.objects.select_for_update().filter(pk=project.pk)
            if locked.filter(deleted_at__lte=Now() - RESTORABLE).exists():
                Project.objects.filter(pk=project.pk).delete()
                log_removal(project)
