"""Trials: tools that admins ran by hand, outside of any chat."""

import uuid
from typing import Any

from django.conf import settings
from django.db import models

from chatapp.models.turns.tool_call import ToolCall
from mcpconfig.models import Service, ToolDefinition

State = ToolCall.State
STATES = (State.SENDING, State.SUCCEEDED, State.FAILED, State.UNKNOWN)


class Trial(models.Model):
    """One manual use of a tool by an admin: the decision, that it was sent, and its outcome.

    Its id is made with the form, so that one form runs a tool once, however often it is sent. The
    row is committed as `sending` before the first byte leaves; nothing sends it again.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    person = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+"
    )
    service = models.ForeignKey(
        Service, on_delete=models.SET_NULL, null=True, related_name="trials"
    )
    definition = models.ForeignKey(ToolDefinition, on_delete=models.SET_NULL, null=True)
    tool_id = models.CharField(max_length=128)
    tool_name = models.CharField(max_length=255)
    arguments = models.TextField()
    risk = models.CharField(max_length=6)
    reasons = models.JSONField(default=list)
    why = models.CharField(max_length=500, help_text="The decision's reason.")
    was_confirmed = models.BooleanField("confirmed by hand", default=False)
    binding = models.CharField(max_length=64, help_text="The hash of what was decided about.")
    state = models.CharField(
        max_length=17,
        choices=[(state.value, state.label) for state in STATES],
        default=State.SENDING,
    )
    sent_at = models.DateTimeField(auto_now_add=True)
    finished_at = models.DateTimeField(null=True)
    result = models.JSONField(null=True)
    error = models.JSONField(null=True)

    class Meta:
        ordering = ["-sent_at"]
        indexes = [models.Index(fields=["service", "-sent_at"], name="trials_of_a_service")]

    def __str__(self) -> str:
        return f"{self.tool_id} ({self.get_state_display()})"

    @property
    def seconds(self) -> float | None:
        """How long the tool took."""
        return (
            None if self.finished_at is None else (self.finished_at - self.sent_at).total_seconds()
        )

    @property
    def content(self) -> list[dict[str, Any]]:
        """The result's content blocks, as in the protocol."""
        return list((self.result or {}).get("content", []))
