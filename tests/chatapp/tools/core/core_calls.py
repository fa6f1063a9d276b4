"""Running a core tool by itself, without a turn."""

from dataclasses import replace
from typing import Any

from asgiref.sync import async_to_sync

from chatapp.models import Conversation, Member, Message, Part
from chatapp.tools.catalogue import Catalogue
from chatapp.tools.context import Context
from chatapp.tools.core import core_tool


def run(name: str, person: Member, /, **arguments: Any) -> dict[str, Any]:
    """The structured result for this person. Raises ToolError."""
    return ran(name, Context(person=person, catalogue=Catalogue()), arguments)[1]


def told(name: str, person: Member, /, **arguments: Any) -> str:
    """The words of the result."""
    return ran(name, Context(person=person, catalogue=Catalogue()), arguments)[0]


def ran(name: str, context: Context, arguments: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Words and structured result, once what is read beforehand was read."""
    tool = core_tool(name)
    assert tool is not None
    if tool.read is not None:
        context = replace(context, prepared=tool.read(context, tool.validate(arguments)))
    elif tool.prepare is not None:
        context = async_to_sync(tool.prepare_context)(context, arguments)
    return tool.run(context, arguments)


def chat(owner: Member, title: str, *said: str) -> Conversation:
    """A chat in which the person and the assistant said these things in turn."""
    made = Conversation.objects.create(owner=owner, title=title)
    for number, words in enumerate(said):
        role = Message.Role.ASSISTANT if number % 2 else Message.Role.USER
        message = Message.objects.create(conversation=made, role=role, created_seq=number + 1)
        Part.objects.create(message=message, position=0, kind=Part.Kind.TEXT, text=words)
    return made
