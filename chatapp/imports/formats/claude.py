"""Exports of Claude: `conversations.json`, a list of chats, each with `chat_messages` in order.
Newer exports name the message before each one."""

from collections import Counter
from typing import Any

from chatapp.imports.citations import Source, write_sources
from chatapp.imports.fields import (
    read_arguments,
    read_id,
    read_object,
    read_objects,
    read_text,
    read_time,
    write_json,
)
from chatapp.imports.values import (
    Call,
    Loss,
    Node,
    Piece,
    Reasoning,
    Recording,
    Result,
    Side,
    SourceChat,
    SourceFile,
    Text,
    TextFile,
)

NAME = "Claude"
SIDES: dict[str, Side] = {"human": "user", "assistant": "assistant"}
# The parent of a first message.
NO_PARENT = "00000000-0000-4000-8000-000000000000"


def is_chat(raw: dict[str, Any]) -> bool:
    return isinstance(raw.get("chat_messages"), list)


def read_chat(raw: dict[str, Any]) -> SourceChat:
    losses: Counter[Loss] = Counter()
    nodes: list[Node] = []
    for number, message in enumerate(read_objects(raw["chat_messages"])):
        before = nodes[-1].id if nodes else ""
        named = read_text(message.get("parent_message_uuid"))
        side = SIDES.get(read_text(message.get("sender")))
        losses[Loss.UNKNOWN] += side is None
        node = Node(
            id=read_text(message.get("uuid")) or f"message {number}",
            parent="" if named == NO_PARENT else named or before,
            side=side,
            pieces=tuple(_read_pieces(message, losses)) if side else (),
            created_at=read_time(message.get("created_at")),
        )
        nodes.append(node)
    return SourceChat(
        origin_id=read_id(raw.get("uuid")),
        title=read_text(raw.get("name")),
        created_at=read_time(raw.get("created_at")),
        active_at=read_time(raw.get("updated_at")),
        nodes=tuple(nodes),
        shown=read_text(raw.get("current_leaf_message_uuid")),
        losses=losses,
    )


def _read_pieces(message: dict[str, Any], losses: Counter[Loss]) -> list[Piece]:
    content = read_objects(message.get("content"))
    pieces = [piece for block in content for piece in _read_block(block, losses)]
    # Older exports have the whole text beside an empty list.
    if not pieces and (text := read_text(message.get("text"))):
        pieces.append(Text(text=text))
    if sources := write_sources(each for block in content for each in _read_citations(block)):
        pieces.append(Text(text=sources))
    with_text = set()
    for each in read_objects(message.get("attachments")):
        name = read_text(each.get("file_name"))
        if text := read_text(each.get("extracted_content")):
            pieces.append(TextFile(name=name, text=text))
            with_text.add(name)
        else:
            pieces.append(SourceFile(what="file", name=name))
    for each in read_objects(message.get("files")):
        name = read_text(each.get("file_name"))
        if name not in with_text:
            is_picture = read_text(each.get("file_kind")) == "image" or _is_picture(name)
            pieces.append(SourceFile(what="picture" if is_picture else "file", name=name))
    return pieces


def _read_citations(block: dict[str, Any]) -> list[Source]:
    """Return the pages that a text cites."""
    found = []
    for each in read_objects(block.get("citations")):
        about = read_object(each.get("details"))
        title = read_text(each.get("title")) or read_text(about.get("title"))
        found.append((title, read_text(each.get("url")) or read_text(about.get("url"))))
    return [each for each in found if each[1]]


def _is_picture(name: str) -> bool:
    return name.lower().endswith((".png", ".jpg", ".jpeg", ".gif", ".webp"))


def _read_block(block: dict[str, Any], losses: Counter[Loss]) -> list[Piece]:
    text = read_text(block.get("text"))
    match block.get("type"):
        case "text":
            return [Text(text=text)] if text else []
        case "thinking":
            thought = read_text(block.get("thinking"))
            return [Reasoning(text=thought)] if thought else []
        case "tool_use":
            losses[Loss.CALLS] += 1
            return [
                Call(
                    tool=read_text(block.get("name")) or "tool",
                    arguments=read_arguments(block.get("input")),
                    key=read_text(block.get("id")),
                )
            ]
        case "tool_result":
            result = Result(
                tool=read_text(block.get("name")) or "tool",
                text=_read_result(block.get("content"), losses),
                is_error=block.get("is_error") is True,
                key=read_text(block.get("tool_use_id")),
            )
            return [result]
        case "image":
            source = read_object(block.get("source"))
            return [SourceFile(what="picture", encoded=read_text(source.get("data")))]
        case "voice_note":
            losses[Loss.VOICE] += 1
            return [Text(text=text)] if text else [Recording()]
        case "token_budget" | "flag" | "redacted_thinking":
            return []
    losses[Loss.UNKNOWN] += 1
    return [Text(text=text)] if text else []


def _read_result(content: Any, losses: Counter[Loss]) -> str:
    if isinstance(content, str):
        return content
    texts = []
    for each in read_objects(content):
        if each.get("type") == "image":
            losses[Loss.PICTURES] += 1
            texts.append("[image]")
        else:
            link = write_sources([(read_text(each.get("title")), read_text(each.get("url")))])
            text = read_text(each.get("text"))
            texts.append("\n\n".join(filter(None, [link, text])) if text else write_json(each))
    return "\n\n".join(texts)
