"""The values that operations on services return, and the canonical JSON for their hashes."""

import hashlib
import json
import math
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, Self

import rfc8785
from django.utils.translation import gettext as _

from mcpconfig.values.limits import LIMITS


def canonical_json(value: Any) -> bytes:
    """Return RFC 8785 JSON. Numbers beyond it (huge integers) still get one stable form."""
    try:
        return rfc8785.dumps(value)
    except (rfc8785.CanonicalizationError, UnicodeEncodeError):
        text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
        return text.encode()


def make_storable(value: Any) -> Any:
    """Return the value in a form that every database stores: without NUL, lone surrogates, NaN and
    infinity."""
    if isinstance(value, str):
        if value.isascii() and "\x00" not in value:
            return value
        return value.replace("\x00", "\ufffd").encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {make_storable(str(key)): make_storable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [make_storable(item) for item in value]
    return value


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """One tool, as the service describes it."""

    name: str
    title: str = ""
    description: str = ""
    input_schema: dict[str, Any]
    output_schema: dict[str, Any] | None = None
    annotations: dict[str, Any] | None = None
    meta: dict[str, Any] | None = None

    @property
    def hash(self) -> str:
        """The hash of everything that a person consents to. `meta` is for programs and is left
        out."""
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
class RejectedTool:
    """A tool of the service that is not used, with the reason."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """All tools of a service, and for how long the list stays fresh."""

    tools: list[Tool]
    left_out: list[RejectedTool]
    fresh_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResult:
    """The answer of a tool. If the tool failed, `is_error` is true."""

    content: list[dict[str, Any]]
    structured: Any | None = None
    is_error: bool = False
    was_cut: bool = False


def describe_entry_limit() -> str:
    return _("more than %(count)s entries") % {"count": LIMITS.entries_at_once}


def build_withheld_content(*, is_error: bool, bound: str = "") -> list[dict[str, Any]]:
    """Return what stands for the answer of a tool that is not kept. Person and model read it.
    `bound` is the limit that it exceeds."""
    values = {"bound": bound or describe_entry_limit()}
    if is_error:
        text = _("The call failed. Its result is not kept: it has %(bound)s. Ask for less at once.")
    else:
        text = _(
            "The call succeeded, so do not repeat it. Its result is not kept: it has %(bound)s. "
            "Ask for less at once."
        )
    text = f"[{text % values}]"
    return [{"type": "text", "text": text}]


@dataclass(frozen=True, slots=True, kw_only=True)
class CallOutcome:
    """A finished tool call and what it cost: HTTP requests and milliseconds."""

    result: ToolResult
    requests: int
    duration_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """The progress of a tool. It is a share only if the service sends a total."""

    done: float
    total: float | None = None
    message: str = ""

    @property
    def words(self) -> str:
        count = (
            _("%(done)s of %(total)s") % {"done": f"{self.done:g}", "total": f"{self.total:g}"}
            if self.total
            else f"{self.done:g}"
        )
        return f"{count}: {self.message}"[:200] if self.message else count


@dataclass(frozen=True, slots=True, kw_only=True)
class InputRequest:
    """A question of a service to a person. Its `key` goes back with the answer.

    A form asks for the values that `schema` describes, a flat object in the shape that
    `questions.py` builds. A URL is for the person's own browser: it is shown whole and never
    fetched here.
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
    """A person's answer: the values of a form, a refusal, or no answer."""

    action: Literal["accept", "decline", "cancel"]
    content: dict[str, Any] | None = None

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Self:
        return cls(**value)


@dataclass(frozen=True, slots=True, kw_only=True)
class InputRequired:
    """A call that did not run to its end because the service asks a question first.

    The same call continues when it is sent again with an answer to each request and with
    `request_state`, from any process and at any later time. Without requests the service only wants
    the call again after a while.
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
    """A call that the service continues as a task; `operations/tasks.py` polls it.

    `ttl_seconds`: how long the service keeps the task, counted from its start; None if without
    limit.
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
    """The state of a long task.

    A completed task has a `result`, which may say that the tool failed; a failed one has an
    `error`, a sentence. One that needs input has `requests`, or an `error` if they cannot be shown
    to a person. Unknown: the service no longer has the task, so its outcome is unknown.
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
    """A resource that a service offers. Its URI is sent to that service only."""

    uri: str
    name: str
    title: str = ""
    description: str = ""
    mime_type: str = ""
    size: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceTemplate:
    """A URI template (RFC 6570) for resources of a service."""

    uri_template: str
    name: str
    title: str = ""
    description: str = ""
    mime_type: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourcePart:
    """A text, or bytes. `meta` describes how an app is displayed."""

    uri: str
    mime_type: str = ""
    text: str | None = None
    blob: bytes | None = None
    meta: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceContents:
    """The contents of a resource: usually one part, several for a folder."""

    parts: tuple[ResourcePart, ...]
    was_cut: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptArgument:
    """An argument of a prompt."""

    name: str
    title: str = ""
    description: str = ""
    is_required: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """A prompt that a service offers, and its arguments."""

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
    """Suggestions of a service for a value. `total` is their number, if the service sends it."""

    values: tuple[str, ...]
    total: int | None = None
    has_more: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LogMessage:
    """A log message of a service during an operation, shortened."""

    level: str
    text: str
    logger: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step of a connection test."""

    name: str
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionReport:
    """The result of a connection test. `era` is the protocol version that was agreed.

    `tool_tokens` estimates what the list of tools costs a model. A count is None if the service
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
    left_out: tuple[RejectedTool, ...]
    log: tuple[LogMessage, ...]
    requests: int
    duration_ms: int
