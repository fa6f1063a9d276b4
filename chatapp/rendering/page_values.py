"""What a conversation page shows, as plain values, and the one place where element ids are made.

`turns/reading.py` fills the values from the rows and the journal; `fragments.py` turns them into
HTML.
"""

import uuid
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Literal

from chatapp.models import Attachment, Conversation, Summary, ToolCall, Turn


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
    """A sentence of ours inside the answer; `kind` is one of `Part.NoticeKind`, and `summary` what
    it tells of where it is "summary"."""

    step: int
    position: int
    text: str
    kind: str = "info"
    hint: str = ""
    summary: Summary | None = None


PartView = TextView | ReasoningView | ToolCallView | NoticeView


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What an answer took: tokens that models wrote, seconds of work without waiting, and money by
    currency where the models have prices."""

    output_tokens: int
    seconds: float
    costs: tuple[tuple[Decimal, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Gauge:
    """How full a conversation is: the tokens of its last model call, those that its model can read
    at once where that is known, those of all its calls, what these cost by currency, and what the
    tools weigh that were not told because they can be found."""

    tokens: int = 0
    saved_tokens: int = 0
    context_tokens: int | None = None
    total_tokens: int = 0
    costs: tuple[tuple[Decimal, str], ...] = ()

    @property
    def percent(self) -> int | None:
        """Rounded up, so that something is never nothing."""
        if not self.context_tokens or not self.tokens:
            return None
        return min(100, -(-100 * self.tokens // self.context_tokens))

    @property
    def words(self) -> int:
        """What the last model call weighs, for people: about."""
        return about_words(self.tokens)

    @property
    def total_words(self) -> int:
        return about_words(self.total_tokens)

    @property
    def saved_words(self) -> int:
        return about_words(self.saved_tokens)


def about_words(tokens: int) -> int:
    """So many English words as the tokens are, in two figures: the rule of thumb is three words to
    four tokens."""
    words = -(-3 * tokens // 4)
    return round(words, min(0, 2 - len(str(words))))


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageView:
    """`turn` is there for answers. `text` is what a person wrote, for their own messages, and
    `attachments` what they sent with it. `is_of_program`: a program or an app asked,
    not the person; `instructions` are what it told the assistant beforehand.

    `created_seq` and `touched_seq` are the frames that made and last changed it.
    """

    id: uuid.UUID
    role: Literal["user", "assistant"]
    text: str = ""
    attachments: tuple[Attachment, ...] = ()
    is_of_program: bool = False
    instructions: str = ""
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
GAUGE_ID = "gauge"
MODE_ID = "mode"
WAITING_ID = "waiting"
INBOX_ID = "inbox"
TOOLS_ID = "tools-button"


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


def app_row_id(call: uuid.UUID) -> str:
    """The row of a call inside the element that holds its app too."""
    return f"app-row-{call}"


def attachment_id(attachment: uuid.UUID) -> str:
    return f"attachment-{attachment}"


def pick_id(call: uuid.UUID) -> str:
    """The check box of a call that waits with others."""
    return f"pick-{call}"


def status_id(message: uuid.UUID) -> str:
    """What an answer does right now: working, waiting, interrupted, over."""
    return f"status-{message}"


def link_id(conversation: uuid.UUID) -> str:
    """The conversation's line in the sidebar."""
    return f"conversation-{conversation}"


def waiting_id(call: uuid.UUID) -> str:
    """The call's line in the inbox."""
    return f"waiting-{call}"


def next_id(call: uuid.UUID) -> str:
    """On the page of a call: what waits next."""
    return f"next-{call}"
