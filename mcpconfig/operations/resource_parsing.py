"""What is taken in of the resources, prompts and proposals that a service sends. What stands for
something at the service (a URI, a name, a value) is kept whole or left out, never cut."""

import base64
import binascii
import re
from collections.abc import Callable
from typing import TypeVar

import mcp_types as types

from .errors import OperationError
from .intake import fitted, is_modest
from .limits import LIMITS
from .results import (
    Completion,
    Prompt,
    PromptArgument,
    PromptMessage,
    PromptResult,
    Resource,
    ResourceContents,
    ResourcePart,
    ResourceTemplate,
    storable,
)

Offered = TypeVar("Offered")
Taken = TypeVar("Taken")

_UNSENDABLE = re.compile(r"[\x00-\x20\x7f-\x9f\ud800-\udfff]")


def is_sendable(uri: str) -> bool:
    """Whether this may be sent as a URI, or as the name of one."""
    return 0 < len(uri) <= LIMITS.uri_characters and not _UNSENDABLE.search(uri)


def resources(listed: list[types.Resource]) -> list[Resource]:
    return _first_of_each(listed, lambda offered: offered.uri, is_sendable, _resource)


def templates(listed: list[types.ResourceTemplate]) -> list[ResourceTemplate]:
    return _first_of_each(listed, lambda offered: offered.uri_template, is_sendable, _template)


def prompts(listed: list[types.Prompt]) -> list[Prompt]:
    return _first_of_each(listed, lambda offered: offered.name, _is_name, _prompt)


def _first_of_each(
    listed: list[Offered],
    identity: Callable[[Offered], str],
    is_usable: Callable[[str], bool],
    take: Callable[[Offered], Taken],
) -> list[Taken]:
    """What can be asked for by its identity; the first of two with the same one counts."""
    found: dict[str, Taken] = {}
    for offered in listed:
        key = identity(offered)
        if key not in found and is_usable(key):
            found[key] = take(offered)
    return list(found.values())


def _resource(offered: types.Resource) -> Resource:
    return Resource(
        uri=offered.uri,
        name=_short(offered.name),
        title=_short(offered.title),
        description=_long(offered.description),
        mime_type=_short(offered.mime_type),
        size=offered.size,
    )


def _template(offered: types.ResourceTemplate) -> ResourceTemplate:
    return ResourceTemplate(
        uri_template=offered.uri_template,
        name=_short(offered.name),
        title=_short(offered.title),
        description=_long(offered.description),
        mime_type=_short(offered.mime_type),
    )


def _prompt(offered: types.Prompt) -> Prompt:
    return Prompt(
        name=offered.name,
        title=_short(offered.title),
        description=_long(offered.description),
        arguments=_arguments(offered.arguments or []),
    )


def _arguments(listed: list[types.PromptArgument]) -> tuple[PromptArgument, ...]:
    return tuple(
        PromptArgument(
            name=offered.name,
            title=_short(offered.title),
            description=_long(offered.description),
            is_required=bool(offered.required),
        )
        for offered in listed[: LIMITS.prompt_arguments]
        if _is_name(offered.name)
    )


def kept_contents(answer: types.ReadResourceResult) -> ResourceContents:
    """The parts that fit. A text is cut at the end of the room; bytes are worthless in part."""
    room = LIMITS.resource_bytes
    parts: list[ResourcePart] = []
    was_cut = len(answer.contents) > LIMITS.result_blocks
    for offered in answer.contents[: LIMITS.result_blocks]:
        is_text = isinstance(offered, types.TextResourceContents)
        whole = _bytes(offered)
        data = whole[:room]
        was_cut = was_cut or len(data) < len(whole)
        if is_text or len(data) == len(whole):
            room -= len(data)
            parts.append(_part(offered, data))
    return ResourceContents(parts=tuple(parts), was_cut=was_cut)


def _part(
    offered: types.TextResourceContents | types.BlobResourceContents, data: bytes
) -> ResourcePart:
    is_text = isinstance(offered, types.TextResourceContents)
    meta = dict(offered.meta) if offered.meta and is_modest(offered.meta) else None
    return ResourcePart(
        uri=_short(offered.uri, LIMITS.uri_characters),
        mime_type=_short(offered.mime_type),
        text=data.decode("utf-8", "ignore") if is_text else None,
        blob=None if is_text else data,
        meta=storable(meta),
    )


def _bytes(offered: types.TextResourceContents | types.BlobResourceContents) -> bytes:
    if isinstance(offered, types.TextResourceContents):
        return str(storable(offered.text)).encode()
    try:
        return base64.b64decode(offered.blob, validate=True)
    except (binascii.Error, ValueError) as error:
        raise OperationError(
            kind="protocol",
            message="The service sent bytes that cannot be decoded.",
            hint="Tell whoever runs the service; the trace shows the answer.",
            is_definite=True,
        ) from error


def filled_prompt(answer: types.GetPromptResult) -> PromptResult:
    versions, was_cut = fitted(
        [
            message.content.model_dump(by_alias=True, mode="json", exclude_none=True)
            for message in answer.messages
        ]
    )
    return PromptResult(
        description=_long(answer.description),
        messages=tuple(
            PromptMessage(role=message.role, content=version)
            for message, version in zip(answer.messages, versions, strict=False)
            if version is not None
        ),
        was_cut=was_cut,
    )


def proposals(completion: types.Completion) -> Completion:
    """The SDK refuses more than the hundred that the protocol allows."""
    values = [value for value in completion.values if len(value) <= LIMITS.uri_characters]
    return Completion(
        values=tuple(str(storable(value)) for value in values),
        total=completion.total,
        has_more=bool(completion.has_more) or len(values) < len(completion.values),
    )


def _is_name(name: str) -> bool:
    return 0 < len(name) <= 255 and storable(name) == name


def _short(text: str | None, characters: int = 255) -> str:
    return str(storable((text or "")[:characters]))


def _long(text: str | None) -> str:
    return _short(text, LIMITS.description_characters)
