"""The history for a model: the conversation so far as plain values, valid for every provider.

Each call of the model has exactly one outcome, in the order of the calls, also if it was denied,
expired or unknown.
"""

import json
import uuid
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from itertools import chain
from typing import Any

from django.db.models import Exists, OuterRef, QuerySet

from chatapp.models import Message, Part, Step, ToolCall, Turn
from chatapp.models.conversations.copied_call import CopiedCall
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
from chatapp.server.compiled_queries import compiled

from .files import ModelFiles, cut_to_limit, render_attachment
from .withheld_results import describe_withheld, is_visible_to_model

State = ToolCall.State

SENTENCES = {
    State.EXPIRED: "Not run: nobody answered the approval in time.",
    State.WITHDRAWN: "Not run: the request was withdrawn before anybody approved it.",
    State.CANCELLED: "Not run: the person stopped the turn first.",
}
NO_ANSWER = "The call was sent, but no answer came back."
# Its id, that of the message before it, its role, and whether a step of it was interrupted.
MessageRow = tuple[uuid.UUID, uuid.UUID | None, str, bool]


def build_history(turn: Turn) -> tuple[HistoryItem, ...]:
    """Return everything from the start of the conversation to the latest finished step of
    `turn`."""
    messages = list(_list_messages(turn.conversation_id))
    path = _find_path(turn, messages)
    parts = _load_parts(turn, path if len(path) < len(messages) else ())
    has_abandoned = any(has_interrupted for *_, has_interrupted in messages)
    left_behind = list_abandoned_steps(turn.conversation_id) if has_abandoned else set()
    told = {
        message_id: [
            part for part in parts[message_id] if (message_id, part.step) not in left_behind
        ]
        for message_id in path
    }
    files = ModelFiles(chain.from_iterable(told.values()))
    items: list[HistoryItem] = []
    for message_id, role in path.items():
        items.extend(_build_items(role, told[message_id], files))
    return tuple(items)


def list_abandoned_steps(conversation_id: uuid.UUID) -> set[tuple[uuid.UUID, int]]:
    """Return the answers and steps of a chat that were interrupted and repeated: the model says
    their content again."""
    return set(_list_abandoned(conversation_id))


@compiled
def _list_abandoned(conversation_id: uuid.UUID) -> QuerySet[Step, tuple[uuid.UUID, int]]:
    later = Step.objects.filter(turn=OuterRef("turn"), number__gt=OuterRef("number"))
    cut_off = Step.objects.filter(
        Exists(later), turn__conversation_id=conversation_id, state=Step.State.INTERRUPTED
    )
    return cut_off.values_list("turn__answer_id", "number")


def _find_path(turn: Turn, messages: Iterable[MessageRow]) -> dict[uuid.UUID, str]:
    """Return the messages from the root to the turn's own two with their roles, in that order."""
    found = {pk: (parent, role) for pk, parent, role, _ in messages}
    path: list[uuid.UUID] = []
    current: uuid.UUID | None = turn.answer_id
    while current is not None:
        path.append(current)
        current = found[current][0]
    return {pk: found[pk][1] for pk in reversed(path)}


@compiled
def _list_messages(conversation_id: uuid.UUID) -> QuerySet[Message, MessageRow]:
    cut_off = Step.objects.filter(turn__answer=OuterRef("pk"), state=Step.State.INTERRUPTED)
    rows = Message.objects.filter(conversation_id=conversation_id)
    return rows.values_list("pk", "parent_id", "role", Exists(cut_off))


def _load_parts(turn: Turn, path: Collection[uuid.UUID]) -> dict[uuid.UUID, list[Part]]:
    """Return the parts of the conversation by message, in order: of all messages, or of those in
    `path` if there are others."""
    parts: dict[uuid.UUID, list[Part]] = defaultdict(list)
    rows = _join_parts(message__in=path) if path else _list_parts(turn.conversation_id)
    for part in rows:
        parts[part.message_id].append(part)
    return parts


@compiled
def _list_parts(conversation_id: uuid.UUID) -> QuerySet[Part]:
    return _join_parts(message__conversation_id=conversation_id)


def _join_parts(**which: object) -> QuerySet[Part]:
    rows = Part.objects.filter(**which)
    rows = rows.select_related("tool_call__approval", "tool_call__review", "attachment__file")
    return rows.defer("attachment__file__data")


def _build_items(role: str, parts: list[Part], files: ModelFiles) -> Iterator[HistoryItem]:
    if role == Message.Role.USER:
        yield _build_user_message(parts, files)
        return
    by_step: dict[int, list[Part]] = defaultdict(list)
    for part in parts:
        by_step[part.step].append(part)
    for step in sorted(by_step):
        yield from _build_step_items(by_step[step], files)


def _build_user_message(parts: list[Part], files: ModelFiles) -> UserMessage:
    """Return the person's text, then the attachments, each marked as data from somebody else."""
    words = [part.text for part in parts if part.kind == Part.Kind.TEXT]
    attached = [part for part in parts if part.kind == Part.Kind.FILE]
    words += [render_attachment(part.attachment) for part in attached]
    media = tuple(each for part in attached for each in files.list_media(part))
    return UserMessage(text="\n\n".join(words), media=media)


def _build_step_items(parts: list[Part], files: ModelFiles) -> Iterator[HistoryItem]:
    parts = sorted(parts, key=_build_sort_key)
    said = tuple(said for part in parts if (said := _build_part(part, files)) is not None)
    if said:
        yield AssistantMessage(parts=said)
    for part in parts:
        if part.tool_call is not None:
            yield replace(build_outcome(part.tool_call), media=files.list_media(part))
        elif part.kind == Part.Kind.COPIED_CALL:
            yield _build_copied_outcome(CopiedCall.read(part.copied_call))


