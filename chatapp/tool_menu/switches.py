"""Switching tools on and off, by the person whose chats they are. It counts from the next model
call on, and every page of theirs shows it at once."""

from typing import Any

from django.db import transaction

from chatapp.models import Conversation, Member, ToolSwitch
from mcpconfig.models import Service

from . import person_signals


@transaction.atomic
def switch(
    person: Member,
    conversation: Conversation | None,
    service: Service | None,
    tool: str,
    is_on: bool,
) -> None:
    """Switch one tool, or without a name all tools of a service, those it will have as well;
    without a service one of our own. In this conversation, or without one in all that say nothing
    else."""
    place: dict[str, Any] = {"person": person, "conversation": conversation, "service": service}
    if not tool:
        ToolSwitch.objects.filter(**place).exclude(tool="").delete()
    ToolSwitch.objects.update_or_create(**place, tool=tool, defaults={"is_on": is_on})
    person_signals.tell(person.pk)


@transaction.atomic
def switch_all(conversation: Conversation, is_on: bool) -> None:
    """Let a chat use tools, or none at all."""
    Conversation.objects.filter(pk=conversation.pk).update(uses_tools=is_on)
    conversation.uses_tools = is_on
    person_signals.tell(conversation.owner_id)


@transaction.atomic
def switch_as_elsewhere(conversation: Conversation) -> None:
    """Let a chat have the switches of all chats again."""
    ToolSwitch.objects.filter(conversation=conversation).delete()
    person_signals.tell(conversation.owner_id)
