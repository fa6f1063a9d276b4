"""Tool calls: the whole life of one call, the approval it may need and the permit it runs under."""

import uuid
from typing import Any, Self

from django.conf import settings
from django.db import models
from django.http import Http404

from mcpconfig.models import Service, ToolDefinition

from .member import Member
from .turn import Turn


class ToolCall(models.Model):
    """One request by the model to use a tool; also the ledger that says whether it was sent.

    `arguments` is the canonical JSON (RFC 8785) that is shown, hashed and sent. `sending` is
    committed before the first byte leaves, so a row that is still `sending` when its worker is
    gone has an outcome that nobody knows.
    """

    class State(models.TextChoices):
        PROPOSED = "proposed", "deciding"
        AWAITING_APPROVAL = "awaiting_approval", "waiting for approval"
        APPROVED = "approved", "running"
        SENDING = "sending", "running"
        SUCCEEDED = "succeeded", "done"
        FAILED = "failed", "failed"
        UNKNOWN = "unknown", "outcome unknown"
        DENIED = "denied", "denied"
        REFUSED = "refused", "refused by policy"
        EXPIRED = "expired", "expired"
        WITHDRAWN = "withdrawn", "withdrawn"
        CANCELLED = "cancelled", "cancelled"

    FINAL = (
        State.SUCCEEDED,
        State.FAILED,
        State.DENIED,
        State.REFUSED,
        State.EXPIRED,
        State.WITHDRAWN,
        State.CANCELLED,
    )

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    turn = models.ForeignKey(Turn, on_delete=models.CASCADE, related_name="tool_calls")
    step = models.PositiveIntegerField()
    position = models.PositiveIntegerField()
    provider_call_id = models.CharField(max_length=200)
    tool_id = models.CharField(max_length=128)
    service = models.ForeignKey(Service, on_delete=models.SET_NULL, null=True)
    tool_name = models.CharField(max_length=255, blank=True)
    definition = models.ForeignKey(ToolDefinition, on_delete=models.SET_NULL, null=True)
    arguments = models.TextField()
    state = models.CharField(max_length=17, choices=State.choices, default=State.PROPOSED)
    risk = models.CharField(max_length=6, blank=True)
    reasons = models.JSONField(default=list)
    why = models.CharField(max_length=500, blank=True, help_text="The decision's reason.")
    attempt = models.PositiveIntegerField(default=0)
    sent_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)
    progress = models.CharField(max_length=200, blank=True)
    result = models.JSONField(null=True)
    error = models.JSONField(null=True)
    resolution = models.CharField(max_length=8, blank=True)
    resolved_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+"
    )

    class Meta:
        ordering = ["step", "position"]
        constraints = [
            models.UniqueConstraint(
                fields=["turn", "step", "position"], name="one_call_at_a_position"
            )
        ]

    def __str__(self) -> str:
        return f"{self.tool_id} ({self.state})"

    @classmethod
    def of(cls, person: Member, call_id: uuid.UUID) -> Self:
        """A tool call in a conversation of this person, or 404."""
        found = (
            cls.objects.select_related("turn__conversation", "service", "definition", "approval")
            .filter(pk=call_id, turn__conversation__owner=person)
            .first()
        )
        if found is None:
            raise Http404("No such tool call.")
        return found

    @property
    def seconds(self) -> float | None:
        """How long the tool took."""
        if self.sent_at is None or self.finished_at is None:
            return None
        return (self.finished_at - self.sent_at).total_seconds()

    @property
    def content(self) -> list[dict[str, Any]]:
        """The result's content blocks, as the protocol has them."""
        return list((self.result or {}).get("content", []))


class Approval(models.Model):
    """The open question to a person about one call. Its id is the call's: one call, one question.

    `binding` is the hash of everything that is shown; a decision names it, and the call runs only
    while it still holds.
    """

    class State(models.TextChoices):
        OPEN = "open"
        GRANTED = "granted"
        DENIED = "denied"
        EXPIRED = "expired"
        WITHDRAWN = "withdrawn"

    tool_call = models.OneToOneField(
        ToolCall, on_delete=models.CASCADE, primary_key=True, related_name="approval"
    )
    binding = models.CharField(max_length=64)
    state = models.CharField(max_length=9, choices=State.choices, default=State.OPEN)
    reason = models.CharField(max_length=2000, blank=True, help_text="A word to the assistant.")
    decided_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+"
    )
    decided_at = models.DateTimeField(null=True)
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField()

    class Meta:
        indexes = [models.Index(fields=["state", "expires_at"])]

    def __str__(self) -> str:
        return f"approval of {self.tool_call_id} ({self.state})"


class Permit(models.Model):
    """The right to execute one call once. The unique pair makes a second permit for an attempt
    impossible."""

    tool_call = models.ForeignKey(ToolCall, on_delete=models.CASCADE, related_name="permits")
    attempt = models.PositiveIntegerField()
    binding = models.CharField(max_length=64)
    granted_by = models.CharField(max_length=200)
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField()
    used_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["tool_call", "attempt"], name="one_permit_an_attempt")
        ]

    def __str__(self) -> str:
        return f"permit {self.attempt} of {self.tool_call_id}"
