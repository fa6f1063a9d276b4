"""Reviews: what a call brought back, shown to a person before the assistant sees it."""

from django.conf import settings
from django.db import models

from .tool_call import ToolCall


class Review(models.Model):
    """The open question whether the assistant may see what a call brought back. One call, one
    review, and its id is the call's.

    `binding` is the hash of what was shown; the assistant sees the result only while it holds, and
    never one that nobody gave to it.
    """

    class State(models.TextChoices):
        OPEN = "open", "the assistant has not seen it yet"
        GIVEN = "given", "given to the assistant"
        HELD_BACK = "held_back", "held back"
        EXPIRED = "expired", "held back: nobody decided in time"
        WITHDRAWN = "withdrawn", "held back: the answer ended first"

    tool_call = models.OneToOneField(
        ToolCall, on_delete=models.CASCADE, primary_key=True, related_name="review"
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
        return f"review of {self.tool_call_id} ({self.state})"
