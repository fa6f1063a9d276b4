"""The events of a streamed answer, the same for every provider."""

from dataclasses import dataclass, field
from typing import Any, Literal

FinishReason = Literal["stop", "tool_calls", "length", "refused", "filtered"]
ErrorKind = Literal[
    "auth",
    "quota",
    "rate_limit",
    "overloaded",
    "too_long",
    "filtered",
    "bad_request",
    "not_found",
    "network",
    "timeout",
    "protocol",
    "server",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class TextDelta:
    """More of the answer, or of a refusal: `Finished` says which it is."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReasoningDelta:
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallStarted:
    """The start of a call. `index` counts the calls of this answer from 0."""

    index: int
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ArgumentsDelta:
    index: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallReady:
    """A complete call. `arguments` is the model's text, which need not be JSON."""

    index: int
    call_id: str
    name: str
    arguments: str
    opaque: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OpaqueData:
    """Provider data to send back with the text or reasoning just before it."""

    kind: Literal["text", "reasoning"]
    data: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class PictureMade:
    """A picture that the model made. Its type is read from its bytes, not taken from the provider.

    `description` is the provider's, if it has one. `opaque` goes back with the picture.
    """

    base64: str = field(repr=False)
    description: str = ""
    opaque: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceCited:
    """A page that the answer cites, as the provider says. The address is not checked."""

    url: str
    title: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolLeftOut:
    """A tool that this provider cannot take, so that the model did not get it.

    `reason` is a sentence for people.
    """

    name: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesLeftOut:
    """The model refused pictures or documents, and the request was repeated without them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolsLeftOut:
    """The model cannot use tools, and the request was repeated without any."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """The tokens of this call.

    `input_tokens` includes those read from and written to the cache, `output_tokens` the reasoning.
    """

    input_tokens: int = 0
    cached_tokens: int = 0
    cache_write_tokens: int = 0
    output_tokens: int = 0
    reasoning_tokens: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """The provider's terminal event. A stream without one is a protocol error."""

    reason: FinishReason


ModelEvent = (
    TextDelta
    | ReasoningDelta
    | ToolCallStarted
    | ArgumentsDelta
    | ToolCallReady
    | OpaqueData
    | PictureMade
    | SourceCited
    | ToolLeftOut
    | FilesLeftOut
    | ToolsLeftOut
    | Usage
    | Finished
)


@dataclass(slots=True, kw_only=True)
class ProviderError(Exception):
    """A model call failed. `message` and `hint` may be shown to a member.

    `retry_after` is the wait in seconds that the provider asked for. `limit_tokens` is how many
    tokens the model reads, if the complaint about a request that is too long has it. `detail` is
    the provider's text, for the log and for admins.
    """

    kind: ErrorKind
    message: str
    hint: str = ""
    retry_after: float | None = None
    limit_tokens: int | None = None
    detail: str = field(default="", repr=False)

    def __str__(self) -> str:
        return self.message

    @property
    def is_worth_a_retry(self) -> bool:
        """Whether the same request may succeed a little later."""
        return self.kind in {"rate_limit", "overloaded", "network", "timeout", "server"}
