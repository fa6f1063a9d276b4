"""The assistant's plan in a conversation: a checklist that is ticked as the work goes on."""

from django.db import models

from .conversation import Conversation
from .tool_call import ToolCall


class Plan(models.Model):
    """The steps that one call set down, shown where that call stands. The latest plan of a
    conversation is the one that is ticked; an earlier one stays as it was left.

    `steps` is a list of `{"text": …, "state": "open" | "doing" | "done"}`.
    """

    call = models.OneToOneField(
        ToolCall, on_delete=models.CASCADE, primary_key=True, related_name="plan"
    )
    conversation = models.ForeignKey(Conversation, on_delete=models.CASCADE, related_name="plans")
    steps = models.JSONField()
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["created_at"]

    def __str__(self) -> str:
        return f"plan of {len(self.steps)} steps"
