"""Exports of ChatGPT: `conversations.json`, a list of chats, each with its messages as a tree in
`mapping`. Newer exports split it into `conversations-000.json` and so on."""

from collections import Counter
from dataclasses import replace
from typing import Any

from chatapp.imports.citations import resolve_marks
from chatapp.imports.fields import (
    read_arguments,
    read_id,
    read_list,
    read_object,
    read_objects,
    read_text,
    read_time,
    write_json,
)
from chatapp.imports.packed_files import find_ids
from chatapp.imports.values import (
    Call,
    Loss,
    Node,
    Piece,
    Reasoning,
    Recording,
    Result,
    SourceChat,
    SourceFile,
    Text,
    TextFile,
    What,
)

NAME = "ChatGPT"
# What the program keeps for itself beside the messages.
INTERNAL = ("model_editable_context", "reasoning_recap", "app_pairing_content")
PICTURES = ("image_asset_pointer", "video_container_asset_pointer")
VOICE = ("audio_asset_pointer", "real_time_user_audio_video_asset_pointer")


def is_chat(raw: dict[str, Any]) -> bool:
    return isinstance(raw.get("mapping"), dict)


def read_chat(raw: dict[str, Any]) -> SourceChat:
    losses: Counter[Loss] = Counter()
    nodes = [
        _read_node(str(key), read_object(value), losses) for key, value in raw["mapping"].items()
    ]
    return SourceChat(
        origin_id=read_id(raw.get("conversation_id")) or read_id(raw.get("id")),
        title=read_text(raw.get("title")),
        created_at=read_time(raw.get("create_time")),
        active_at=read_time(raw.get("update_time")),
        nodes=tuple(nodes),
        shown=read_text(raw.get("current_node")),
        losses=losses,
    )


def _read_node(key: str, node: dict[str, Any], losses: Counter[Loss]) -> Node:
    message = read_object(node.get("message"))
    parent = read_text(node.get("parent"))
    role = read_object(message.get("author")).get("role")
    hidden = Node(id=key, parent=parent, side=None)
    about = read_object(message.get("metadata"))
    content = read_object(message.get("content"))
    if content.get("content_type") == "user_editable_context":
        given = (content.get("user_profile"), content.get("user_instructions"))
        losses[Loss.INSTRUCTIONS] += any(map(read_text, given))
        return hidden
    if not message or about.get("is_visually_hidden_from_conversation"):
        return hidden
    if role == "system":
        losses[Loss.INSTRUCTIONS] += bool(_read_parts(message, Counter()))
        return hidden
    if role not in ("user", "assistant", "tool"):
        losses[Loss.UNKNOWN] += 1
        return hidden
    pieces = _read_message(message, str(role), losses)
    if role == "user":
        pieces = _add_attachments(pieces, about)
    if role == "assistant":
        pieces = [_resolve_marks(each, about) for each in pieces]
    return Node(
        id=key,
        parent=parent,
        side="user" if role == "user" else "assistant",
        pieces=tuple(pieces),
        created_at=read_time(message.get("create_time")),
    )


def _read_message(message: dict[str, Any], role: str, losses: Counter[Loss]) -> list[Piece]:
    content = read_object(message.get("content"))
    kind = read_text(content.get("content_type"))
    recipient = read_text(message.get("recipient"))
    if role == "tool":
        return _read_result(message, losses)
    if role == "assistant" and recipient not in ("", "all"):
        given = read_text(content.get("text")) or _join(_read_parts(message, losses))
        losses[Loss.CALLS] += 1
        return [Call(tool=recipient, arguments=read_arguments(given))]
    if kind in INTERNAL:
        return []
    if kind == "thoughts":
        thoughts = read_objects(content.get("thoughts"))
        said = "\n\n".join(filter(None, map(_write_thought, thoughts)))
        return [Reasoning(text=said)] if said else []
    if kind == "code":
        language = read_text(content.get("language"))
        code = read_text(content.get("text"))
        fenced = f"```{'' if language == 'unknown' else language}\n{code}\n```"
        return [Text(text=fenced)] if code else []
    return _read_parts(message, losses)


def _resolve_marks(piece: Piece, about: dict[str, Any]) -> Piece:
    return Text(text=resolve_marks(piece.text, about)) if isinstance(piece, Text) else piece


def _write_thought(thought: dict[str, Any]) -> str:
    summary, content = read_text(thought.get("summary")), read_text(thought.get("content"))
    return f"**{summary}**\n\n{content}".strip() if summary else content


def _read_result(message: dict[str, Any], losses: Counter[Loss]) -> list[Piece]:
    pieces = _read_parts(message, losses)
    left = [each for each in pieces if isinstance(each, SourceFile | Recording)]
    text = _join(pieces)
    name = read_text(read_object(message.get("author")).get("name")) or "tool"
    is_error = read_object(message.get("content")).get("content_type") == "system_error"
    if not text and not left:
        return []
    return [Result(tool=name, text=text, is_error=is_error), *left]


def _read_parts(message: dict[str, Any], losses: Counter[Loss]) -> list[Piece]:
    content = read_object(message.get("content"))
    pieces = [
        piece for part in read_list(content.get("parts")) for piece in _read_part(part, losses)
    ]
    whole = read_text(content.get("text")) or read_text(content.get("result"))
    if not pieces and whole:
        return [Text(text=whole)]
    known = {"content_type", "parts", "text", "result"}
    if not pieces and "parts" not in content and set(content) - known and not whole:
        losses[Loss.UNKNOWN] += 1
    return pieces


def _read_part(part: Any, losses: Counter[Loss]) -> list[Piece]:
    if isinstance(part, str):
        return [Text(text=part)] if part else []
    about = read_object(part)
    kind = about.get("content_type")
    if kind in PICTURES:
        return [SourceFile(what="picture", keys=find_ids(read_text(about.get("asset_pointer"))))]
    if kind in VOICE:
        losses[Loss.VOICE] += 1
        return [Recording()]
    if text := read_text(about.get("text")):
        return [Text(text=text)]
    losses[Loss.UNKNOWN] += 1
    return [Text(text=f"```json\n{write_json(part)}\n```")] if about else []


def _add_attachments(pieces: list[Piece], about: dict[str, Any]) -> list[Piece]:
    """Return the pieces of a message with its files. Pictures are parts of it already, but only the
    list of files has their names."""
    attachments = read_objects(about.get("attachments"))
    listed = {read_text(each.get("id")): each for each in attachments}
    named = [_name_picture(each, listed) for each in pieces]
    shown = {key for each in named if isinstance(each, SourceFile) for key in each.keys}
    for each in attachments:
        name, keys = read_text(each.get("name")), find_ids(read_text(each.get("id")))
        kind = read_text(each.get("mime_type") or each.get("mimeType"))
        what: What = "picture" if kind.startswith("image/") else "file"
        # A picture without an id is one of the parts.
        is_shown = bool(shown.intersection(keys)) or (what == "picture" and not keys)
        if text := read_text(each.get("extracted_content")):
            named.append(TextFile(name=name, text=text))
        elif not is_shown:
            named.append(SourceFile(what=what, name=name, keys=keys))
    return named


def _name_picture(piece: Piece, listed: dict[str, dict[str, Any]]) -> Piece:
    if not isinstance(piece, SourceFile):
        return piece
    found = next((listed[key] for key in piece.keys if key in listed), {})
    return replace(piece, name=read_text(found.get("name")))


def _join(pieces: list[Piece]) -> str:
    return "\n\n".join(each.text for each in pieces if isinstance(each, Text))
