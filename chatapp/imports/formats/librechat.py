"""Exports of LibreChat: one chat in a file. Its messages are a list, in which each names the one
before it, or a tree of `children`."""

from collections import Counter
from typing import Any

from chatapp.imports.citations import Source, remove_marks, write_sources
from chatapp.imports.fields import (
    read_arguments,
    read_id,
    read_list,
    read_object,
    read_objects,
    read_text,
    read_time,
)
from chatapp.imports.packed_files import find_ids, make_path_key
from chatapp.imports.values import (
    Call,
    Loss,
    Node,
    Piece,
    Reasoning,
    Recording,
    SourceChat,
    SourceFile,
    Text,
)

NAME = "LibreChat"
# The parent of a first message.
NO_PARENT = "00000000-0000-0000-0000-000000000000"


def is_chat(raw: dict[str, Any]) -> bool:
    if isinstance(raw.get("messagesTree"), list):
        return True
    messages = read_objects(raw.get("messages"))
    return any("isCreatedByUser" in each or "parentMessageId" in each for each in messages)


def read_chat(raw: dict[str, Any]) -> SourceChat:
    losses: Counter[Loss] = Counter()
    nodes = _read_nodes(raw, losses)
    times = [each.created_at for each in nodes if each.created_at]
    options = read_object(raw.get("options"))
    losses[Loss.INSTRUCTIONS] += bool(read_text(options.get("promptPrefix")))
    return SourceChat(
        origin_id=read_id(raw.get("conversationId")),
        title=read_text(raw.get("title")),
        created_at=min(times, default=None),
        active_at=max(times, default=None),
        nodes=tuple(nodes),
        losses=losses,
    )


def _read_nodes(raw: dict[str, Any], losses: Counter[Loss]) -> list[Node]:
    """Return the messages, each after the one before it where they are a tree."""
    nodes: list[Node] = []
    rest: list[tuple[str, dict[str, Any]]] = [
        (read_text(each.get("parentMessageId")), each)
        for each in reversed(read_objects(raw.get("messagesTree") or raw.get("messages")))
    ]
    while rest:
        parent, message = rest.pop()
        node = _read_node(message, "" if parent == NO_PARENT else parent, len(nodes), losses)
        nodes.append(node)
        children = read_objects(message.get("children"))
        rest.extend((node.id, child) for child in reversed(children))
    return nodes


def _read_node(message: dict[str, Any], parent: str, number: int, losses: Counter[Loss]) -> Node:
    is_user = message.get("isCreatedByUser")
    if not isinstance(is_user, bool):
        is_user = read_text(message.get("sender")).casefold() == "user"
    return Node(
        id=read_text(message.get("messageId")) or f"message {number}",
        parent=parent,
        side="user" if is_user else "assistant",
        pieces=tuple(_read_pieces(message, losses)),
        created_at=read_time(message.get("createdAt")),
    )


def _read_pieces(message: dict[str, Any], losses: Counter[Loss]) -> list[Piece]:
    pieces = [
        piece
        for part in read_list(message.get("content"))
        for piece in _read_part(read_object(part), losses)
    ]
    if not pieces and (text := read_text(message.get("text"))):
        pieces.append(Text(text=text))
    attached = read_objects(message.get("attachments"))
    if not message.get("isCreatedByUser"):
        pieces = [_remove_marks(each) for each in pieces]
    if sources := write_sources(each for one in attached for each in _read_search(one)):
        pieces.append(Text(text=sources))
    # What a search found is attached as well, without a name.
    files = [*read_objects(message.get("files")), *attached]
    for each in (each for each in files if each.get("filename") or each.get("file_id")):
        is_picture = read_text(each.get("type")).startswith("image/")
        pieces.append(_read_file(each, is_picture=is_picture))
    return pieces


def _read_file(about: dict[str, Any], *, is_picture: bool) -> SourceFile:
    """Return a file: its bytes are in the chat, or beside it under its id or path."""
    places = [read_text(about.get(name)) for name in ("filepath", "url")]
    encoded = [each for each in places if each.startswith("data:")]
    path = "" if encoded else next(filter(None, places), "")
    return SourceFile(
        what="picture" if is_picture else "file",
        name=read_text(about.get("filename")),
        keys=(*find_ids(read_text(about.get("file_id"))), *make_path_key(path)),
        encoded=next(iter(encoded), read_text(about.get("base64"))),
    )


def _remove_marks(piece: Piece) -> Piece:
    return Text(text=remove_marks(piece.text)) if isinstance(piece, Text) else piece


def _read_search(attached: dict[str, Any]) -> list[Source]:
    """Return the pages that a web search found."""
    found = read_object(attached.get("web_search"))
    pages = [*read_objects(found.get("organic")), *read_objects(found.get("topStories"))]
    return [(read_text(each.get("title")), read_text(each.get("link"))) for each in pages]


def _read_part(part: dict[str, Any], losses: Counter[Loss]) -> list[Piece]:
    match part.get("type"):
        case "text":
            text = _read_value(part.get("text"))
            return [Text(text=text)] if text else []
        case "think":
            thought = _read_value(part.get("think"))
            return [Reasoning(text=thought)] if thought else []
        case "error":
            text = _read_value(part.get("error")) or _read_value(part.get("text"))
            return [Text(text=text)] if text else []
        case "tool_call":
            return [_read_call(read_object(part.get("tool_call")), losses)]
        case "image_file" | "image_url" as kind:
            return [_read_file(read_object(part.get(kind)), is_picture=True)]
        case "input_audio":
            losses[Loss.VOICE] += 1
            return [Recording()]
        case "agent_update":
            return []
    losses[Loss.UNKNOWN] += 1
    return []


def _read_value(value: Any) -> str:
    """Return a text that is in an object of its own in older files."""
    return read_text(value) or read_text(read_object(value).get("value"))


def _read_call(call: dict[str, Any], losses: Counter[Loss]) -> Call:
    losses[Loss.CALLS] += 1
    # Tools of OpenAI's assistants have their values in an object named as their type.
    inner = read_object(call.get("function"))
    output = call.get("output", inner.get("output"))
    return Call(
        tool=read_text(call.get("name")) or read_text(inner.get("name")) or "tool",
        arguments=read_arguments(call.get("args", inner.get("arguments"))),
        result=read_text(output) if output is not None else None,
        key=read_text(call.get("id")),
    )
