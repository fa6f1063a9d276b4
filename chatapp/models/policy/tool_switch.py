"""Which tools people switched on and off for themselves, within what admins allow."""

import uuid
from typing import Self

from django.conf import settings
from django.db import models
from django.db.models import Q

from chatapp.models.conversations.conversation import Conversation
from mcpconfig.models import Service


class ToolSwitches(models.QuerySet["ToolSwitch"]):
    """Switches by where they count."""

    def in_chat(self, person_id: int, conversation_id: uuid.UUID) -> Self:
        """Return this person's switches for all chats and for this chat."""
        return self.filter(Q(conversation=None) | Q(conversation=conversation_id), person=person_id)


class ToolSwitch(models.Model):
    """One person's switch for one tool of a service; without a name, for all its tools; without
    a service, for a core tool. It applies to one conversation or, without one, to all."""

    person = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="tool_switches"
    )
    conversation = models.ForeignKey(
        Conversation, on_delete=models.CASCADE, null=True, related_name="tool_switches"
    )
    service = models.ForeignKey(Service, on_delete=models.CASCADE, null=True, related_name="+")
    tool = models.CharField(max_length=255, blank=True)
    is_on = models.BooleanField()

    objects = ToolSwitches.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["person", "conversation", "service", "tool"],
                name="one_switch_in_a_conversation",
            ),
            models.UniqueConstraint(
                fields=["person", "service", "tool"],
                condition=Q(conversation=None),
                name="one_switch_for_all_conversations",
            ),
            models.UniqueConstraint(
                fields=["person", "conversation", "tool"],
                condition=Q(service=None),
                name="one_own_switch_in_a_conversation",
            ),
            models.UniqueConstraint(
                fields=["person", "tool"],
                condition=Q(service=None, conversation=None),
                name="one_own_switch_for_all_conversations",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.tool or 'all tools'}: {'on' if self.is_on else 'off'}"
