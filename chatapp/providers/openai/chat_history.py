"""A history in the format of Chat Completions, with the data that a server needs back."""

from collections.abc import Iterable, Iterator
from typing import Any

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
from chatapp.providers.tools.toolbox import Toolbox
from chatapp.providers.tools.wire_names import NameRule, fit_call_ids

from .media import build_chat_content
from .reasoning import FIELD as DETAILS
from .reasoning import Detail, join_details

Message = dict[str, Any]

OWN = "openai-chat"
CALL_IDS = NameRule(letters="!-~", longest=40)
REASONING_FIELDS = ("reasoning", "reasoning_content")
REASONING = (*REASONING_FIELDS, DETAILS)


def build_messages(history: Iterable[HistoryItem], box: Toolbox) -> Iterator[Message]:
    """Yield the messages. The media of a step's results follow them: results have text only."""
    shown: list[Media] = []
    for said in fit_call_ids(history, CALL_IDS):
        if shown and not isinstance(said, ToolOutcome):
            yield _build_media_message(shown)
            shown = []
        yield from _build_item(said, box)
        if isinstance(said, ToolOutcome):
            shown += said.media
    if shown:
        yield _build_media_message(shown)


def _build_media_message(media: list[Media]) -> Message:
    return {
        "role": "user",
        "content": build_chat_content("What the tools returned beside text:", media),
    }


def _build_item(said: HistoryItem, box: Toolbox) -> Iterator[Message]:
    match said:
        case UserMessage():
            yield {"role": "user", "content": build_chat_content(said.text, said.media)}
        case ToolOutcome():
            content = f"Error: {said.text}" if said.is_error else said.text
            yield {"role": "tool", "tool_call_id": said.call_id, "content": content}
        case AssistantMessage():
            yield from _build_assistant_message(said, box)


def _build_assistant_message(said: AssistantMessage, box: Toolbox) -> Iterator[Message]:
    text = "".join(part.text for part in said.parts if isinstance(part, SaidText))
    calls = [_build_call(part, box) for part in said.parts if isinstance(part, AskedTool)]
    message: Message = {"role": "assistant", "content": text}
    if details := join_details(_read_details(said)):
        message[DETAILS] = details
    elif calls:
        # Servers that send reasoning need it back with the calls after it. Some refuse it
        # elsewhere.
        message |= _join_reasoning(said)
    if calls:
        message["tool_calls"] = calls
    if text or calls:
        yield message


def _join_reasoning(said: AssistantMessage) -> dict[str, str]:
    shown: dict[str, str] = {}
    for part in said.parts:
        own = _read_own_data(part.opaque)
        if isinstance(part, SaidReasoning) and own.get("field") in REASONING_FIELDS:
            shown[own["field"]] = shown.get(own["field"], "") + part.text
    return shown


def _read_details(said: AssistantMessage) -> Iterator[Detail]:
    for part in said.parts:
        if isinstance(part, SaidReasoning):
            yield from _read_own_data(part.opaque).get(DETAILS) or []


def _build_call(asked: AskedTool, box: Toolbox) -> dict[str, Any]:
    arguments = box.arguments_to_wire(asked.name, asked.arguments)
    function = {"name": box.to_wire(asked.name), "arguments": arguments}
    own = {"id": asked.call_id, "type": "function", "function": function}
    return _read_own_data(asked.opaque) | own


def _read_own_data(opaque: dict[str, Any] | None) -> dict[str, Any]:
    return opaque["data"] if opaque and opaque.get("provider") == OWN else {}


def remove_reasoning(message: Message) -> Message:
    return {name: value for name, value in message.items() if name not in REASONING}
