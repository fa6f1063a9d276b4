"""A filled-in prompt as a message: its words as text, what it embeds as attachments."""

import base64
import binascii
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from mcpconfig.results import PromptMessage, PromptResult, ResourceContents, ResourcePart


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """Something that a prompt brings along."""

    uri: str
    name: str
    contents: ResourceContents


def text_of(prompt: PromptResult) -> str:
    """The user's messages as they are, the assistant's quoted, links by their address."""
    return "\n\n".join(filter(None, map(_said, prompt.messages)))


def files_of(prompt: PromptResult, name: str) -> list[File]:
    """The embedded resources, pictures and sounds, in order."""
    found = (_part(message.content) for message in prompt.messages)
    return [
        File(
            uri=part.uri or f"prompt:{name}",
            name=part.uri or f"{part.mime_type or 'file'} of {name}",
            contents=ResourceContents(parts=(part,)),
        )
        for part in found
        if part is not None
    ]


def _said(message: PromptMessage) -> str:
    content = message.content
    match content.get("type"):
        case "text":
            text = str(content.get("text", "")).strip()
        case "resource_link":
            text = " ".join(_facts(content))
        case _:
            return ""
    return text if message.role == "user" else "\n".join(f"> {line}" for line in text.split("\n"))


def _facts(link: dict[str, Any]) -> Iterator[str]:
    yield str(link.get("title") or link.get("name") or "Resource")
    yield f"({link.get('uri', '')})"


def _part(content: dict[str, Any]) -> ResourcePart | None:
    resource = content.get("resource") if content.get("type") == "resource" else content
    if not isinstance(resource, dict) or content.get("type") in ("text", "resource_link"):
        return None
    text = resource.get("text")
    blob = None if text is not None else _decoded(resource.get("blob") or resource.get("data"))
    if text is None and blob is None:
        return None
    return ResourcePart(
        uri=str(resource.get("uri") or ""),
        mime_type=str(resource.get("mimeType") or ""),
        text=text,
        blob=blob,
    )


def _decoded(data: Any) -> bytes | None:
    try:
        return base64.b64decode(str(data or ""), validate=True) or None
    except (binascii.Error, ValueError):
        return None
