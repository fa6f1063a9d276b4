"""A chat as JSON. `docs/export.md` describes the format; a change that breaks a reader of it raises
VERSION."""

import json
from datetime import UTC, datetime
from typing import Any, assert_never

from .values import (
    CallPart,
    Decision,
    ExportedChat,
    ExportedMessage,
    ExportedPart,
    FilePart,
    NoticePart,
    Piece,
    ReasoningPart,
    SourcesPart,
    TextPart,
)

FORMAT, VERSION = "countersign-chat", 1


def write_json(chat: ExportedChat) -> str:
    document = {
        "format": FORMAT,
        "version": VERSION,
        "exported_at": _format_time(chat.exported_at),
        "tool_calls": chat.detail.value,
        "chat": {
            "id": str(chat.id),
            "title": chat.title,
            "owner": chat.owner,
            "project": chat.project,
            "created_at": _format_time(chat.created_at),
            "active_at": _format_time(chat.active_at),
            "parameters": {
                "reasoning": chat.parameters.effort or None,
                "temperature": chat.parameters.temperature,
                "output_tokens": chat.parameters.output_tokens,
            },
        },
        "messages": [_build_message(each, chat.address) for each in chat.messages],
    }
    return json.dumps(document, ensure_ascii=False, indent=1) + "\n"


def _format_time(time: datetime | None) -> str | None:
    return time.astimezone(UTC).isoformat().replace("+00:00", "Z") if time else None


def _build_message(message: ExportedMessage, address: str) -> dict[str, Any]:
    built: dict[str, Any] = {
        "id": str(message.id),
        "parent": str(message.parent) if message.parent else None,
        "is_shown": message.is_shown,
        "role": message.role,
        "created_at": _format_time(message.created_at),
        "is_of_program": message.is_of_program,
    }
    if message.turn is not None:
        built |= {"model": message.turn.model, "state": message.turn.state}
    if message.instructions:
        built["instructions"] = message.instructions
    return built | {"parts": [_build_part(each, address) for each in message.parts]}


def _build_part(part: ExportedPart, address: str) -> dict[str, Any]:
    match part:
        case TextPart():
            return {"kind": "text", "text": part.text}
        case ReasoningPart():
            return {"kind": "reasoning", "text": part.text, "seconds": part.seconds}
        case FilePart():
            return {
                "kind": "file",
                "name": part.name,
                "origin": part.origin,
                "media_type": part.media_type,
                "bytes": part.size,
                "url": address + part.path,
                "description": part.description,
            }
        case SourcesPart():
            sources = [{"url": url, "title": title} for url, title in part.sources]
            return {"kind": "sources", "sources": sources}
        case NoticePart():
            return {
                "kind": "notice",
                "notice": part.kind,
                "text": part.text,
                "hint": part.hint,
                "summary": part.summary,
            }
        case CallPart():
            return {"kind": "tool_call", **_build_call(part, address)}
        case _:
            assert_never(part)


def _build_call(call: CallPart, address: str) -> dict[str, Any]:
    built: dict[str, Any] = {
        "id": call.id,
        "tool": call.tool_id,
        "title": call.title,
        "service": call.service,
        "state": call.state,
        "approval": _build_decision(call.approval),
        "policy_reason": call.policy_reason,
        "review": _build_decision(call.review),
        "resolution": call.resolution or None,
        "sent_at": _format_time(call.sent_at),
        "finished_at": _format_time(call.finished_at),
    }
    if call.values is None:
        return built
    return built | {
        "arguments": _parse_arguments(call.values.arguments),
        "result": [_build_piece(each, address) for each in call.values.pieces],
        "error": call.values.error,
    }


def _build_decision(decision: Decision | None) -> dict[str, Any] | None:
    if decision is None:
        return None
    return {
        "state": decision.outcome,
        "by": decision.by or None,
        "at": _format_time(decision.at),
        "reason": decision.reason,
    }


def _parse_arguments(arguments: str) -> Any:
    """Return the arguments as an object, or as text if they are not a JSON object."""
    try:
        value = json.loads(arguments or "{}")
    except (ValueError, RecursionError):
        return arguments
    return value if isinstance(value, dict) else arguments


def _build_piece(piece: Piece, address: str) -> dict[str, Any]:
    if piece.kind in ("text", "json"):
        return {
            "kind": piece.kind,
            "label": piece.label,
            "text": piece.text,
            "left_out_characters": piece.left_out,
        }
    url = address + piece.path if piece.path else None
    return {"kind": piece.kind, "label": piece.label, "about": piece.about, "url": url}
