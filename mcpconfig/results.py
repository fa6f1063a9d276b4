"""What operations on services return: plain values, and the canonical JSON they are hashed by."""

import hashlib
import json
import math
from dataclasses import dataclass
from typing import Any

import rfc8785


def canonical_json(value: Any) -> bytes:
    """RFC 8785 where it is defined. Numbers beyond it (huge integers) still get one stable form."""
    try:
        return rfc8785.dumps(value)
    except (rfc8785.CanonicalizationError, UnicodeEncodeError):
        text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
        return text.encode()


def storable(value: Any) -> Any:
    """The value as every database keeps it: no NUL, no lone surrogate, no NaN or infinity."""
    if isinstance(value, str):
        return value.replace("\x00", "\ufffd").encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {storable(str(key)): storable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [storable(item) for item in value]
    return value


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """What a service says about one tool."""

    name: str
    title: str = ""
    description: str = ""
    input_schema: dict[str, Any]
    output_schema: dict[str, Any] | None = None
    annotations: dict[str, Any] | None = None
    meta: dict[str, Any] | None = None

    @property
    def hash(self) -> str:
        """Of everything that a person consents to. `meta` is for programs and is left out."""
        content = {
            "name": self.name,
            "title": self.title,
            "description": self.description,
            "input_schema": self.input_schema,
            "output_schema": self.output_schema,
            "annotations": self.annotations,
        }
        return hashlib.sha256(canonical_json(content)).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """A tool that the service offers and that is not used, with the reason."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """All tools that a service offers, and for how long it says that they stay as they are."""

    tools: list[Tool]
    left_out: list[LeftOut]
    fresh_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResult:
    """What a tool answered. A tool that failed answers too: `is_error` is then true."""

    content: list[dict[str, Any]]
    structured: Any | None = None
    is_error: bool = False
    was_cut: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CallOutcome:
    """A finished tool call and what it cost: HTTP requests and milliseconds."""

    result: ToolResult
    requests: int
    duration_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """Something that a service lets be read. Only that service is ever asked for the URI."""

    uri: str
    name: str
    title: str = ""
    description: str = ""
    mime_type: str = ""
    size: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceTemplate:
    """A pattern of URIs that a service lets be read (RFC 6570)."""

    uri_template: str
    name: str
    title: str = ""
    description: str = ""
    mime_type: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourcePart:
    """A text, or bytes. `meta` says how an app wants to be shown."""

    uri: str
    mime_type: str = ""
    text: str | None = None
    blob: bytes | None = None
    meta: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceContents:
    """What a resource holds: usually one part, for a folder several."""

    parts: tuple[ResourcePart, ...]
    was_cut: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptArgument:
    """A text that a prompt asks for."""

    name: str
    title: str = ""
    description: str = ""
    is_required: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """A text that a service has prepared, and what it must be told to write it."""

    name: str
    title: str = ""
    description: str = ""
    arguments: tuple[PromptArgument, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptMessage:
    """One message of a prompt. `content` is a content block, as in a tool's result."""

    role: str
    content: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptResult:
    """A prompt with its arguments filled in."""

    description: str
    messages: tuple[PromptMessage, ...]
    was_cut: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """What a service proposes for a value. `total` is how many it has, if it says so."""

    values: tuple[str, ...]
    total: int | None = None
    has_more: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LogMessage:
    """What a service wrote to its log while an operation ran, shortened."""

    level: str
    text: str
    logger: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One thing that a connection test looked at."""

    name: str
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionReport:
    """What a connection test found. `era` is the protocol version that was agreed.

    `tool_tokens` estimates what the list of tools costs a model. A count is None where the service
    offers nothing of the kind, or could not list it.
    """

    steps: tuple[Step, ...]
    server_name: str
    era: str
    transport: str
    capabilities: dict[str, Any]
    tool_count: int
    tool_tokens: int
    resource_count: int | None
    template_count: int | None
    prompt_count: int | None
    instructions: str
    left_out: tuple[LeftOut, ...]
    log: tuple[LogMessage, ...]
    requests: int
    duration_ms: int
