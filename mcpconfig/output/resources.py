"""What the reading verbs of the `mcp` command print, as JSON for programs and lines for people."""

import base64
from dataclasses import asdict

from .console import Json, block_line
from .results import (
    Completion,
    Prompt,
    PromptResult,
    Resource,
    ResourceContents,
    ResourcePart,
    ResourceTemplate,
)
from .uri_templates import variables

CUT = "[The rest was too large and is not kept.]"


def resource_value(resource: Resource) -> Json:
    return {
        "uri": resource.uri,
        "name": resource.name,
        "title": resource.title,
        "description": resource.description,
        "mimeType": resource.mime_type,
        "size": resource.size,
    }


def resource_line(resource: Resource) -> str:
    return f"{resource.uri:<48} {resource.title or resource.name}"


def template_value(template: ResourceTemplate) -> Json:
    return {
        "uriTemplate": template.uri_template,
        "name": template.name,
        "title": template.title,
        "description": template.description,
        "mimeType": template.mime_type,
        "variables": variables(template.uri_template),
    }


def template_line(template: ResourceTemplate) -> str:
    return f"{template.uri_template:<48} {template.title or template.name}"


def prompt_value(prompt: Prompt) -> Json:
    return {
        "name": prompt.name,
        "title": prompt.title,
        "description": prompt.description,
        "arguments": [
            {
                "name": argument.name,
                "title": argument.title,
                "description": argument.description,
                "required": argument.is_required,
            }
            for argument in prompt.arguments
        ],
    }


def prompt_line(prompt: Prompt) -> str:
    names = [
        argument.name if argument.is_required else f"[{argument.name}]"
        for argument in prompt.arguments
    ]
    first = prompt.description.strip().split("\n", 1)[0][:70]
    return f"{' '.join([prompt.name, *names]):<48} {first or prompt.title}"


def contents_value(contents: ResourceContents) -> Json:
    return {
        "contents": [_part_value(part) for part in contents.parts],
        "was_cut": contents.was_cut,
    }


def _part_value(part: ResourcePart) -> Json:
    value: Json = {"uri": part.uri, "mimeType": part.mime_type}
    if part.blob is not None:
        return {**value, "blob": base64.b64encode(part.blob).decode()}
    return {**value, "text": part.text}


def contents_lines(contents: ResourceContents) -> list[str]:
    lines = [_part_line(part) for part in contents.parts]
    return [*lines, CUT] if contents.was_cut else lines


def _part_line(part: ResourcePart) -> str:
    if part.blob is not None:
        return f"[{part.mime_type or 'bytes'}, {len(part.blob)} bytes: {part.uri}]"
    return part.text or ""


def filled_value(filled: PromptResult) -> Json:
    return {
        "description": filled.description,
        "messages": [asdict(message) for message in filled.messages],
        "was_cut": filled.was_cut,
    }


def filled_lines(filled: PromptResult) -> list[str]:
    lines = [f"{message.role}: {block_line(message.content)}" for message in filled.messages]
    return [*lines, CUT] if filled.was_cut else lines


def completion_value(completion: Completion) -> Json:
    return {
        "values": list(completion.values),
        "total": completion.total,
        "has_more": completion.has_more,
    }


def completion_lines(completion: Completion) -> list[str]:
    lines = list(completion.values) or ["No proposals."]
    return [*lines, "…"] if completion.has_more else lines
