"""Switching tools on and off. A switch counts from the next model call, and all pages of the
person show it at once."""

from typing import Any

from django.db import transaction

from chatapp.models import Conversation, Member, ToolSwitch
from chatapp.people import signals
from mcpconfig.models import Service


@transaction.atomic
def switch(
    person: Member,
    conversation: Conversation | None,
    service: Service | None,
    tool: str,
    is_on: bool,
) -> None:
    """Switch one tool. Without a name, switch all present and future tools of a service; without a
    service, a core tool.

    It applies to this conversation or, without one, to all conversations that have no switch of
    their own.
    """
    place: dict[str, Any] = {"person": person, "conversation": conversation, "service": service}
    if not tool:
        ToolSwitch.objects.filter(**place).exclude(tool="").delete()
    ToolSwitch.objects.update_or_create(**place, tool=tool, defaults={"is_on": is_on})
    signals.notify(person.pk)


@transaction.atomic
def switch_all(conversation: Conversation, is_on: bool) -> None:
    """Switch all tools of a chat on or off."""
    Conversation.objects.filter(pk=conversation.pk).update(uses_tools=is_on)
    conversation.uses_tools = is_on
    signals.notify(conversation.owner_id)


@transaction.atomic
def reset_switches(conversation: Conversation) -> None:
    """Let a chat use the switches of all chats again."""
    ToolSwitch.objects.filter(conversation=conversation).delete()
    signals.notify(conversation.owner_id)
