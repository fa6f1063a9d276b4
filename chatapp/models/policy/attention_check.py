"""Attention checks: requests for approval of calls that do not exist."""

import uuid

from django.conf import settings
from django.db import models
from django.utils.translation import gettext_lazy as _


class AttentionCheck(models.Model):
    """One check of a person's attention. It is no tool call, has no turn, and nothing reads it but
    the inbox and the statistics."""

    class State(models.TextChoices):
        OPEN = "open", _("open")
        ALLOWED = "allowed", _("allowed")
        DENIED = "denied", _("denied")
        EXPIRED = "expired", _("expired")

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    person = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="attention_checks"
    )
    state = models.CharField(max_length=7, choices=State.choices, default=State.OPEN)
    # The call that it pretends: the name of a service, a tool and its arguments.
    service = models.CharField(max_length=255)
    tool = models.CharField(max_length=255)
    arguments = models.JSONField()
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    # When the card was first shown, from which the time to the answer counts.
    shown_at = models.DateTimeField(null=True)
    answered_at = models.DateTimeField(null=True)

    class Meta:
        verbose_name = _("attention check")
        verbose_name_plural = _("attention checks")
        indexes = [
            models.Index(fields=["person", "state"]),
            models.Index(fields=["created_at"]),
        ]

    def __str__(self) -> str:
        return f"{self.person_id} ({self.state})"
