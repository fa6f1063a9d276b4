"""What a conversation page shows, as plain values, and the one place where element ids are made.

`turns/reading.py` fills the values from the rows and the journal; `fragments.py` turns them into
HTML.
"""

import uuid
from dataclasses import dataclass, field
from typing import Literal

from chatapp.models import Conversation, ToolCall, Turn


@dataclass(frozen=True, slots=True, kw_only=True)
class TextView:
    """A piece of the answer. While the model writes it `tail` is its open block, else empty."""

    step: int
    position: int
    blocks: str
    tail: str = ""
    is_open: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ReasoningView:
    """What the model thought: plain text, shown folded."""

    step: int
    position: int
    text: str
    seconds: float | None = None
    is_open: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallView:
    """One call: a row when it runs or is over, an approval card while it waits for a person."""

    step: int
    position: int
    call: ToolCall


@dataclass(frozen=True, slots=True, kw_only=True)
class NoticeView:
    """A sentence of ours inside the answer: stopped, interrupted, a service that is missing, an
    error."""

    step: int
    position: int
    text: str
    hint: str = ""


PartView = TextView | ReasoningView | ToolCallView | NoticeView


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What an answer took: tokens that models wrote, and seconds of work without waiting."""

    output_tokens: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageView:
    """`turn` is there for answers. `text` is what a person wrote, for their own messages.

    `created_seq` and `touched_seq` are the frames that made and last changed it.
    """

    id: uuid.UUID
    role: Literal["user", "assistant"]
    text: str = ""
    parts: tuple[PartView, ...] = ()
    turn: Turn | None = None
    figures: Figures | None = None
    created_seq: int = 0
    touched_seq: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationView:
    """A whole conversation as of frame `seq`."""

    conversation: Conversation
    seq: int
    messages: tuple[MessageView, ...] = field(default_factory=tuple)
    live_turn: Turn | None = None


THREAD_ID = "thread"
COMPOSER_ID = "composer-actions"
TITLE_ID = "conversation-title"


def message_id(message: uuid.UUID) -> str:
    return f"message-{message}"


def parts_id(message: uuid.UUID) -> str:
    """The element that holds a message's parts; new parts are appended to it."""
    return f"parts-{message}"


def part_id(message: uuid.UUID, step: int, position: int) -> str:
    return f"part-{message}-{step}-{position}"


def blocks_id(message: uuid.UUID, step: int, position: int) -> str:
    """The closed blocks of a text part, or the text of a reasoning part."""
    return f"blocks-{message}-{step}-{position}"


def tail_id(message: uuid.UUID, step: int, position: int) -> str:
    return f"tail-{message}-{step}-{position}"


def tool_call_id(call: uuid.UUID) -> str:
    return f"tool-call-{call}"


def status_id(message: uuid.UUID) -> str:
    """What an answer does right now: working, waiting, interrupted, over."""
    return f"status-{message}"


def link_id(conversation: uuid.UUID) -> str:
    """The conversation's line in the sidebar."""
    return f"conversation-{conversation}"
