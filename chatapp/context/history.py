"""What the model is told: the conversation so far as plain values, valid for every provider.

Each call that the model made has exactly one outcome, in the order of the calls: a denial, an
expiry and an unknown outcome are told as such.
"""

import json
import uuid
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain
from typing import Any

from django.db.models import Exists, OuterRef

from chatapp.models import Message, Part, Step, ToolCall, Turn
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

from .attachment_text import attachment_text, within_bounds
from .enclosures import Enclosures
from .held_results import may_be_told, told_instead

State = ToolCall.State

SENTENCES = {
    State.EXPIRED: "Not run: nobody answered the approval in time.",
    State.WITHDRAWN: "Not run: the request was withdrawn before anybody approved it.",
    State.CANCELLED: "Not run: the person stopped the turn first.",
}
NO_ANSWER = "The call was sent, but no answer came back."


def history_of(turn: Turn) -> tuple[HistoryItem, ...]:
    """Everything from the start of the conversation to the latest finished step of `turn`."""
    parts = _parts(turn)
    left_behind, path = given_up(turn), _path_to(turn)
    told = {
        message_id: [
            part for part in parts[message_id] if (message_id, part.step) not in left_behind
        ]
        for message_id in path
    }
    enclosed = Enclosures(chain.from_iterable(told.values()))
    items: list[HistoryItem] = []
    for message_id, role in path.items():
        items.extend(_items_of(role, told[message_id], enclosed))
    return tuple(items)


def given_up(turn: Turn) -> set[tuple[uuid.UUID, int]]:
    """Answers and steps that were cut off and asked for anew: the model says it all again."""
    later = Step.objects.filter(turn=OuterRef("turn"), number__gt=OuterRef("number"))
    cut_off = Step.objects.filter(
        Exists(later), turn__conversation_id=turn.conversation_id, state=Step.State.INTERRUPTED
    )
    return set(cut_off.values_list("turn__answer_id", "number"))


def _path_to(turn: Turn) -> dict[uuid.UUID, str]:
    """The messages from the root to the turn's own two, with their roles, in that order."""
    rows = Message.objects.filter(conversation_id=turn.conversation_id)
    found = {pk: (parent, role) for pk, parent, role in rows.values_list("pk", "parent_id", "role")}
    path: list[uuid.UUID] = []
    current: uuid.UUID | None = turn.answer_id
    while current is not None:
        path.append(current)
        current = found[current][0]
    return {pk: found[pk][1] for pk in reversed(path)}


def _parts(turn: Turn) -> dict[uuid.UUID, list[Part]]:
    """The parts of the whole conversation by message, each message's in order."""
    rows = Part.objects.filter(message__conversation_id=turn.conversation_id)
    parts: dict[uuid.UUID, list[Part]] = defaultdict(list)
    rows = rows.select_related("tool_call__approval", "tool_call__review", "attachment__file")
    for part in rows.defer("attachment__file__data"):
        parts[part.message_id].append(part)
    return parts


def _items_of(role: str, parts: list[Part], enclosed: Enclosures) -> Iterator[HistoryItem]:
    if role == Message.Role.USER:
        yield _user_message(parts, enclosed)
        return
    by_step: dict[int, list[Part]] = defaultdict(list)
    for part in parts:
        by_step[part.step].append(part)
    for step in sorted(by_step):
        yield from _step_items(by_step[step], enclosed)


def _user_message(parts: list[Part], enclosed: Enclosures) -> UserMessage:
    """The person's words, then what they attached, each marked as data that somebody else gave."""
    words = [part.text for part in parts if part.kind == Part.Kind.TEXT]
    files = [part for part in parts if part.kind == Part.Kind.FILE]
    words += [attachment_text(part.attachment) for part in files]
    media = tuple(each for part in files for each in enclosed.of(part))
    return UserMessage(text="\n\n".join(words), media=media)


def _step_items(parts: list[Part], enclosed: Enclosures) -> Iterator[HistoryItem]:
    parts = sorted(parts, key=_place)
    said = tuple(said for part in parts if (said := _said(part)) is not None)
    if said:
        yield AssistantMessage(parts=said)
    for part in parts:
        if part.tool_call is not None:
            yield replace(outcome_of(part.tool_call), media=enclosed.of(part))


def _place(part: Part) -> tuple[int, bool, int]:
    """Where in its step the model said it: calls among words, which pages show behind them."""
    is_call = part.kind == Part.Kind.TOOL_CALL
    place = part.position if part.place is None else part.place
    return place, not is_call, part.position


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
                arguments=_asked(call),
                opaque=part.opaque,
            )
        case _:
            return None


def _asked(call: ToolCall) -> str:
    """The values that the model asked for; what a person made of them, the outcome says."""
    asked = call.asked_arguments or call.arguments
    return asked if _is_object(asked) else "{}"


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


def outcome_of(call: ToolCall) -> ToolOutcome:
    """What the model is told came of `call`."""
    text, is_error = _told(call)
    if call.asked_arguments:
        text = f"[The person changed the values before it ran, to: {call.arguments}]\n{text}"
    return ToolOutcome(
        call_id=call.provider_call_id,
        name=call.tool_id,
        text=within_bounds(text),
        is_error=is_error,
    )


def _told(call: ToolCall) -> tuple[str, bool]:
    if not may_be_told(call):
        return told_instead(call), call.state == State.FAILED
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
        case State.EXPIRED | State.WITHDRAWN if call.error:
            return f"Not run. {failure_text(call)}", True
        case State.UNKNOWN:
            return _unknown(call), True
        case State.REFUSED:
            return f"Refused by policy: {call.why}", True
        case _:
            return SENTENCES.get(State(call.state), "Not run."), True


def _unknown(call: ToolCall) -> str:
    came = (call.error or {}).get("message") or NO_ANSWER
    return (
        f"The outcome is unknown. {came} It may or may not have taken effect. Do not assume "
        "either, and do not repeat it without asking."
    )


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
