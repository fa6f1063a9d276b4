"""What a chat does with a project: it begins in one, or is moved into one or out of it."""

import uuid
from dataclasses import dataclass

from django.db.models import QuerySet
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from chatapp.models import Conversation, Member, Project, ToolSwitch
from chatapp.people.refused import Refused
from mcpconfig.models import Service

GONE = gettext_lazy(
    "Your message was not sent. You can no longer use this project. To start this chat without it, "
    "choose New chat."
)


class ProjectRefused(Refused):
    """A chat was not begun in a project, which changed or is out of reach."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectChoice:
    """The project that a person chose for a new chat, and the version of it that they were
    shown."""

    project_id: uuid.UUID
    version: str


def load_project(person: Member, choice: ProjectChoice) -> Project:
    """Return the project in which this person begins a chat, inside the transaction that creates
    it. Raises ProjectRefused, also if the project changed after the person had read it."""
    Project.objects.select_for_update(no_key=True).filter(pk=choice.project_id).first()
    project = Project.filter_active(person).filter(pk=choice.project_id).first()
    if project is None:
        raise ProjectRefused(GONE, 409)
    if project.version != choice.version:
        sentence = _(
            "Your message was not sent. %(name)s changed after you opened this page. Check its "
            "instructions and services, then send your message again."
        )
        raise ProjectRefused(sentence % {"name": project}, 409)
    return project


def filter_usable_services(person: Member, project: Project) -> QuerySet[Service]:
    """Return the services of a project that this person may use."""
    return project.services.filter(pk__in=Service.objects.for_member(person).values("pk"))


def switch_services(conversation: Conversation, project: Project) -> None:
    """Switch off, in this new chat, the services that are not among the project's, also those that
    the person cannot use now. It switches nothing on."""
    if not project.limits_services:
        return
    others = Service.objects.exclude(pk__in=project.services.values("pk"))
    known = ToolSwitch.objects.filter(conversation=conversation, tool="").values("service")
    ToolSwitch.objects.bulk_create(
        ToolSwitch(person=conversation.owner, conversation=conversation, service_id=pk, is_on=False)
        for pk in others.exclude(pk__in=known).values_list("pk", flat=True)
    )


def move_chat(conversation: Conversation, project_id: uuid.UUID | None) -> None:
    """Move a chat into a project of its person, or out of its project. Its model, mode and services
    stay as they are. Raises Refused."""
    project = None
    if project_id is not None:
        project = Project.filter_active(conversation.owner).filter(pk=project_id).first()
        if project is None:
            raise Refused(_("You can no longer use this project. Choose another one."), 409)
    Conversation.objects.filter(pk=conversation.pk).update(project=project)
    conversation.project = project


def filter_chats(person: Member, project: Project) -> QuerySet[Conversation]:
    """Return this person's own chats in a project, latest first."""
    chats = Conversation.filter_listed(person).filter(project=project, archived_at=None)
    return chats.order_by("-active_at")
