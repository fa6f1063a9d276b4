"""A request to a model: plain values that every provider translates to its own format."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from django.utils.translation import gettext_lazy

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

Effort = Literal["", "off", "low", "medium", "high"]
# What a person may choose, and what it is called. Every provider has its own parameter for it.
EFFORTS: dict[Effort, "StrOrPromise"] = {
    "": gettext_lazy("Default"),
    "off": gettext_lazy("Off"),
    "low": gettext_lazy("Low"),
    "medium": gettext_lazy("Medium"),
    "high": gettext_lazy("High"),
}
# What a person may ask for. The provider or the model may allow less.
HIGHEST_TEMPERATURE = 2.0
FEWEST_OUTPUT_TOKENS = 16
MOST_OUTPUT_TOKENS = 1_000_000
# The empty effort in a form and on the command line.
DEFAULT_EFFORT = "default"


def read_effort(text: str) -> Effort | None:
    """Return the effort that a person named, or None if there is none of this name."""
    wanted = "" if text == DEFAULT_EFFORT else text or None
    return next((effort for effort in EFFORTS if effort == wanted), None)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, weakref_slot=True)
class ToolSpec:
    """A tool that the model may call. `name` is the tool id, at most 124 characters.

    The object is reused between requests, so values computed from it can be cached with it.
    """

    name: str
    description: str
    input_schema: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Media:
    """A picture, a PDF or a text file. `media_type` was read from its bytes.

    `words` can stand for a file that a model cannot take. `pages` is the number of pages of a PDF,
    if it is known. A file that did not fit into the request or is missing from its storage has no
    bytes, and is not passed to a provider.
    """

    media_type: str
    base64: str
    name: str = ""
    words: str = ""
    pages: int | None = None
    is_missing: bool = False

    @property
    def is_picture(self) -> bool:
        return self.media_type.startswith("image/")

    @property
    def data_url(self) -> str:
        return f"data:{self.media_type};base64,{self.base64}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SaidText:
    """Text of the model, or a picture that it made: the text names it, and a provider that takes
    pictures of models gets `picture` instead."""

    text: str
    opaque: dict[str, Any] | None = None
    picture: Media | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SaidReasoning:
    text: str
    opaque: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedTool:
    """A call of the model. `arguments` is JSON text of an object."""

    call_id: str
    name: str
    arguments: str
    opaque: dict[str, Any] | None = None


AssistantPart = SaidText | SaidReasoning | AskedTool


@dataclass(frozen=True, slots=True, kw_only=True)
class UserMessage:
    """A message of a person. `media` is sent with the text where the provider takes it.

    The text names every file.
    """

    text: str
    media: tuple[Media, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AssistantMessage:
    """The parts of one model call. `opaque` data goes back to the same provider only."""

    parts: tuple[AssistantPart, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolOutcome:
    """The outcome of one call. Outcomes follow their message in the order of its calls.

    Each `AskedTool` has exactly one. `media` is sent with the text where the provider takes it; the
    text names every file.
    """

    call_id: str
    name: str
    text: str
    is_error: bool = False
    media: tuple[Media, ...] = ()


HistoryItem = UserMessage | AssistantMessage | ToolOutcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """The settings for one call of a model: of an admin, or of a chat within those.

    None and "" leave the choice to the provider.
    """

    output_tokens: int | None = None
    temperature: float | None = None
    effort: Effort = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRequest:
    """One model call. `model` is the provider's name of the model, without the prefix.

    Requests with the same `cache_key` have the same beginning, for the prompt cache.
    """

    model: str
    system: str
    history: tuple[HistoryItem, ...]
    tools: tuple[ToolSpec, ...] = ()
    parameters: Parameters = Parameters()
    cache_key: str = ""
