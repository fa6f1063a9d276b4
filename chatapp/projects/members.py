"""The members of a project: the owner adds and removes them and chooses their roles, and each may
leave."""

from dataclasses import dataclass

from django.db import transaction
from django.http import Http404
from django.utils.translation import gettext as _

from chatapp.models import Member, Project, ProjectMember
from chatapp.models.projects.project import MEMBERS_PER_PROJECT, Role
from chatapp.people.refused import Refused

from .changes import lock_to_change
from .log_entries import log_act
from .owners import hand_over_or_remove


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberLine:
    """A member as the page of a project lists them."""

    person: Member
    role: str
    label: str

    @property
    def is_owner(self) -> bool:
        return self.role == Role.OWNER


def list_members(project: Project) -> list[MemberLine]:
    """Return the owner, and then the others by name."""
    rows = project.members.select_related("person").order_by("person__username")
    people = [(project.owner, Role.OWNER.value), *((row.person, row.role) for row in rows)]
    return [
        MemberLine(person=person, role=role, label=str(Role(role).label)) for person, role in people
    ]


@transaction.atomic
def add_member(project: Project, username: str, role: str) -> None:
    """Add the active member with this name to a project of its owner. Raises Refused."""
    project = lock_to_change(project.owner, project)
    name = username.strip()
    person = Member.objects.filter(username=name, is_active=True).first() if name else None
    if person is None:
        raise Refused(_("There is no active member named “%(name)s”.") % {"name": name})
    if person == project.owner or project.members.filter(person=person).exists():
        raise Refused(_("%(name)s is already a member.") % {"name": person.display_name}, 409)
    if project.members.count() >= MEMBERS_PER_PROJECT:
        sentence = _("A project has at most %(count)d members. Remove one first.")
        raise Refused(sentence % {"count": MEMBERS_PER_PROJECT}, 409)
    ProjectMember.objects.create(project=project, person=person, role=role)
    log_act(project, "member added", project.owner, person, member=person.username, role=role)


@transaction.atomic
def change_role(project: Project, person_id: int, role: str) -> None:
    """Give a member of this project of its owner another role. Raises Refused, or 404."""
    project = lock_to_change(project.owner, project)
    row = _find_member(project, person_id)
    if row.role != role:
        ProjectMember.objects.filter(pk=row.pk).update(role=role)
        name = row.person.username
        log_act(project, "role changed", project.owner, row.person, member=name, role=role)


@transaction.atomic
def remove_member(project: Project, person_id: int, by: Member) -> None:
    """Remove a member. The owner can do so, and each member can leave. Their chats stay theirs, and
    from their next turn on have nothing of the project. Raises 404."""
    if by != project.owner and by.pk != person_id:
        raise Http404("No such member.")
    row = _find_member(project, person_id)
    ProjectMember.objects.filter(pk=row.pk).delete()
    act = "left" if by == row.person else "member removed"
    log_act(project, act, by, row.person, member=row.person.username)


def leave_all(person: Member) -> None:
    """Leave all projects. One that this person owns goes to the member who has been able to edit it
    for the longest time; without one, it is removed with its files."""
    for project in Project.objects.filter(owner=person):
        hand_over_or_remove(project, person)
    for row in ProjectMember.objects.filter(person=person).select_related("project__owner"):
        with transaction.atomic():
            remove_member(row.project, person.pk, person)


def _find_member(project: Project, person_id: int) -> ProjectMember:
    row = project.members.select_related("person").filter(person=person_id).first()
    if row is None:
        raise Http404("No such member.")
    return row
