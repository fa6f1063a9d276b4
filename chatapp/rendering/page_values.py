"""What a conversation page shows, as plain values, and the ids of its elements.

`chatapp.live` fills the values from the rows and the journal; `pages/fragments.py` renders them.
"""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Literal

from chatapp.models import Attachment, Conversation, Plan, Question, Summary, ToolCall, Turn
from chatapp.models.conversations.copied_call import CopiedCall
from mcpconfig.models import ToolDefinition

# What of a person's message is shown before it is unfolded.
SHOWN_LINES = 25
SHOWN_CHARACTERS = 3_000


@dataclass(frozen=True, slots=True, kw_only=True)
class TextView:
    """A text part of an answer. `tail` is the open block while the model writes, otherwise
    empty."""

    step: int
    position: int
    blocks: str
    tail: str = ""
    is_open: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ReasoningView:
    """The reasoning of the model: plain text, shown folded."""

    step: int
    position: int
    text: str
    seconds: float | None = None
    is_open: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CallNumber:
    """The number of a call among the calls of its step that needed an approval."""

    own: int
    of: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SignInFacts:
    """How a person stands with a service that asks for a sign-in. `wanted_scopes` are scopes that
    the service named and that the last sign-in does not have."""

    is_first: bool
    is_shared: bool
    wanted_scopes: tuple[str, ...]
    may_connect: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CallFacts:
    """What other rows add to the card of a call. Only the fields that its state needs are set.

    `previous` is the last call of the same tool that was sent in this chat, `scopes` are the
    lasting ways to allow the call, `names_person` says that the service learns who acts,
    `definition_before` is the definition that people knew if the tool has changed since. `copied`
    names the arguments with text from an untrusted result, and that result.
    """

    previous: ToolCall | None = None
    number: CallNumber | None = None
    scopes: tuple[str, ...] = ()
    names_person: bool = False
    definition_before: ToolDefinition | None = None
    copied: Mapping[str, str] | None = field(default_factory=dict)
    question: Question | None = None
    sign_in: SignInFacts | None = None
    is_task: bool = False
    plan: Plan | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallView:
    """One call: a row when it runs or is over, an approval card while it waits for a person."""

    step: int
    position: int
    call: ToolCall
    facts: CallFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class NoticeView:
    """A sentence of Countersign inside an answer. `kind` is one of `Part.NoticeKind`; `summary` is
    set where it is "summary"."""

    step: int
    position: int
    text: str
    kind: str = "info"
    hint: str = ""
    summary: Summary | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PictureView:
    """A picture that the model made. `description` is the provider's, if it has one."""

    step: int
    position: int
    attachment: Attachment
    description: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourcesView:
    """The pages that an answer cites, each with its address and title."""

    step: int
    position: int
    sources: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CopiedCallView:
    """A call of the chat that this one was forked from."""

    step: int
    position: int
    call: CopiedCall


