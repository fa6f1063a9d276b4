"""The assistant's plan in a conversation: a checklist that is ticked as the work goes on."""

from django.db import models

from chatapp.models.turns.tool_call import ToolCall

from .conversation import Conversation


class Plan(models.Model):
    """The steps that one call created, shown at that call. The latest plan on the branch that is
    shown is the one that is ticked; earlier ones stay unchanged.

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
