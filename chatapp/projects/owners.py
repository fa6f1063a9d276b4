"""Who owns a project, when its owner leaves: an admin chooses, or it goes to an editor."""

from django.db import transaction

from chatapp.models import Member, Project, ProjectMember
from chatapp.models.projects.project import Role

from .log_entries import log_act, log_removal


def find_heir(project: Project) -> Member | None:
    """Return the active member who has been able to edit the project for the longest time."""
    editors = project.members.filter(role=Role.EDITOR, person__is_active=True)
    first = editors.select_related("person").order_by("added_at", "pk").first()
    return first.person if first is not None else None


@transaction.atomic
def hand_over_all(person: Member, *, by: Member, heir: Member | None = None) -> None:
    """Give each project of this person to the heir, else to who has edited it longest. The person
    stays an editor. A project without an heir keeps its owner."""
    for project in Project.objects.filter(owner=person, deleted_at=None).order_by("pk"):
        locked = _lock(project, person)
        new = heir or (find_heir(locked) if locked else None)
        if locked is not None and new is not None:
            _set_owner(locked, new, by)
            ProjectMember.objects.create(project=locked, person=person, role=Role.EDITOR)


@transaction.atomic
def hand_over_or_remove(project: Project, person: Member) -> None:
    """Give a project of a person whose account is deleted to an editor, or remove it."""
    locked = _lock(project, person)
    if locked is None:
        return
    heir = find_heir(locked)
    if heir is None or locked.deleted_at is not None:
        Project.objects.filter(pk=locked.pk).delete()
        log_removal(locked)
    else:
        _set_owner(locked, heir, person)


def _lock(project: Project, owner: Member) -> Project | None:
    """Wait for changes that have begun, such as a member who is being removed."""
    return Project.objects.select_for_update().filter(pk=project.pk, owner=owner).first()


def _set_owner(project: Project, heir: Member, by: Member) -> None:
    Project.objects.filter(pk=project.pk).update(owner=heir)
    ProjectMember.objects.filter(project=project, person=heir).delete()
    log_act(project, "owner changed", by, heir, member=heir.username)