def _build_sort_key(part: Part) -> tuple[int, bool, int]:
    """Return the position of the part in the model's answer: calls between texts, which pages
    show after them."""
    is_call = part.kind in (Part.Kind.TOOL_CALL, Part.Kind.COPIED_CALL)
    place = part.position if part.place is None else part.place
    return place, not is_call, part.position


def _build_part(part: Part, files: ModelFiles) -> AssistantPart | None:
    match part.kind:
        case Part.Kind.FILE if part.attachment.is_picture:
            return _build_picture(part, files)
        case Part.Kind.FILE:
            # Only an imported answer has another file.
            return SaidText(text=render_attachment(part.attachment))
        case Part.Kind.TEXT:
            return SaidText(text=part.text, opaque=part.opaque)
        case Part.Kind.REASONING:
            return SaidReasoning(text=part.text, opaque=part.opaque)
        case Part.Kind.TOOL_CALL if part.tool_call is not None:
            call = part.tool_call
            return AskedTool(
                call_id=call.provider_call_id,
                name=call.tool_id,
                arguments=read_asked_arguments(call),
                opaque=part.opaque,
            )
        case Part.Kind.COPIED_CALL:
            copied = CopiedCall.read(part.copied_call)
            return AskedTool(
                call_id=copied.call_id,
                name=copied.tool_id,
                arguments=copied.arguments,
                opaque=part.opaque,
            )
        case _:
            return None


def _build_picture(part: Part, files: ModelFiles) -> SaidText:
    """Return a picture that the model made. Without its bytes it is named only."""
    description = f": {part.text}" if part.text else ""
    text = f"[You made this picture, which the person sees: {part.attachment.name}{description}]"
    media = next((each for each in files.list_media(part) if each.base64), None)
    return SaidText(text=text, opaque=part.opaque if media else None, picture=media)


def read_asked_arguments(call: ToolCall) -> str:
    """Return the arguments that the model asked for. The outcome tells it what a person changed."""
    asked = call.asked_arguments or call.arguments
    return asked if _is_object(asked) else "{}"


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


def build_outcome(call: ToolCall) -> ToolOutcome:
    """Return the outcome of `call` as the model reads it."""
    text, is_error = describe_outcome(call)
    if call.asked_arguments:
        text = _add_change(text, call.arguments)
    return ToolOutcome(
        call_id=call.provider_call_id,
        name=call.tool_id,
        text=cut_to_limit(text),
        is_error=is_error,
    )


def _build_copied_outcome(copied: CopiedCall) -> ToolOutcome:
    text = copied.outcome
    if copied.changed_arguments:
        text = _add_change(text, copied.changed_arguments)
    return ToolOutcome(
        call_id=copied.call_id,
        name=copied.tool_id,
        text=cut_to_limit(text),
        is_error=copied.is_error,
    )


def _add_change(text: str, arguments: str) -> str:
    return f"[The person changed the values before it ran, to: {arguments}]\n{text}"


def describe_outcome(call: ToolCall) -> tuple[str, bool]:
    """Return the outcome as the model reads it, and whether it is an error."""
    if not is_visible_to_model(call):
        return describe_withheld(call), call.state == State.FAILED
    match call.state:
        case State.SUCCEEDED if call.resolution == "worked":
            return "A person checked: it worked. The result itself was lost.", False
        case State.FAILED if call.resolution == "did-not":
            return "A person checked: it did not take effect.", True
        case State.SUCCEEDED:
            return render_result(call) or "Done. The tool returned nothing.", False
        case State.FAILED:
            return render_failure(call), True
        case State.DENIED:
            return _describe_denial(call), True
        case State.EXPIRED | State.WITHDRAWN if call.error:
            return f"Not run. {render_failure(call)}", True
        case State.UNKNOWN:
            return _describe_unknown(call), True
        case State.CANCELLED if call.may_have_run:
            return _describe_cancelled(call), True
        case State.REFUSED:
            return f"Refused by policy: {call.why}", True
        case _:
            return SENTENCES.get(State(call.state), "Not run."), True


def _describe_unknown(call: ToolCall) -> str:
    came = (call.error or {}).get("message") or NO_ANSWER
    return (
        f"The outcome is unknown. {came} It may or may not have taken effect. Do not assume "
        "either, and do not repeat it without asking."
    )


def _describe_cancelled(call: ToolCall) -> str:
    """Describe a call that was cancelled after it was sent: a long task of its service."""
    came = (call.error or {}).get("message") or "It was cancelled while it ran."
    return (
        f"Cancelled, but not before it was sent: it ran for a while. {came} It may have taken "
        "effect, wholly or in part. Do not assume either, and do not repeat it without asking."
    )


def _describe_denial(call: ToolCall) -> str:
    approval = getattr(call, "approval", None)
    word = approval.reason if approval is not None else ""
    return f"Denied by the person. They said: {word}" if word else "Denied by the person."


def render_failure(call: ToolCall) -> str:
    """Return a failed call as text: the tool's own error, or why it could not be used."""
    error = call.error or {}
    sentence = " ".join(filter(None, [error.get("message"), error.get("hint")]))
    return sentence or render_result(call) or "The tool failed without saying why."


def render_result(call: ToolCall) -> str:
    """Return the result as text: its text blocks, a placeholder for other blocks, otherwise the
    structured value."""
    texts = [_render_block(block) for block in call.content]
    if not any(texts) and call.result and call.result.get("structured") is not None:
        return json.dumps(call.result["structured"], ensure_ascii=False)
    return "\n\n".join(filter(None, texts))


def _render_block(block: dict[str, Any]) -> str:
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
