"""What operations on services return: plain values, and the canonical JSON they are hashed by."""

import hashlib
import json
import math
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, Self

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
        if value.isascii() and "\x00" not in value:
            return value
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
class Progress:
    """How far a tool has come. It is a share only where the service says of how much."""

    done: float
    total: float | None = None
    message: str = ""

    @property
    def words(self) -> str:
        count = f"{self.done:g} of {self.total:g}" if self.total else f"{self.done:g}"
        return f"{count}: {self.message}"[:200] if self.message else count


@dataclass(frozen=True, slots=True, kw_only=True)
class InputRequest:
    """Something that a service asks a person. Its `key` goes back with the answer.

    A form asks for the values that `schema` describes, a flat object in the shape that
    `questions.py` gives it. A URL is for the person's own browser: shown whole, never fetched here.
    """

    key: str
    mode: Literal["form", "url"]
    message: str
    schema: dict[str, Any] = field(default_factory=dict)
    url: str = ""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Self:
        return cls(**value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a person answered: the values of a form, a plain no, or nothing at all."""

    action: Literal["accept", "decline", "cancel"]
    content: dict[str, Any] | None = None

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Self:
        return cls(**value)


@dataclass(frozen=True, slots=True, kw_only=True)
class InputRequired:
    """A call that did not run to its end because the service asks something first.

    The same call, sent again with an answer to each request and with `request_state`, goes on; from
    any process, any time later. Without requests the service only wants it again in a while.
    """

    requests: tuple[InputRequest, ...]
    request_state: str | None = None
    wait_seconds: float = 0.0
    duration_ms: int = 0

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"requests": [request.to_json() for request in self.requests]}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Self:
        requests = tuple(InputRequest.from_json(request) for request in value["requests"])
        return cls(**value | {"requests": requests})


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskStarted:
    """A call that the service goes on with by itself; `tasks.py` asks how it stands.

    `ttl_seconds`: for how long the service keeps the task, counted from its beginning; None, for
    ever.
    """

    task_id: str
    status: str
    message: str = ""
    poll_seconds: float
    ttl_seconds: float | None = None
    duration_ms: int = 0

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Self:
        return cls(**value)


TaskStatus = Literal["working", "input_required", "completed", "failed", "cancelled", "unknown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskReport:
    """How a long task stands.

    A completed one has its `result`, which may be that the tool failed; a failed one has an
    `error`, a sentence. One that needs input has `requests`, or an `error` where they cannot be put
    to anybody. Unknown: the service has no such task any more, and what became of it nobody knows.
    """

    status: TaskStatus
    message: str = ""
    poll_seconds: float = 5.0
    ttl_seconds: float | None = None
    result: ToolResult | None = None
    error: str = ""
    requests: tuple[InputRequest, ...] = ()

    @property
    def is_over(self) -> bool:
        return self.status not in ("working", "input_required")


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
