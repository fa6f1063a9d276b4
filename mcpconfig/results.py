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
class Step:
    """One thing that a connection test looked at."""

    name: str
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionReport:
    """What a connection test found. `era` is the protocol version that was agreed."""

    steps: tuple[Step, ...]
    server_name: str
    era: str
    transport: str
    capabilities: dict[str, Any]
    tool_count: int
    left_out: tuple[LeftOut, ...]
    requests: int
    duration_ms: int
