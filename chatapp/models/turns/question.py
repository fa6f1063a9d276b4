"""Questions of services to a person in the middle of a call."""

import uuid
from typing import Any

from django.conf import settings
from django.db import models
from django.utils.translation import gettext_lazy as _

from chatapp.models.turns.tool_call import ToolCall
from mcpconfig.models.sealed_field import SealedField
from mcpconfig.secrets.encryption import decrypt, encrypt


class Question(models.Model):
    """One round of questions of one call. The first answer counts; it is sent to the service with
    the next leg of the call, together with the state that the service sent.

    `requests` is what is shown, stored as `InputRequest`; an empty list means that the service only
    wants to be called again later. A call has at most one open round.
    """

    class State(models.TextChoices):
        OPEN = "open", _("open")
        ANSWERED = "answered", _("answered")
        DECLINED = "declined", _("declined")
        CANCELLED = "cancelled", _("cancelled")
        EXPIRED = "expired", _("expired")
        WITHDRAWN = "withdrawn", _("withdrawn")

    class Source(models.TextChoices):
        """Where the answer goes: with the next leg of the call, to the task that it became, or
        into the open connection."""

        LEG = "leg"
        TASK = "task"
        LIVE = "live"

    GIVEN = (State.ANSWERED, State.DECLINED, State.CANCELLED)

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    tool_call = models.ForeignKey(ToolCall, on_delete=models.CASCADE, related_name="questions")
    round = models.PositiveIntegerField()
    requests = models.JSONField(default=list)
    sealed_state = SealedField(default=b"")
    source = models.CharField(max_length=4, choices=Source.choices, default=Source.LEG)
    is_delivered = models.BooleanField(default=False)
    answers = models.JSONField(null=True)
    state = models.CharField(max_length=9, choices=State.choices, default=State.OPEN)
    answered_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+"
    )
    answered_at = models.DateTimeField(null=True)
    shown_at = models.DateTimeField(null=True)
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField()

    class Meta:
        ordering = ["round"]
        indexes = [models.Index(fields=["state", "expires_at"])]
        constraints = [
            models.UniqueConstraint(fields=["tool_call", "round"], name="one_question_a_round")
        ]

    def __str__(self) -> str:
        return f"question {self.round} of {self.tool_call_id} ({self.state})"

    @classmethod
    def withdraw_open(cls, call: ToolCall) -> None:
        """Withdraw the open questions of this call."""
        cls.objects.filter(tool_call=call, state=cls.State.OPEN).update(state=cls.State.WITHDRAWN)

    @property
    def _place(self) -> str:
        return f"chatapp.question:{self.pk}:state"

    @property
    def request_state(self) -> str | None:
        """The state that the service wants back with the answers; it is never shown."""
        sealed = bytes(self.sealed_state)
        return decrypt(sealed, place=self._place) if sealed else None

    def seal(self, request_state: str | None) -> None:
        """Store the service's state encrypted, because it may hold anything."""
        self.sealed_state = (
            b"" if request_state is None else encrypt(request_state, place=self._place)
        )

    @property
    def given(self) -> dict[str, Any]:
        """The answers by the keys of the requests."""
        return dict(self.answers or {})
