"""Exports of Open WebUI: a list of chats, each with its messages as a tree in `history`. Thinking
and tool calls are HTML in the text of a message."""

import html
import json
import re
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
from chatapp.imports.packed_files import find_ids
from chatapp.imports.values import (
    Call,
    Loss,
    Node,
    Piece,
    Reasoning,
    Result,
    SourceChat,
    SourceFile,
    Text,
    TextFile,
    What,
)

NAME = "Open WebUI"
_BEGIN = re.compile(r'<details type="(reasoning|tool_calls|code_interpreter)"([^>]*)>')
_ATTRIBUTE = re.compile(r'([a-z_]+)="([^"]*)"')
_SUMMARY = re.compile(r"\s*<summary>[^<]*</summary>")
_END = "</details>"
# A picture in Markdown.
_PICTURE = re.compile(r"!\[([^\]\n]{0,200})\]\((data:image/[a-z+.-]+;base64,[A-Za-z0-9+/=]+)\)")


def is_chat(raw: dict[str, Any]) -> bool:
    chat = read_object(raw.get("chat"))
    has_messages = isinstance(chat.get("history"), dict) or isinstance(chat.get("messages"), list)
    # Its import takes such chats as well.
    return has_messages or isinstance(read_object(raw.get("history")).get("messages"), dict)


def read_chat(raw: dict[str, Any]) -> SourceChat:
    losses: Counter[Loss] = Counter()
    chat = read_object(raw.get("chat")) or raw
    history = read_object(chat.get("history"))
    messages = read_object(history.get("messages"))
    # Chats of older versions have a list only.
    listed = list(messages.items()) or [
        (read_id(each.get("id")) or f"message {number}", each)
        for number, each in enumerate(read_objects(chat.get("messages")))
    ]
    losses[Loss.INSTRUCTIONS] += bool(
        read_text(chat.get("system")) or read_text(read_object(chat.get("params")).get("system"))
    )
    nodes: list[Node] = []
    for key, value in listed:
        before = nodes[-1].id if nodes and not messages else ""
        nodes.append(_read_node(str(key), read_object(value), before, losses))
    return SourceChat(
        origin_id=read_id(raw.get("id")) or read_id(chat.get("id")),
        title=read_text(raw.get("title")) or read_text(chat.get("title")),
        created_at=read_time(raw.get("created_at")) or read_time(chat.get("timestamp")),
        active_at=read_time(raw.get("updated_at")),
        nodes=tuple(nodes),
        shown=read_text(history.get("currentId")),
        losses=losses,
    )


def _read_node(key: str, message: dict[str, Any], before: str, losses: Counter[Loss]) -> Node:
    role = message.get("role")
    parent = read_text(message.get("parentId")) or before
    if role not in ("user", "assistant"):
        losses[Loss.INSTRUCTIONS if role == "system" else Loss.UNKNOWN] += 1
        return Node(id=key, parent=parent, side=None)
    return Node(
        id=key,
        parent=parent,
        side="user" if role == "user" else "assistant",
        pieces=tuple(_read_pieces(message, str(role), losses)),
        created_at=read_time(message.get("timestamp")),
    )


def _read_pieces(message: dict[str, Any], role: str, losses: Counter[Loss]) -> list[Piece]:
    text = _read_text(message.get("content"))
    pieces: list[Piece] = []
    if role == "assistant":
        pieces = _read_answer(message, text, losses)
    else:
        _add_text(pieces, text)
    pieces += _read_pictures(message.get("content"))
    found = read_objects(message.get("sources") or message.get("citations"))
    if sources := write_sources(each for one in found for each in _read_sources(one)):
        pieces.append(Text(text=sources))
    if problem := read_text(read_object(message.get("error")).get("content")):
        pieces.append(Text(text=problem))
    for each in read_objects(message.get("files")):
        name = read_text(each.get("name"))
        inner = read_object(each.get("file"))
        if text := read_text(read_object(inner.get("data")).get("content")):
            pieces.append(TextFile(name=name or read_text(inner.get("filename")), text=text))
            continue
        is_picture = _is_picture(each)
        address = read_text(each.get("url")) or read_id(each.get("id"))
        pieces.append(_read_file("picture" if is_picture else "file", name, address))
    return pieces


def _is_picture(file: dict[str, Any]) -> bool:
    return file.get("type") == "image" or read_text(file.get("content_type")).startswith("image/")


def _read_file(what: What, name: str, address: str) -> SourceFile:
    """Return a file by its address: a data URI, or a path with the id of the file."""
    if address.startswith("data:"):
        return SourceFile(what=what, name=name, encoded=address)
    return SourceFile(what=what, name=name, keys=find_ids(address))


def _read_answer(message: dict[str, Any], text: str, losses: Counter[Loss]) -> list[Piece]:
    """Return the pieces of the newer `output`, unless its person has edited the text since."""
    lost: Counter[Loss] = Counter()
    output = read_objects(message.get("output"))
    pieces = [piece for item in output for piece in _read_output(item, lost)]
    texts = [each.text.strip() for each in pieces if isinstance(each, Text)]
    if pieces and (not text or all(each in text for each in texts)):
        losses.update(lost)
        return pieces
    return split_content(text, losses)


