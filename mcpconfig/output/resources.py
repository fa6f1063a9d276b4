"""The output of resources, templates, prompts and completion."""

import base64
from dataclasses import asdict

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from mcpconfig.values.results import (
    Completion,
    Prompt,
    PromptResult,
    Resource,
    ResourceContents,
    ResourcePart,
    ResourceTemplate,
)
from mcpconfig.values.uri_templates import list_variables

from .services import Json, format_block

TRUNCATED = gettext_lazy("[The rest is too large and was dropped.]")


def build_resource_value(resource: Resource) -> Json:
    return {
        "uri": resource.uri,
        "name": resource.name,
        "title": resource.title,
        "description": resource.description,
        "mimeType": resource.mime_type,
        "size": resource.size,
    }


def format_resource(resource: Resource) -> str:
    return f"{resource.uri:<48} {resource.title or resource.name}"


def build_template_value(template: ResourceTemplate) -> Json:
    return {
        "uriTemplate": template.uri_template,
        "name": template.name,
        "title": template.title,
        "description": template.description,
        "mimeType": template.mime_type,
        "variables": list_variables(template.uri_template),
    }


def format_template(template: ResourceTemplate) -> str:
    return f"{template.uri_template:<48} {template.title or template.name}"


def build_prompt_value(prompt: Prompt) -> Json:
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


def format_prompt(prompt: Prompt) -> str:
    names = [
        argument.name if argument.is_required else f"[{argument.name}]"
        for argument in prompt.arguments
    ]
    summary = prompt.description.strip().split("\n", 1)[0][:70]
    return f"{' '.join([prompt.name, *names]):<48} {summary or prompt.title}"


def build_contents_value(contents: ResourceContents) -> Json:
    return {
        "contents": [_build_part_value(part) for part in contents.parts],
        "was_cut": contents.was_cut,
    }


def _build_part_value(part: ResourcePart) -> Json:
    value: Json = {"uri": part.uri, "mimeType": part.mime_type}
    if part.blob is not None:
        return {**value, "blob": base64.b64encode(part.blob).decode()}
    return {**value, "text": part.text}


def format_contents(contents: ResourceContents) -> list[str]:
    lines = [_format_part(part) for part in contents.parts]
    return [*lines, str(TRUNCATED)] if contents.was_cut else lines


def _format_part(part: ResourcePart) -> str:
    if part.blob is not None:
        return _("[%(type)s, %(size)s bytes: %(uri)s]") % {
            "type": part.mime_type or "bytes",
            "size": len(part.blob),
            "uri": part.uri,
        }
    return part.text or ""


def build_prompt_result_value(filled: PromptResult) -> Json:
    return {
        "description": filled.description,
        "messages": [asdict(message) for message in filled.messages],
        "was_cut": filled.was_cut,
    }


def format_prompt_result(filled: PromptResult) -> list[str]:
    lines = [f"{message.role}: {format_block(message.content)}" for message in filled.messages]
    return [*lines, str(TRUNCATED)] if filled.was_cut else lines


def build_completion_value(completion: Completion) -> Json:
    return {
        "values": list(completion.values),
        "total": completion.total,
        "has_more": completion.has_more,
    }


def format_completion(completion: Completion) -> list[str]:
    lines = list(completion.values) or [_("No suggestions.")]
    return [*lines, "…"] if completion.has_more else lines
