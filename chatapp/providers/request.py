"""What is sent to a model: plain values that every provider translates to its own form."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSpec:
    """A tool that the model may ask for. `name` is the tool id, at most 124 characters."""

    name: str
    description: str
    input_schema: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class SaidText:
    text: str
    opaque: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SaidReasoning:
    text: str
    opaque: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedTool:
    """A call that the model made. `arguments` is JSON text of an object."""

    call_id: str
    name: str
    arguments: str
    opaque: dict[str, Any] | None = None


AssistantPart = SaidText | SaidReasoning | AskedTool


@dataclass(frozen=True, slots=True, kw_only=True)
class UserMessage:
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AssistantMessage:
    """One step: what one model call said. `opaque` parts are sent back to the same provider
    only."""

    parts: tuple[AssistantPart, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolOutcome:
    """What came of one call; each `AskedTool` of the message before has exactly one, in that
    order."""

    call_id: str
    name: str
    text: str
    is_error: bool = False


HistoryItem = UserMessage | AssistantMessage | ToolOutcome


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRequest:
    """One model call. `model` is the provider's own name for it, without our `provider:` prefix."""

    model: str
    system: str
    history: tuple[HistoryItem, ...]
    tools: tuple[ToolSpec, ...] = ()
