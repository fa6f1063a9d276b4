"""Who can use what a person saved: only they, a group, or everyone."""

import uuid
from typing import Any, Self

from django.conf import settings
from django.contrib.auth.models import Group
from django.db import models
from django.db.models import Q
from django.http import Http404
from django.utils.translation import gettext_lazy as _

from chatapp.models.people.member import Member


class Audience(models.TextChoices):
    OWNER = "owner", _("Only me")
    GROUP = "group", _("A group")
    EVERYONE = "everyone", _("Everyone")


class SharedRow(models.Model):
    """A row of `owner` that others may use, but only its owner can change.

    Who leaves the group has no access any more. A row whose group was deleted is its owner's alone.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        verbose_name=_("owner"),
        on_delete=models.CASCADE,
        related_name="%(class)ss",
    )
    audience = models.CharField(
        _("who can use it"), max_length=8, choices=Audience.choices, default=Audience.OWNER
    )
    group = models.ForeignKey(
        Group,
        verbose_name=_("group"),
        on_delete=models.SET_NULL,
        null=True,
        blank=True,
        related_name="+",
    )
    created_at = models.DateTimeField(_("created at"), auto_now_add=True)
    changed_at = models.DateTimeField(_("changed at"), auto_now=True)

    class Meta:
        abstract = True

    @classmethod
    def filter_usable(cls, person: Member) -> "models.QuerySet[Self]":
        """Return the rows that this person may use. Pages and starts of chats ask nothing else."""
        shared = Q(audience=Audience.GROUP, group__in=person.groups.values("pk"))
        return cls._default_manager.filter(Q(owner=person) | Q(audience=Audience.EVERYONE) | shared)

    @classmethod
    def usable_by(cls, person: Member, row_id: uuid.UUID) -> Self:
        """Return the row if this person may use it, or raise 404."""
        return cls._find(cls.filter_usable(person).select_related("owner", "group"), row_id)

    @classmethod
    def of(cls, person: Member, row_id: uuid.UUID) -> Self:
        """Return this person's own row, or raise 404. Only its owner changes or deletes a row."""
        return cls._find(cls._default_manager.filter(owner=person), row_id)

    @classmethod
    def _find(cls, rows: "models.QuerySet[Self]", row_id: uuid.UUID) -> Self:
        found = rows.filter(pk=row_id).first()
        if found is None:
            raise Http404("No such row.")
        return found


def list_audiences(person: Member) -> list[tuple[str, Any]]:
    """Return with whom this person may share: value and label. Only admins of members share with
    everyone."""
    audiences: list[tuple[str, Any]] = [(Audience.OWNER.value, Audience.OWNER.label)]
    groups = person.groups.order_by("name")
    audiences += [(f"{Audience.GROUP}-{each.pk}", each.name) for each in groups]
    if person.is_staff and (person.is_superuser or "people" in person.rights):
        audiences.append((Audience.EVERYONE.value, Audience.EVERYONE.label))
    return audiences
