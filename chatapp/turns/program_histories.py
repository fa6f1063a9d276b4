"""What a program says was said before: a chat of its token that goes on, or a new one of it."""

import uuid
from collections.abc import Sequence

from chatapp.models import AccessToken, Conversation, Message, Part, Turn

from . import attachments as attaching
from . import intake
from .program_answers import page_of
from .program_requests import Asked, Marks
from .program_words import answer_text

# Of many chats that began alike, the program goes on with one of the latest.
MOST_COMPARED = 5


def continued(token: AccessToken, asked: Asked, marks: Marks) -> Turn | None:
    """The turn that was asked all but the last answer and message, and gave that answer, if nobody
    went on with its chat since."""
    alike = Turn.objects.filter(token=token, said_hash=marks.before).exclude(model="")
    alike = alike.select_related("conversation__owner").order_by("-created_at")
    for turn in alike[:MOST_COMPARED]:
        if is_latest(turn) and _was_told(turn, asked.said[-2].text):
            return turn
    return None


def is_latest(turn: Turn) -> bool:
    return not turn.conversation.turns.filter(created_at__gt=turn.created_at).exists()


def _was_told(turn: Turn, words: str) -> bool:
    """Whether these are the words that the program was given: the answer, or that it waits."""
    return words.strip() == answer_text(turn).strip() or page_of(turn) in words


def imported(token: AccessToken, asked: Asked, kept: Sequence[Sequence[uuid.UUID]]) -> Conversation:
    """A new chat with all but the last message, in few statements: other writers wait meanwhile.
    `kept` are the attachments of each."""
    before = asked.said[:-1]
    conversation = Conversation.objects.create(
        owner=token.person,
        title=intake.title_of(before[0].text),
        model=asked.model,
        token=token,
        last_seq=len(before),
    )
    # Nobody has a page of this chat yet, so its past needs no journal: only its order.
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
            attaching.send_with(message, attaching.chosen(token.person, files))
    return conversation
