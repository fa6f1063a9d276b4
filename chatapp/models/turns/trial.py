"""Trials: tools that admins ran by hand, outside of any chat."""

import uuid
from typing import Any

from django.conf import settings
from django.db import models
from django.utils.translation import gettext_lazy as _

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
        settings.AUTH_USER_MODEL,
        verbose_name=_("admin"),
        on_delete=models.SET_NULL,
        null=True,
        related_name="+",
    )
    service = models.ForeignKey(
        Service,
        verbose_name=_("service"),
        on_delete=models.SET_NULL,
        null=True,
        related_name="trials",
    )
    definition = models.ForeignKey(
        ToolDefinition, verbose_name=_("definition"), on_delete=models.SET_NULL, null=True
    )
    tool_id = models.CharField(_("tool"), max_length=128)
    tool_name = models.CharField(_("tool name"), max_length=255)
    arguments = models.TextField(_("arguments"))
    risk = models.CharField(_("risk"), max_length=6)
    reasons = models.JSONField(_("reasons"), default=list)
    why = models.CharField(_("reason"), max_length=500, help_text=_("The reason for the decision."))
    was_confirmed = models.BooleanField(_("approved by an admin"), default=False)
    binding = models.CharField(
        _("binding"), max_length=64, help_text=_("The hash of what was decided on.")
    )
    state = models.CharField(
        _("state"),
        max_length=17,
        choices=[(state.value, state.label) for state in STATES],
        default=State.SENDING,
    )
    sent_at = models.DateTimeField(_("sent at"), auto_now_add=True)
    finished_at = models.DateTimeField(_("finished at"), null=True)
    result = models.JSONField(_("result"), null=True)
    error = models.JSONField(_("error"), null=True)

    class Meta:
        verbose_name = _("trial")
        verbose_name_plural = _("trials")
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
