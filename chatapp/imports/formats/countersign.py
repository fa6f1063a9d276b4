"""Countersign's own export in JSON, as `docs/export.md` describes it."""

from collections import Counter
from typing import Any

from chatapp.imports.citations import write_sources
from chatapp.imports.fields import (
    read_arguments,
    read_id,
    read_object,
    read_objects,
    read_text,
    read_time,
)
from chatapp.imports.packed_files import find_ids
from chatapp.imports.values import (
    Call,
    Loss,
    Node,
    Piece,
    Reasoning,
    SourceChat,
    SourceFile,
    Text,
    UnreadableChat,
)
from chatapp.rendering.exports.json_file import FORMAT, VERSION

NAME = "Countersign"


def is_chat(raw: dict[str, Any]) -> bool:
    return raw.get("format") == FORMAT


def read_chat(raw: dict[str, Any]) -> SourceChat:
    if raw.get("version") != VERSION:
        raise UnreadableChat("version")
    losses: Counter[Loss] = Counter()
    chat = read_object(raw.get("chat"))
    messages = read_objects(raw.get("messages"))
    nodes = [_read_node(each, number, losses) for number, each in enumerate(messages)]
    shown = [
        node.id for node, each in zip(nodes, messages, strict=True) if each.get("is_shown") is True
    ]
    return SourceChat(
        origin_id=read_id(chat.get("id")),
        title=read_text(chat.get("title")),
        created_at=read_time(chat.get("created_at")),
        active_at=read_time(chat.get("active_at")),
        nodes=tuple(nodes),
        shown=shown[-1] if shown else "",
        losses=losses,
    )


def _read_node(message: dict[str, Any], number: int, losses: Counter[Loss]) -> Node:
    role = message.get("role")
    is_known = role in ("user", "assistant")
    losses[Loss.UNKNOWN] += not is_known
    losses[Loss.INSTRUCTIONS] += bool(read_text(message.get("instructions")))
    pieces = [
        piece for part in read_objects(message.get("parts")) for piece in _read_part(part, losses)
    ]
    return Node(
        id=read_text(message.get("id")) or f"message {number}",
        parent=read_text(message.get("parent")),
        side=("user" if role == "user" else "assistant") if is_known else None,
        pieces=tuple(pieces),
        created_at=read_time(message.get("created_at")),
    )


def _read_part(part: dict[str, Any], losses: Counter[Loss]) -> list[Piece]:
    text = read_text(part.get("text"))
    match part.get("kind"):
        case "text":
            return [Text(text=text)] if text else []
        case "reasoning":
            return [Reasoning(text=text)] if text else []
        case "file":
            is_picture = read_text(part.get("media_type")).startswith("image/")
            # The archive of a person's data has the files in folders with their ids.
            file = SourceFile(
                what="picture" if is_picture else "file",
                name=read_text(part.get("name")),
                keys=find_ids(read_text(part.get("url"))),
            )
            return [file]
        case "tool_call":
            losses[Loss.CALLS] += 1
            return [_read_call(part)]
        case "sources":
            sources = read_objects(part.get("sources"))
            found = write_sources(
                (read_text(each.get("title")), read_text(each.get("url"))) for each in sources
            )
            return [Text(text=found)] if found else []
        case "notice":
            # A summary is about messages that are in the file.
            return []
    losses[Loss.UNKNOWN] += 1
    return []


def _read_call(part: dict[str, Any]) -> Call:
    state = read_text(part.get("state"))
    pieces = read_objects(part.get("result"))
    texts = [read_text(each.get("text")) or read_text(each.get("about")) for each in pieces]
    result = "\n\n".join(filter(None, [*texts, read_text(part.get("error"))]))
    if not result and state in ("denied", "refused", "expired", "withdrawn", "cancelled"):
        result = f"Not run: {state}."
    return Call(
        tool=read_text(part.get("tool")) or "tool",
        arguments=read_arguments(part.get("arguments")),
        result=result or None,
        is_error=state not in ("", "succeeded"),
        key=read_text(part.get("id")),
    )
