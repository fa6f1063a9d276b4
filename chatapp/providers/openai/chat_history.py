"""A history as messages of Chat Completions, with what a server wants to see again."""

from collections.abc import Iterable, Iterator
from typing import Any

from chatapp.providers.call_ids import with_fitting_ids
from chatapp.providers.openai_media import chat_content
from chatapp.providers.reasoning_details import FIELD as DETAILS
from chatapp.providers.reasoning_details import Detail, joined
from chatapp.providers.request import (
    AskedTool,
    AssistantMessage,
    HistoryItem,
    Media,
    SaidReasoning,
    SaidText,
    ToolOutcome,
    UserMessage,
)
from chatapp.providers.toolbox import Toolbox
from chatapp.providers.wire_names import NameRule

Message = dict[str, Any]

OWN = "openai-chat"
CALL_IDS = NameRule(letters="!-~", longest=40)
REASONING_FIELDS = ("reasoning", "reasoning_content")
REASONING = (*REASONING_FIELDS, DETAILS)


def conversation(history: Iterable[HistoryItem], box: Toolbox) -> Iterator[Message]:
    """A result is text only in this form: what else tools gave follows the results of its step."""
    shown: list[Media] = []
    for said in with_fitting_ids(history, CALL_IDS):
        if shown and not isinstance(said, ToolOutcome):
            yield _of_tools(shown)
            shown = []
        yield from _messages(said, box)
        if isinstance(said, ToolOutcome):
            shown += said.media
    if shown:
        yield _of_tools(shown)


def _of_tools(media: list[Media]) -> Message:
    return {"role": "user", "content": chat_content("What the tools returned beside text:", media)}


def _messages(said: HistoryItem, box: Toolbox) -> Iterator[Message]:
    match said:
        case UserMessage():
            yield {"role": "user", "content": chat_content(said.text, said.media)}
        case ToolOutcome():
            content = f"Error: {said.text}" if said.is_error else said.text
            yield {"role": "tool", "tool_call_id": said.call_id, "content": content}
        case AssistantMessage():
            yield from _assistant_message(said, box)


def _assistant_message(said: AssistantMessage, box: Toolbox) -> Iterator[Message]:
    text = "".join(part.text for part in said.parts if isinstance(part, SaidText))
    calls = [_tool_call(part, box) for part in said.parts if isinstance(part, AskedTool)]
    message: Message = {"role": "assistant", "content": text}
    if details := joined(_details(said)):
        message[DETAILS] = details
    elif calls:
        # Servers that show their reasoning want it back beside the calls that it led to, and some
        # refuse it anywhere else.
        message |= _reasoning_fields(said)
    if calls:
        message["tool_calls"] = calls
    if text or calls:
        yield message


def _reasoning_fields(said: AssistantMessage) -> dict[str, str]:
    shown: dict[str, str] = {}
    for part in said.parts:
        own = _own_data(part.opaque)
        if isinstance(part, SaidReasoning) and own.get("field") in REASONING_FIELDS:
            shown[own["field"]] = shown.get(own["field"], "") + part.text
    return shown


def _details(said: AssistantMessage) -> Iterator[Detail]:
    for part in said.parts:
        if isinstance(part, SaidReasoning):
            yield from _own_data(part.opaque).get(DETAILS) or []


def _tool_call(asked: AskedTool, box: Toolbox) -> dict[str, Any]:
    arguments = box.arguments_to_wire(asked.name, asked.arguments)
    function = {"name": box.to_wire(asked.name), "arguments": arguments}
    own = {"id": asked.call_id, "type": "function", "function": function}
    return _own_data(asked.opaque) | own


def _own_data(opaque: dict[str, Any] | None) -> dict[str, Any]:
    return opaque["data"] if opaque and opaque.get("provider") == OWN else {}


def without_reasoning(message: Message) -> Message:
    return {name: value for name, value in message.items() if name not in REASONING}