PartView = (
    TextView
    | ReasoningView
    | ToolCallView
    | NoticeView
    | PictureView
    | SourcesView
    | CopiedCallView
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What an answer used: tokens that models wrote, seconds of work without waiting, and costs by
    currency where the models have prices."""

    output_tokens: int
    seconds: float
    costs: tuple[tuple[Decimal, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """The calls of a waiting turn that one form answers. `alone` counts those that can only be run
    from their own cards."""

    count: int
    may_run: int
    alone: int
    chat: uuid.UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """The place of a message among its versions, and the ids of those before and after it. The
    first follows the last. `group` is the same for all of them."""

    group: str
    number: int
    count: int
    earlier: uuid.UUID
    later: uuid.UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class Feedback:
    """What the person thinks of an answer. `problem` says why `comment` was not saved."""

    is_good: bool
    comment: str = ""
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnFacts:
    """What the steps and calls of a turn add to the status of its answer.

    `needs_second` says that each open approval waits for a second signature; `waits_because` is
    the reason why a running turn pauses. `may_go_on`: the answer can be continued. `version` is set
    if there are other answers to the same message, `feedback` if the answer is rated.
    """

    figures: Figures | None = None
    batch: Batch | None = None
    call_states: frozenset[str] = frozenset()
    needs_second: bool = False
    has_open_review: bool = False
    waits_because: str = ""
    may_go_on: bool = False
    version: Version | None = None
    feedback: Feedback | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Gauge:
    """How full a conversation is.

    `tokens` are those of the last model call, `context_tokens` the limit of the model where it is
    known, `total_tokens` and `costs` cover all model calls, and `saved_tokens` is the size of the
    tools that were left out because the model can search for them.
    """

    tokens: int = 0
    saved_tokens: int = 0
    context_tokens: int | None = None
    total_tokens: int = 0
    costs: tuple[tuple[Decimal, str], ...] = ()

    @property
    def percent(self) -> int | None:
        """Rounded up, so that a used context never shows 0 %."""
        if not self.context_tokens or not self.tokens:
            return None
        return min(100, -(-100 * self.tokens // self.context_tokens))

    @property
    def is_nearly_full(self) -> bool:
        return (self.percent or 0) > 80


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageView:
    """One message. Answers have `turn`, `facts` and `parts`; messages of people have `text` and
    `attachments`.

    `is_of_program` says that a program or an app wrote the message; `instructions` are those of
    the program. `may_edit`: the person can send another version; `version` is set if there are
    some already. `is_copied`: the answer was copied from another chat or program. Copied messages
    have no turn, so `answers_to` is the message that the model can answer again, or for the first
    time.
    `created_seq` and `touched_seq` are the frames that created and last changed it.
    """

    id: uuid.UUID
    role: Literal["user", "assistant"]
    text: str = ""
    attachments: tuple[Attachment, ...] = ()
    is_of_program: bool = False
    instructions: str = ""
    conversation_id: uuid.UUID | None = None
    may_edit: bool = False
    is_copied: bool = False
    answers_to: uuid.UUID | None = None
    version: Version | None = None
    parts: tuple[PartView, ...] = ()
    turn: Turn | None = None
    facts: TurnFacts | None = None
    created_seq: int = 0
    touched_seq: int = 0

    @property
    def is_long(self) -> bool:
        """Whether the text of a person is shown folded."""
        return self.text.count("\n") >= SHOWN_LINES or len(self.text) > SHOWN_CHARACTERS


@dataclass(frozen=True, slots=True, kw_only=True)
class ForkSource:
    """Where a fork comes from: the answer and the title of its chat, or neither if that chat no
    longer exists, is another person's (`is_shared`) or is of another `program`."""

    answer_id: uuid.UUID | None = None
    title: str = ""
    is_shared: bool = False
    program: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationView:
    """A part of a conversation as of frame `seq`. Messages that were created before frame `earlier`
    are not in it. `is_whole`: it has all that a page shows, not only what has changed. Without
    `has_draft` and `has_queue` there is certainly no draft and no queued message. `source` is set
    in the first part of a fork."""

    conversation: Conversation
    seq: int
    messages: tuple[MessageView, ...] = field(default_factory=tuple)
    live_turn: Turn | None = None
    earlier: int | None = None
    is_whole: bool = True
    has_draft: bool = True
    has_queue: bool = True
    source: ForkSource | None = None


def round_costs(spent: Mapping[str, Decimal]) -> tuple[tuple[Decimal, str], ...]:
    """Money by currency, sorted by currency, each rounded to two significant digits."""
    return tuple((_round_cost(cost), currency) for currency, cost in sorted(spent.items()))


def _round_cost(cost: Decimal) -> Decimal:
    if cost >= 1:
        return cost.quantize(Decimal("0.01"))
    digits = max(2, 1 - cost.adjusted()) if cost else 2
    return cost.quantize(Decimal(1).scaleb(-digits))


THREAD_ID = "thread"
COMPOSER_ID = "composer-actions"
TITLE_ID = "conversation-title"
RENAME_ID = "rename-chat"
GAUGE_ID = "gauge"
MODE_ID = "mode"
QUEUE_ID = "queue"
WAITING_ID = "waiting"
INBOX_ID = "inbox"
TOOLS_ID = "tools-button"
MORE_ID = "more-requests"


def message_id(message: uuid.UUID) -> str:
    return f"message-{message}"


def parts_id(message: uuid.UUID) -> str:
    """Return the id of the element that new parts of a message are appended to."""
    return f"parts-{message}"


def part_id(message: uuid.UUID, step: int, position: int) -> str:
    return f"part-{message}-{step}-{position}"


def blocks_id(message: uuid.UUID, step: int, position: int) -> str:
    """Return the id of the closed blocks of a text part, or of the text of a reasoning part."""
    return f"blocks-{message}-{step}-{position}"


def tail_id(message: uuid.UUID, step: int, position: int) -> str:
    return f"tail-{message}-{step}-{position}"


def tool_call_id(call: uuid.UUID) -> str:
    return f"tool-call-{call}"


def app_row_id(call: uuid.UUID) -> str:
    """Return the id of the row of a call inside the element that also holds its app."""
    return f"app-row-{call}"


def attachment_id(attachment: uuid.UUID) -> str:
    return f"attachment-{attachment}"


def pick_id(call: uuid.UUID) -> str:
    """Return the id of the check box of a call that waits with others."""
    return f"pick-{call}"


def status_id(message: uuid.UUID) -> str:
    """Return the id of the line that says whether an answer works, waits or is over."""
    return f"status-{message}"


def feedback_id(message: uuid.UUID) -> str:
    """Return the id of the place of the rating of an answer."""
    return f"feedback-{message}"


def rating_id(message: uuid.UUID) -> str:
    """Return the id of the buttons to rate an answer and of the comment, in that place."""
    return f"rating-{message}"


def comment_id(message: uuid.UUID) -> str:
    return f"comment-{message}"


def link_id(conversation: uuid.UUID) -> str:
    """Return the id of the conversation in the sidebar."""
    return f"conversation-{conversation}"


def waiting_id(call: uuid.UUID) -> str:
    """Return the id of the call in the inbox."""
    return f"waiting-{call}"


def inbox_id(opened: uuid.UUID | None) -> str:
    """Return the id of the inbox, in which the card of one call may be open."""
    return f"{INBOX_ID}-{opened}" if opened else INBOX_ID


def answer_id(call: uuid.UUID) -> str:
    """Return the id of the form that decides a call, on its card or in its row of the inbox."""
    return f"{tool_call_id(call)}-answer"


def opened_id(call: uuid.UUID) -> str:
    """Return the id of the place of the open card of a call in the inbox."""
    return f"opened-{call}"


def next_id(call: uuid.UUID) -> str:
    """Return the id of the link to the next waiting call, on the page of this call."""
    return f"next-{call}"
