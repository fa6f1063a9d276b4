"""What is sent to a model: plain values that every provider translates to its own form."""

from dataclasses import dataclass
from typing import Any, Literal

Effort = Literal["", "off", "low", "medium", "high"]


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
class Media:
    """A picture, a PDF or a text file, of a type that its bytes prove. `words` can stand for it
    where a model cannot take it; `pages` are those of a PDF, where somebody counted them. One that
    did not fit into the request has no bytes; no provider is given such a one."""

    media_type: str
    base64: str
    name: str = ""
    words: str = ""
    pages: int | None = None

    @property
    def is_picture(self) -> bool:
        return self.media_type.startswith("image/")

    @property
    def data_url(self) -> str:
        return f"data:{self.media_type};base64,{self.base64}"


@dataclass(frozen=True, slots=True, kw_only=True)
class UserMessage:
    """`media` goes with the text where the provider takes it; the text names it in any case."""

    text: str
    media: tuple[Media, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AssistantMessage:
    """One step: what one model call said. `opaque` parts are sent back to the same provider
    only."""

    parts: tuple[AssistantPart, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolOutcome:
    """What came of one call; each `AskedTool` of the message before has exactly one, in that
    order. `media` goes with the text where the provider takes it; the text names it in any case."""

    call_id: str
    name: str
    text: str
    is_error: bool = False
    media: tuple[Media, ...] = ()


HistoryItem = UserMessage | AssistantMessage | ToolOutcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """What an admin set for a model. None and "" leave the choice to the provider."""

    output_tokens: int | None = None
    temperature: float | None = None
    effort: Effort = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRequest:
    """One model call. `model` is the provider's own name for it, without our `provider:` prefix.
    Requests with the same `cache_key` begin alike, which lets a provider's prompt cache find
    them."""

    model: str
    system: str
    history: tuple[HistoryItem, ...]
    tools: tuple[ToolSpec, ...] = ()
    parameters: Parameters = Parameters()
    cache_key: str = ""
