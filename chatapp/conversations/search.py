"""Search in the chats of a person: titles, and the text of messages by the full-text index."""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from django.db.models import F, QuerySet
from django.db.models.functions import Now, Substr

from chatapp.models import Conversation, Member, Message, Part
from chatapp.models.conversations.search_index import (
    INDEXED_CHARACTERS,
    match_words,
    split_words,
)
from chatapp.models.conversations.search_text import cut_excerpt, match_all

# Limits of one page of results. The newest messages are found first.
MOST_MESSAGES = 200
MOST_CHATS = 30
EXCERPTS_OF_A_CHAT = 3
EXCERPT_CHARACTERS = 240


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """What a person looks for. `days`: only messages that are no older; None: of any age. `role`
    limits it to one side's messages; empty: both, and titles. `is_of_program`: only chats that
    programs began, or that the person did; None: both. `project`: only chats in it. An empty text
    lists all chats; then `page` counts from 1, and `days` is about when they were last active."""

    text: str
    page: int = 1
    is_archived: bool | None = None
    is_of_program: bool | None = None
    role: str = ""
    days: int | None = None
    project: uuid.UUID | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Excerpt:
    """A piece of a message around the first word that was looked for."""

    message_id: uuid.UUID
    role: str
    text: str


@dataclass(slots=True, kw_only=True)
class FoundChat:
    conversation: Conversation
    excerpts: list[Excerpt] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The chats with all words in their title or in one message, newest first. `words` are what
    was looked for, and `has_more` says that the limits were reached or that there is another
    page."""

    words: list[str]
    chats: list[FoundChat]
    has_more: bool = False


def search_chats(person: Member, search: Search) -> Found:
    words = split_words(search.text)
    mine = _filter_chats(person, search)
    if not search.text.strip() and not search.role:
        return _list_chats(mine, search)
    if not words:
        return Found(words=[], chats=[])
    found = {
        row.pk: FoundChat(conversation=row)
        for row in _filter_titles(mine, words, search).select_related("token")[: MOST_CHATS + 1]
    }
    messages = list(_filter_messages(mine, words, search)[:MOST_MESSAGES])
    known = mine.select_related("token").in_bulk({chat_id for chat_id, *_ in messages})
    for chat_id, message_id, role, text in messages:
        if chat_id not in known:  # a chat may have been deleted meanwhile
            continue
        chat = found.setdefault(chat_id, FoundChat(conversation=known[chat_id]))
        if len(chat.excerpts) < EXCERPTS_OF_A_CHAT:
            excerpt = Excerpt(
                message_id=message_id, role=role, text=cut_excerpt(text, words, EXCERPT_CHARACTERS)
            )
            chat.excerpts.append(excerpt)
    chats = sorted(found.values(), key=lambda each: each.conversation.active_at, reverse=True)
    has_more = len(messages) == MOST_MESSAGES or len(chats) > MOST_CHATS
    return Found(words=words, chats=chats[:MOST_CHATS], has_more=has_more)


def find_titles(person: Member, words: Sequence[str], most: int) -> list[Conversation]:
    """Return the latest chats with all words in their titles, at most this many. Without words,
    only those that the person began."""
    mine = Conversation.filter_listed(person)
    if not words:  # programs may have begun many
        mine = mine.filter(token=None)
    return list(_filter_titles(mine, words, Search(text=""))[:most])


def _list_chats(chats: QuerySet[Conversation], search: Search) -> Found:
    start = (search.page - 1) * MOST_CHATS
    latest = _filter_active(chats, search).select_related("token").order_by("-active_at", "pk")
    rows = list(latest[start : start + MOST_CHATS + 1])
    listed = [FoundChat(conversation=row) for row in rows[:MOST_CHATS]]
    return Found(words=[], chats=listed, has_more=len(rows) > MOST_CHATS)


def _filter_active(chats: QuerySet[Conversation], search: Search) -> QuerySet[Conversation]:
    if search.days is None:
        return chats
    return chats.filter(active_at__gte=Now() - timedelta(days=search.days))


def _filter_chats(person: Member, search: Search) -> QuerySet[Conversation]:
    chats = Conversation.filter_listed(person)
    if search.is_archived is not None:
        chats = chats.filter(archived_at__isnull=not search.is_archived)
    if search.is_of_program is not None:
        chats = chats.filter(token__isnull=not search.is_of_program)
    if search.project is not None:
        chats = chats.filter(project=search.project)
    return chats


def _filter_titles(
    chats: QuerySet[Conversation], words: Sequence[str], search: Search
) -> QuerySet[Conversation]:
    if search.role:
        return chats.none()
    titled = _filter_active(chats, search).filter(match_all(["title"], words))
    return titled.order_by("-active_at")


def _filter_messages(
    chats: QuerySet[Conversation], words: list[str], search: Search
) -> QuerySet[Part, tuple[uuid.UUID, uuid.UUID, str, str]]:
    parts = Part.objects.filter(match_words(words), message__conversation__in=chats)
    if search.role:
        parts = parts.filter(message__role=search.role)
    if search.days is not None:
        parts = parts.filter(message__created_at__gte=Now() - timedelta(days=search.days))
    return (
        parts.order_by("-message__created_at", "-pk")
        .annotate(chat=F("message__conversation"), beginning=Substr("text", 1, INDEXED_CHARACTERS))
        .values_list("chat", "message", "message__role", "beginning")
    )


def find_message(person: Member, message_id: uuid.UUID) -> Message | None:
    """Return a message in a chat of this person that is not deleted."""
    mine = Message.objects.filter(conversation__owner=person, conversation__deleted_at=None)
    return mine.filter(pk=message_id).first()


def read_text(message: Message) -> str:
    """Return the text of a message as it was written, without its calls and attachments."""
    parts = message.parts.filter(kind=Part.Kind.TEXT).exclude(text="")
    return "\n\n".join(parts.values_list("text", flat=True))
