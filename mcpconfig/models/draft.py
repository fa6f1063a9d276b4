"""What an admin typed on a page that checks an account before it is saved."""

import uuid
from datetime import timedelta
from typing import ClassVar, Self

from django.conf import settings
from django.db import models
from django.utils import timezone

from .sealed_field import SealedField

# A limit, so that pages that were left open do not collect rows.
MOST_OF_A_PERSON = 20


class Draft(models.Model):
    """One row that is being added, of one admin. It is deleted when the row is saved.

    `CHANGING` names the columns that the page changes.
    """

    LIFETIME = timedelta(days=1)
    CHANGING: ClassVar[tuple[str, ...]]

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    person = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    # The fields of the form without secrets, as they were typed.
    typed = models.JSONField(default=dict)
    # The secrets, as one sealed JSON object.
    secrets = SealedField(default=b"")
    report = models.JSONField(null=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        abstract = True
        indexes = [models.Index(fields=["created_at"])]

    @classmethod
    def find(cls, person_id: int, draft_id: uuid.UUID) -> Self | None:
        """Return this admin's draft of this id."""
        since = timezone.now() - cls.LIFETIME
        mine = cls._default_manager.filter(person=person_id, created_at__gte=since)
        return mine.filter(pk=draft_id).first()

    def store(self) -> None:
        """Store the draft, and delete old ones and those beyond the limit.

        Raise `DoesNotExist` if it was stored and is gone: another page has discarded it or saved
        what it was for, so it must not come back with its secrets.
        """
        rows = type(self)._default_manager
        if self._state.adding:
            self.save(force_insert=True)
        elif not rows.filter(pk=self.pk).update(
            **{name: getattr(self, name) for name in self.CHANGING}
        ):
            raise type(self).DoesNotExist
        self.delete_old()
        others = rows.filter(person=self.person_id).exclude(pk=self.pk).order_by("-created_at")
        old = others.values_list("pk", flat=True)[MOST_OF_A_PERSON - 1 :]
        rows.filter(pk__in=list(old)).delete()

    @classmethod
    def delete_old(cls) -> None:
        cls._default_manager.filter(created_at__lt=timezone.now() - cls.LIFETIME).delete()
