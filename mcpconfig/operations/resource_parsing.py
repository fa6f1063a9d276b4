"""Resources, prompts and completions of services: parsed within limits. A value that identifies
something (a URI, a name) is kept whole or left out, never cut."""

import base64
import binascii
import re
from collections.abc import Callable
from typing import TypeVar

import mcp_types as types
from django.utils.translation import gettext as _

from mcpconfig.values.errors import OperationError
from mcpconfig.values.limits import LIMITS
from mcpconfig.values.results import (
    Completion,
    Prompt,
    PromptArgument,
    PromptMessage,
    PromptResult,
    Resource,
    ResourceContents,
    ResourcePart,
    ResourceTemplate,
    make_storable,
)

from .tool_parsing import is_within_limits, limit_blocks

Offered = TypeVar("Offered")
Parsed = TypeVar("Parsed")

_UNSENDABLE = re.compile(r"[\x00-\x20\x7f-\x9f\ud800-\udfff]")


def is_sendable(uri: str) -> bool:
    """Whether this can be sent as a URI, or as the name of one."""
    return 0 < len(uri) <= LIMITS.uri_characters and not _UNSENDABLE.search(uri)


def parse_resources(listed: list[types.Resource]) -> list[Resource]:
    return _parse_unique(listed, lambda offered: offered.uri, is_sendable, _parse_resource)


def parse_templates(listed: list[types.ResourceTemplate]) -> list[ResourceTemplate]:
    return _parse_unique(listed, lambda offered: offered.uri_template, is_sendable, _parse_template)


def parse_prompts(listed: list[types.Prompt]) -> list[Prompt]:
    return _parse_unique(listed, lambda offered: offered.name, _is_name, _parse_prompt)


def _parse_unique(
    listed: list[Offered],
    get_key: Callable[[Offered], str],
    is_usable: Callable[[str], bool],
    take: Callable[[Offered], Parsed],
) -> list[Parsed]:
    """Return the usable entries by their key; the first of two with the same key counts."""
    found: dict[str, Parsed] = {}
    for offered in listed:
        key = get_key(offered)
        if key not in found and is_usable(key):
            found[key] = take(offered)
    return list(found.values())


def _parse_resource(offered: types.Resource) -> Resource:
    return Resource(
        uri=offered.uri,
        name=_shorten(offered.name),
        title=_shorten(offered.title),
        description=_shorten_description(offered.description),
        mime_type=_shorten(offered.mime_type),
        size=offered.size,
    )


def _parse_template(offered: types.ResourceTemplate) -> ResourceTemplate:
    return ResourceTemplate(
        uri_template=offered.uri_template,
        name=_shorten(offered.name),
        title=_shorten(offered.title),
        description=_shorten_description(offered.description),
        mime_type=_shorten(offered.mime_type),
    )


def _parse_prompt(offered: types.Prompt) -> Prompt:
    return Prompt(
        name=offered.name,
        title=_shorten(offered.title),
        description=_shorten_description(offered.description),
        arguments=_parse_arguments(offered.arguments or []),
    )


def _parse_arguments(listed: list[types.PromptArgument]) -> tuple[PromptArgument, ...]:
    return tuple(
        PromptArgument(
            name=offered.name,
            title=_shorten(offered.title),
            description=_shorten_description(offered.description),
            is_required=bool(offered.required),
        )
        for offered in listed[: LIMITS.prompt_arguments]
        if _is_name(offered.name)
    )


def parse_contents(answer: types.ReadResourceResult) -> ResourceContents:
    """Return the parts that fit. A text is cut at the limit; bytes are useless in part."""
    room = LIMITS.resource_bytes
    parts: list[ResourcePart] = []
    was_cut = len(answer.contents) > LIMITS.result_blocks
    for offered in answer.contents[: LIMITS.result_blocks]:
        is_text = isinstance(offered, types.TextResourceContents)
        whole = _decode_bytes(offered)
        data = whole[:room]
        was_cut = was_cut or len(data) < len(whole)
        if is_text or len(data) == len(whole):
            room -= len(data)
            parts.append(_build_part(offered, data))
    return ResourceContents(parts=tuple(parts), was_cut=was_cut)


def _build_part(
    offered: types.TextResourceContents | types.BlobResourceContents, data: bytes
) -> ResourcePart:
    is_text = isinstance(offered, types.TextResourceContents)
    meta = dict(offered.meta) if offered.meta and is_within_limits(offered.meta) else None
    return ResourcePart(
        uri=_shorten(offered.uri, LIMITS.uri_characters),
        mime_type=_shorten(offered.mime_type),
        text=data.decode("utf-8", "ignore") if is_text else None,
        blob=None if is_text else data,
        meta=make_storable(meta),
    )


def _decode_bytes(offered: types.TextResourceContents | types.BlobResourceContents) -> bytes:
    if isinstance(offered, types.TextResourceContents):
        return str(make_storable(offered.text)).encode()
    try:
        return base64.b64decode(offered.blob, validate=True)
    except (binascii.Error, ValueError) as error:
        raise OperationError(
            kind="protocol",
            message=_("The service sent bytes that can’t be decoded."),
            hint=_("Report it to the service’s operator. The trace shows the response."),
            is_definite=True,
        ) from error


def parse_prompt_result(answer: types.GetPromptResult) -> PromptResult:
    versions, was_cut = limit_blocks(
        [
            message.content.model_dump(by_alias=True, mode="json", exclude_none=True)
            for message in answer.messages
        ]
    )
    return PromptResult(
        description=_shorten_description(answer.description),
        messages=tuple(
            PromptMessage(role=message.role, content=version)
            for message, version in zip(answer.messages, versions, strict=False)
            if version is not None
        ),
        was_cut=was_cut,
    )


def parse_completion(completion: types.Completion) -> Completion:
    """The SDK refuses more than the hundred values that the protocol allows."""
    values = [value for value in completion.values if len(value) <= LIMITS.uri_characters]
    return Completion(
        values=tuple(str(make_storable(value)) for value in values),
        total=completion.total,
        has_more=bool(completion.has_more) or len(values) < len(completion.values),
    )


def _is_name(name: str) -> bool:
    return 0 < len(name) <= 255 and make_storable(name) == name


def _shorten(text: str | None, characters: int = 255) -> str:
    return str(make_storable((text or "")[:characters]))


def _shorten_description(text: str | None) -> str:
    return _shorten(text, LIMITS.description_characters)
