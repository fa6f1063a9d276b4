"""Requests of programs to the OpenAI-compatible interface as plain values: their hashes, the
chat that they continue, and the chat that they import."""

import hashlib
import json
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from chatapp.context import attachments as attaching
from chatapp.conversations.uploads import Upload
from chatapp.engine.titles import shorten_to_title
from chatapp.models import AccessToken, Conversation, Message, Part, Turn

from .outcomes import build_turn_url
from .text_stream import read_answer_text


@dataclass(frozen=True, slots=True, kw_only=True)
class SentMessage:
    """One message that a program sent."""

    role: Literal["user", "assistant"]
    text: str
    files: tuple[Upload, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatRequest:
    """A whole request. `said` alternates, and begins and ends with the user. `is_retry`: the
    client repeats a request because it got no answer."""

    model: str
    said: tuple[SentMessage, ...]
    instructions: str = ""
    conversation_id: uuid.UUID | None = None
    key: str = ""
    is_retry: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestHashes:
    """Hashes of a request: of everything `said`, with roles and files; of what was said `before`
    the last answer; and of everything that an Idempotency-Key binds."""

    said: str
    before: str
    request: str


def hash_request(asked: ChatRequest) -> RequestHashes:
    facts = [
        [each.role, each.text, [hashlib.sha256(file.data).hexdigest() for file in each.files]]
        for each in asked.said
    ]
    return RequestHashes(
        said=_hash(facts),
        before=_hash(facts[:-2]),
        request=_hash([asked.model, asked.instructions, str(asked.conversation_id), facts]),
    )


def _hash(facts: list[Any]) -> str:
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()


# Compared at most, newest first, when several chats began with the same messages.
MAX_COMPARED = 5


def find_continued_turn(
    token: AccessToken, asked: ChatRequest, marks: RequestHashes
) -> Turn | None:
    """Return the turn that was asked everything except the last answer and message, and gave
    that answer, if its chat has no later turn and is not deleted."""
    alike = Turn.objects.filter(token=token, said_hash=marks.before).exclude(model="")
    alike = alike.filter(conversation__deleted_at=None)
    alike = alike.select_related("conversation__owner").order_by("-created_at")
    for turn in alike[:MAX_COMPARED]:
        if is_latest(turn) and _was_sent(turn, asked.said[-2].text):
            return turn
    return None


def is_latest(turn: Turn) -> bool:
    return not turn.conversation.turns.filter(created_at__gt=turn.created_at).exists()


def _was_sent(turn: Turn, words: str) -> bool:
    """Return whether the program got this text: the answer, or the message that it waits."""
    return words.strip() == read_answer_text(turn).strip() or build_turn_url(turn) in words


def import_history(
    token: AccessToken, asked: ChatRequest, kept: Sequence[Sequence[uuid.UUID]]
) -> Conversation:
    """Create a chat with all messages but the last, in few statements because other writers
    wait. `kept` are the attachments of each message."""
    before = asked.said[:-1]
    conversation = Conversation.objects.create(
        owner=token.person,
        title=shorten_to_title(before[0].text),
        model=asked.model,
        token=token,
        last_seq=len(before),
    )
    # Nobody has this chat open yet, so its past needs no journal, only its order.
    messages: list[Message] = []
    for seq, said in enumerate(before, start=1):
        parent = messages[-1] if messages else None
        message = Message(conversation=conversation, parent=parent, role=said.role)
        message.created_seq = message.touched_seq = seq
        messages.append(message)
    Message.objects.bulk_create(messages)
    Part.objects.bulk_create(
        Part(
            message=message,
            step=0 if said.role == "user" else 1,
            position=0,
            kind=Part.Kind.TEXT,
            text=said.text,
        )
        for message, said in zip(messages, before, strict=True)
    )
    for message, files in zip(messages, kept, strict=True):
        if files:
            attaching.attach_to_message(message, attaching.load_drafts(token.person, files))
    return conversation
