"""What the model is told: the conversation so far as plain values, valid for every provider.

Each call that the model made has exactly one outcome, in the order of the calls: a denial, an
expiry and an unknown outcome are told as such.
"""

import json
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from chatapp.models import Message, Part, ToolCall, Turn
from chatapp.providers.request import (
    AskedTool,
    AssistantMessage,
    AssistantPart,
    HistoryItem,
    SaidReasoning,
    SaidText,
    ToolOutcome,
    UserMessage,
)

RESULT_MAX_CHARACTERS = 64_000
State = ToolCall.State

SENTENCES = {
    State.EXPIRED: "Not run: nobody answered the approval in time.",
    State.WITHDRAWN: "Not run: the request was withdrawn before anybody approved it.",
    State.CANCELLED: "Not run: the person stopped the turn first.",
    State.UNKNOWN: (
        "The outcome is unknown: the call was sent, but no answer came back. It may or may not "
        "have taken effect. Do not assume either, and do not repeat it without asking."
    ),
}


def history_of(turn: Turn) -> tuple[HistoryItem, ...]:
    """Everything from the start of the conversation to the latest finished step of `turn`."""
    items: list[HistoryItem] = []
    for message in _path_to(turn.question):
        items.extend(_items_of(message))
    items.extend(_items_of(turn.answer))
    return tuple(items)


def _path_to(question: Message) -> list[Message]:
    """The messages from the root to `question`, read in one query."""
    messages = {m.pk: m for m in Message.objects.filter(conversation_id=question.conversation_id)}
    path: list[Message] = []
    current: Message | None = messages[question.pk]
    while current is not None:
        path.append(current)
        current = messages.get(current.parent_id) if current.parent_id else None
    return path[::-1]


def _items_of(message: Message) -> Iterator[HistoryItem]:
    parts = list(message.parts.select_related("tool_call"))
    if message.role == Message.Role.USER:
        yield UserMessage(text="\n\n".join(part.text for part in parts))
        return
    by_step: dict[int, list[Part]] = defaultdict(list)
    for part in parts:
        by_step[part.step].append(part)
    for step in sorted(by_step):
        yield from _step_items(by_step[step])


def _step_items(parts: list[Part]) -> Iterator[HistoryItem]:
    said = tuple(said for part in parts if (said := _said(part)) is not None)
    if said:
        yield AssistantMessage(parts=said)
    for part in parts:
        if part.tool_call is not None:
            yield outcome_of(part.tool_call)


def _said(part: Part) -> AssistantPart | None:
    match part.kind:
        case Part.Kind.TEXT:
            return SaidText(text=part.text, opaque=part.opaque)
        case Part.Kind.REASONING:
            return SaidReasoning(text=part.text, opaque=part.opaque)
        case Part.Kind.TOOL_CALL if part.tool_call is not None:
            call = part.tool_call
            return AskedTool(
                call_id=call.provider_call_id,
                name=call.tool_id,
                arguments=call.arguments if _is_object(call.arguments) else "{}",
                opaque=part.opaque,
            )
        case _:
            return None


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except ValueError:
        return False


def outcome_of(call: ToolCall) -> ToolOutcome:
    """What the model is told came of `call`."""
    text, is_error = _told(call)
    if len(text) > RESULT_MAX_CHARACTERS:
        cut = len(text) - RESULT_MAX_CHARACTERS
        text = f"{text[:RESULT_MAX_CHARACTERS]}\n[{cut} more characters were left out here]"
    return ToolOutcome(
        call_id=call.provider_call_id, name=call.tool_id, text=text, is_error=is_error
    )


def _told(call: ToolCall) -> tuple[str, bool]:
    match call.state:
        case State.SUCCEEDED if call.resolution == "worked":
            return "A person checked: it worked. The result itself was lost.", False
        case State.FAILED if call.resolution == "did-not":
            return "A person checked: it did not take effect.", True
        case State.SUCCEEDED:
            return result_text(call) or "Done. The tool returned nothing.", False
        case State.FAILED:
            return failure_text(call), True
        case State.DENIED:
            return _denial(call), True
        case State.REFUSED:
            return f"Refused by policy: {call.why}", True
        case _:
            return SENTENCES.get(State(call.state), "Not run."), True


def _denial(call: ToolCall) -> str:
    approval = getattr(call, "approval", None)
    word = approval.reason if approval is not None else ""
    return f"Denied by the person. They said: {word}" if word else "Denied by the person."


def failure_text(call: ToolCall) -> str:
    """A failed call in words: what the tool itself said, or why it could not be used."""
    error = call.error or {}
    sentence = " ".join(filter(None, [error.get("message"), error.get("hint")]))
    return sentence or result_text(call) or "The tool failed without saying why."


def result_text(call: ToolCall) -> str:
    """The result as text: its text blocks, a word for what is not text, else the structured
    value."""
    texts = [_block_text(block) for block in call.content]
    if not any(texts) and call.result and call.result.get("structured") is not None:
        return json.dumps(call.result["structured"], ensure_ascii=False)
    return "\n\n".join(filter(None, texts))


def _block_text(block: dict[str, Any]) -> str:
    match block.get("type"):
        case "text":
            return str(block.get("text", ""))
        case "resource":
            resource = block.get("resource") or {}
            return str(resource.get("text") or f"[resource {resource.get('uri', '')}]")
        case "resource_link":
            return f"[link {block.get('name', '')}: {block.get('uri', '')}]"
        case kind:
            return f"[{kind}, {block.get('mimeType', 'unknown type')}]"