def _read_content(content: Any, losses: Counter[Loss]) -> str:
    """Return the text of a part of an answer, with a mark for each picture."""
    texts = []
    for each in read_objects(content):
        is_picture = each.get("type") == "image_url"
        losses[Loss.PICTURES] += is_picture
        texts.append("[Picture, not imported]" if is_picture else read_text(each.get("text")))
    return read_text(content) or "\n\n".join(filter(None, texts))


def _read_text(content: Any) -> str:
    """Return the text of a message without the pictures that its parts have."""
    texts = (read_text(each.get("text")) for each in read_objects(content))
    return read_text(content) or "\n\n".join(filter(None, texts))


def _read_pictures(content: Any) -> list[SourceFile]:
    parts = [each for each in read_objects(content) if each.get("type") == "image_url"]
    addresses = (read_object(each.get("image_url")).get("url") for each in parts)
    return [_read_file("picture", "", read_text(each)) for each in addresses]


def _read_sources(found: dict[str, Any]) -> list[Source]:
    """Return what an answer is based on: a page or a file."""
    about = read_object(found.get("source"))
    name = read_text(about.get("name"))
    pages = [read_text(each.get("source")) for each in read_objects(found.get("metadata"))]
    address = read_text(about.get("url")) or next(filter(None, pages), "")
    return [("" if name == address else name, address)]


def _read_output(item: dict[str, Any], losses: Counter[Loss]) -> list[Piece]:
    """Return an item of the newer list beside the text, which has it without HTML."""
    match item.get("type"):
        case "message":
            said: list[Piece] = []
            _add_text(said, _read_content(item.get("content"), losses))
            return said
        case "reasoning":
            text = _read_content(item.get("content") or item.get("summary"), losses)
            return [Reasoning(text=text)] if text.strip() else []
        case "function_call":
            losses[Loss.CALLS] += 1
            name, key = read_text(item.get("name")), read_text(item.get("call_id"))
            arguments = read_arguments(item.get("arguments"))
            return [Call(tool=name or "tool", arguments=arguments, key=key)]
        case "function_call_output":
            text = _read_content(item.get("output"), losses)
            is_error = item.get("status") == "failed"
            key = read_text(item.get("call_id"))
            return [Result(tool="tool", text=text, is_error=is_error, key=key)]
        case "open_webui:code_interpreter":
            losses[Loss.CALLS] += 1
            output = item.get("output")
            result = read_text(output) or (write_json(output) if output else None)
            code = read_arguments({"code": read_text(item.get("code"))})
            return [Call(tool="code_interpreter", arguments=code, result=result)]
    losses[Loss.UNKNOWN] += 1
    return []


def split_content(content: str, losses: Counter[Loss]) -> list[Piece]:
    """Return the text of an answer, with its thinking and calls as pieces of their own."""
    pieces: list[Piece] = []
    place = 0
    while found := _BEGIN.search(content, place):
        end = content.find(_END, found.end())
        if end < 0:
            break
        _add_text(pieces, content[place : found.start()])
        inside = _SUMMARY.sub("", content[found.end() : end], count=1).strip()
        given = {name: html.unescape(value) for name, value in _ATTRIBUTE.findall(found[2])}
        pieces += _read_details(found[1], given, inside, losses)
        place = end + len(_END)
    _add_text(pieces, content[place:])
    return pieces


def _add_text(pieces: list[Piece], text: str) -> None:
    """Add a text and the pictures that are in it as data URIs."""
    place = 0
    for found in _PICTURE.finditer(text):
        _add_words(pieces, text[place : found.start()])
        pieces.append(_read_file("picture", found[1], found[2]))
        place = found.end()
    _add_words(pieces, text[place:])


def _add_words(pieces: list[Piece], text: str) -> None:
    if text.strip():
        pieces.append(Text(text=text.strip("\n")))


def _read_details(
    kind: str, given: dict[str, str], inside: str, losses: Counter[Loss]
) -> list[Piece]:
    if kind == "reasoning":
        # Each line is quoted; newer versions escape the text.
        lines = html.unescape(inside).splitlines()
        thought = "\n".join(line.removeprefix(">").removeprefix(" ") for line in lines).strip()
        return [Reasoning(text=thought)] if thought else []
    losses[Loss.CALLS] += 1
    if kind == "code_interpreter":
        result = given.get("output")
        return [
            Call(tool="code_interpreter", arguments=read_arguments({"code": inside}), result=result)
        ]
    # Newer versions have the result between the tags.
    result = given.get("result") or html.unescape(inside)
    return [
        Call(
            tool=given.get("name") or "tool",
            arguments=read_arguments(_unwrap(given.get("arguments", ""))),
            result=_unwrap(result) if result else None,
            key=given.get("id", ""),
        )
    ]


def _unwrap(text: str) -> str:
    """Return a text that the file has as a JSON string."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return value if isinstance(value, str) else text
