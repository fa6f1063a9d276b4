"""What a service asks a person before it goes on with a call."""

import uuid
from typing import Any

from django.conf import settings
from django.db import models

from mcpconfig.secrets import decrypt, encrypt

from .tool_call import ToolCall


class Question(models.Model):
    """One round of questions about one call. The first answer counts; it travels to the service
    with the next leg of the call, together with the state that the service gave along.

    `requests` is what is shown, as `InputRequest` is stored; none in it means that the service only
    wants to be asked again later. A call has at most one round that is open.
    """

    class State(models.TextChoices):
        OPEN = "open"
        ANSWERED = "answered"
        DECLINED = "declined"
        CANCELLED = "cancelled"
        EXPIRED = "expired"
        WITHDRAWN = "withdrawn"

    class Source(models.TextChoices):
        """Where the answer goes: along with the next leg of the call, to the task that it became,
        or into the connection that is open meanwhile."""

        LEG = "leg"
        TASK = "task"
        LIVE = "live"

    GIVEN = (State.ANSWERED, State.DECLINED, State.CANCELLED)

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    tool_call = models.ForeignKey(ToolCall, on_delete=models.CASCADE, related_name="questions")
    round = models.PositiveIntegerField()
    requests = models.JSONField(default=list)
    sealed_state = models.BinaryField(default=b"")
    source = models.CharField(max_length=4, choices=Source.choices, default=Source.LEG)
    is_delivered = models.BooleanField(default=False)
    answers = models.JSONField(null=True)
    state = models.CharField(max_length=9, choices=State.choices, default=State.OPEN)
    answered_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+"
    )
    answered_at = models.DateTimeField(null=True)
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
        """Nobody needs to answer what is still open about this call."""
        cls.objects.filter(tool_call=call, state=cls.State.OPEN).update(state=cls.State.WITHDRAWN)

    @property
    def _place(self) -> str:
        return f"chatapp.question:{self.pk}:state"

    @property
    def request_state(self) -> str | None:
        """What the service wants back with the answers; nothing of it is ever shown."""
        sealed = bytes(self.sealed_state)
        return decrypt(sealed, place=self._place) if sealed else None

    def seal(self, request_state: str | None) -> None:
        """Keep the service's state, which may hold anything, encrypted in the row."""
        self.sealed_state = (
            b"" if request_state is None else encrypt(request_state, place=self._place)
        )

    @property
    def given(self) -> dict[str, Any]:
        """The answers by the keys of the requests."""
        return dict(self.answers or {})
