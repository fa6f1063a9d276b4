"""Projects: instructions and files that the chats of several people share."""

import uuid
from datetime import timedelta
from typing import cast

from django.conf import settings
from django.db import models
from django.db.models import Case, Exists, F, OuterRef, Q, Value, When
from django.db.models.functions import Now
from django.http import Http404
from django.utils.translation import gettext_lazy as _

from chatapp.models.conversations.conversation import MAX_INSTRUCTIONS_CHARACTERS, Conversation
from chatapp.models.people.member import Member
from chatapp.models.presets.start_version import hash_start
from mcpconfig.models import Service
from mcpconfig.models.service import Colour

NAME_CHARACTERS = 80
DESCRIPTION_CHARACTERS = 200
PROJECTS_PER_PERSON = 100
MEMBERS_PER_PROJECT = 200
# How long a deleted project can be restored.
RESTORABLE = timedelta(days=7)


class Role(models.TextChoices):
    OWNER = "owner", _("Owner")
    EDITOR = "editor", _("Can edit")
    MEMBER = "member", _("Can use")


class Project(models.Model):
    """What the chats in it have in common. A chat stays its owner's: members share the instructions
    and the files, never chats.

    A project gives nobody access to a model or a service. Without a `model`, people use their own
    choice. `services` counts only if `limits_services` is on; the other services of a person are
    then switched off in a chat that begins in the project. While it is archived or deleted, its
    chats go on without its instructions and files.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        verbose_name=_("owner"),
        on_delete=models.CASCADE,
        related_name="projects",
    )
    name = models.CharField(_("name"), max_length=NAME_CHARACTERS)
    description = models.CharField(_("description"), max_length=DESCRIPTION_CHARACTERS, blank=True)
    instructions = models.TextField(
        _("instructions"), max_length=MAX_INSTRUCTIONS_CHARACTERS, blank=True
    )
    instructions_by = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        verbose_name=_("instructions changed by"),
        on_delete=models.SET_NULL,
        null=True,
        related_name="+",
    )
    instructions_at = models.DateTimeField(_("instructions changed at"), null=True)
    model = models.CharField(_("model"), max_length=200, blank=True)
    mode = models.CharField(
        _("mode"),
        max_length=4,
        choices=Conversation.Mode.choices,
        default=Conversation.Mode.ACT,
    )
    limits_services = models.BooleanField(_("limits services"), default=False)
    services = models.ManyToManyField(
        Service, verbose_name=_("services"), blank=True, related_name="projects"
    )
    created_at = models.DateTimeField(_("created at"), auto_now_add=True)
    archived_at = models.DateTimeField(_("archived at"), null=True)
    deleted_at = models.DateTimeField(_("deleted at"), null=True, db_index=True)

    class Meta:
        verbose_name = _("project")
        verbose_name_plural = _("projects")
        ordering = ["name", "pk"]

    def __str__(self) -> str:
        return self.name

    @property
    def colour(self) -> str:
        return Colour.choose(self.pk)

    @property
    def version(self) -> str:
        """A hash of what a chat gets from it, so that nobody begins a chat with instructions that
        they were not shown."""
        return hash_start(self.instructions, self.services if self.limits_services else None)

    @property
    def role(self) -> str:
        """The role of the person for whom the row was read."""
        return str(getattr(self, "role_of_person", ""))

    @property
    def is_owned(self) -> bool:
        return self.role == Role.OWNER

    @property
    def may_be_changed(self) -> bool:
        """Whether the person for whom the row was read can change it now."""
        return self.role in (Role.OWNER, Role.EDITOR) and self.archived_at is None

    @classmethod
    def filter_joined(cls, person: Member) -> "models.QuerySet[Project]":
        """Return the projects of this person that are not deleted, each with their role. Pages,
        chats and tools ask nothing else."""
        mine = ProjectMember.objects.filter(project=OuterRef("pk"), person=person)
        joined = cls.objects.filter(Q(owner=person) | Exists(mine), deleted_at=None)
        role = Case(
            When(owner=person, then=Value(Role.OWNER.value)), default=mine.values("role")[:1]
        )
        return cast("models.QuerySet[Project]", joined.annotate(role_of_person=role))

    @classmethod
    def filter_active(cls, person: Member) -> "models.QuerySet[Project]":
        """Return those of them that are not archived: a chat can begin in them."""
        return cls.filter_joined(person).filter(archived_at=None)

    @classmethod
    def of(cls, person: Member, project_id: uuid.UUID) -> "Project":
        """Return the project if this person is a member, or raise 404."""
        return cls._find(cls.filter_joined(person).select_related("owner"), project_id)

    @classmethod
    def edited_by(cls, person: Member, project_id: uuid.UUID) -> "Project":
        """Return the project if this person may change it, or raise 404."""
        edits = ProjectMember.objects.filter(
            project=OuterRef("pk"), person=person, role=Role.EDITOR
        )
        return cls._find(
            cls.filter_joined(person).filter(Q(owner=person) | Exists(edits)), project_id
        )

    @classmethod
    def owned_by(cls, person: Member, project_id: uuid.UUID) -> "Project":
        """Return the project if this person owns it, or raise 404."""
        return cls._find(cls.filter_joined(person).filter(owner=person), project_id)

    @classmethod
    def filter_deleted(cls, person: Member) -> "models.QuerySet[Project]":
        """Return the deleted projects that this person can restore, latest first."""
        kept = cls.objects.filter(owner=person, deleted_at__gt=Now() - RESTORABLE)
        return kept.order_by(F("deleted_at").desc())

    @staticmethod
    def _find(rows: "models.QuerySet[Project]", project_id: uuid.UUID) -> "Project":
        found = rows.filter(pk=project_id).first()
        if found is None:
            raise Http404("No such project.")
        return found


class ProjectMember(models.Model):
    """A person who may use a project, beside its owner."""

    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="members")
    person = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="project_memberships"
    )
    role = models.CharField(_("role"), max_length=6, choices=Role.choices, default=Role.MEMBER)
    added_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        verbose_name = _("project member")
        verbose_name_plural = _("project members")
        constraints = [
            models.UniqueConstraint(fields=["project", "person"], name="one_membership_of_a_person")
        ]

    def __str__(self) -> str:
        return f"{self.person_id} in {self.project_id}"
