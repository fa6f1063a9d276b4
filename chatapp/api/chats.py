"""Chats of programs: a request to the OpenAI-compatible interface becomes a turn in a chat of
its person, and the same request again finds the same turn."""

import asyncio
import contextlib
import uuid
from dataclasses import dataclass
from datetime import timedelta

from django.db import IntegrityError, transaction
from django.db.models import Q, QuerySet
from django.db.models.functions import Now
from django.utils import timezone
from django.utils.translation import gettext_lazy

from chatapp.context import attachments as attaching
from chatapp.conversations import intake
from chatapp.conversations.uploads import Examined, examine_files, keep_examined
from chatapp.models import AccessToken, Conversation, Turn
from chatapp.people.refused import Refused
from chatapp.providers.access import usage
from chatapp.providers.access.model_choice import choose_model
from chatapp.providers.events import ProviderError
from chatapp.server.database import in_database

from .calls import MAX_TRIES, OTHER_REQUEST, TOO_MUCH, check_pace, find_turn_by_key
from .requests import (
    ChatRequest,
    RequestHashes,
    find_continued_turn,
    hash_request,
    import_history,
    is_latest,
)

NO_CHAT = gettext_lazy("This token has no such conversation.")
KEPT_FOR_ASKING = timedelta(days=1)
KEPT_FOR_RETRY = timedelta(minutes=15)


class NoSuchModel(Refused):
    """The model does not exist, or this person may not use it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatPlace:
    """Where a request continues: in this chat, as long as `after` is its latest turn; None: in a
    new one."""

    chat: Conversation | None = None
    after: Turn | None = None


async def receive(token: AccessToken, asked: ChatRequest) -> Turn:
    """Accept a program's request, or find the turn of an earlier one. Raise Refused.

    Everything that can be refused is refused before a file is opened, and everything slow is done
    before a transaction begins.
    """
    marks = await asyncio.to_thread(hash_request, asked)
    found = await in_database(_find_or_place, token, asked, marks)
    if isinstance(found, Turn):
        return found
    wanted = asked.said if found.chat is None else asked.said[-1:]
    files = await examine_files(token, [each.files for each in wanted])
    return await in_database(_accept, token, asked, marks, found, files)


def _find_or_place(
    token: AccessToken, asked: ChatRequest, marks: RequestHashes
) -> Turn | ChatPlace:
    """Return the earlier turn, or where a new one belongs."""
    if known := _find_known_turn(token, asked, marks):
        return known
    _check_request(token, asked)
    check_pace(token)
    return _find_place(token, asked, marks)


def _check_request(token: AccessToken, asked: ChatRequest) -> None:
    try:
        choose_model(asked.model, token.person)
    except ProviderError as error:
        words = " ".join(filter(None, [error.message, error.hint]))
        raise NoSuchModel(words, 404) from None
    if sentence := usage.find_used_up_allowance(token.person):
        raise Refused(f"{sentence} {usage.describe_renewal()}", 429)
    for each in asked.said:
        attaching.check_number(len(each.files))
    intake.check_text(asked.said[-1].text)
    for text in (asked.instructions, *(each.text for each in asked.said[:-1])):
        if text:
            intake.check_text(text)


def filter_turns(token: AccessToken) -> QuerySet[Turn]:
    """Return the turns in which this token's programs called a model."""
    return Turn.objects.filter(token=token).exclude(model="").select_related("conversation__owner")


def _find_known_turn(token: AccessToken, asked: ChatRequest, marks: RequestHashes) -> Turn | None:
    """Return the turn of the same request whose outcome the program may lack."""
    mine = filter_turns(token)
    if asked.key:
        turn = find_turn_by_key(token, asked.key)
        if turn is not None and turn.request_hash != marks.request:
            raise Refused(OTHER_REQUEST, 409)
        return mine.get(pk=turn.pk) if turn is not None else None
    alike = mine.filter(
        model=asked.model, instructions=asked.instructions, conversation__deleted_at=None
    )
    if asked.conversation_id is None:
        alike = alike.filter(said_hash=marks.said)
    else:  # the program may send only its last message
        latest = mine.filter(conversation=asked.conversation_id).order_by("-created_at")[:1]
        same_words = Q(question__parts__text=asked.said[-1].text, question__parts__position=0)
        alike = alike.filter(same_words, pk__in=list(latest.values_list("pk", flat=True)))
    return alike.filter(_is_undelivered(asked)).order_by("-created_at").first()


def _is_undelivered(asked: ChatRequest) -> Q:
    """Return the condition for turns whose outcome the program did not receive. For a retry,
    also those whose answer may have been lost on the way."""
    now = timezone.now()
    is_young = Q(finished_at=None) | Q(finished_at__gt=now - KEPT_FOR_ASKING)
    was_lost = Q(finished_at__gt=now - KEPT_FOR_RETRY) if asked.is_retry else Q(pk=None)
    return Q(is_young, delivered_at=None) | was_lost


def _find_place(token: AccessToken, asked: ChatRequest, marks: RequestHashes) -> ChatPlace:
    if asked.conversation_id is not None:
        chats = Conversation.objects.filter(
            token=token, owner=token.person, deleted_at=None
        ).exclude(model="")
        found = chats.filter(pk=asked.conversation_id).first()
        if found is None:
            raise Refused(NO_CHAT, 404)
        return ChatPlace(chat=found)
    turn = find_continued_turn(token, asked, marks) if len(asked.said) > 1 else None
    return ChatPlace(chat=turn.conversation, after=turn) if turn is not None else ChatPlace()


def _accept(
    token: AccessToken,
    asked: ChatRequest,
    marks: RequestHashes,
    place: ChatPlace,
    files: list[list[Examined]],
) -> Turn:
    kept = [[keep_examined(token.person, file).pk for file in each] for each in files]
    for _ in range(MAX_TRIES):
        # An integrity error means that another turn began in this chat meanwhile.
        with contextlib.suppress(IntegrityError), transaction.atomic():
            # Accept one request of a token at a time, so that a repeated request is found.
            AccessToken.objects.select_for_update().get(pk=token.pk)
            return _find_known_turn(token, asked, marks) or _begin_turn(
                token, asked, marks, place, kept
            )
    raise Refused(TOO_MUCH, 409)


def _begin_turn(
    token: AccessToken,
    asked: ChatRequest,
    marks: RequestHashes,
    place: ChatPlace,
    kept: list[list[uuid.UUID]],
) -> Turn:
    check_pace(token)
    if place.after is not None and not is_latest(place.after):
        raise Refused(TOO_MUCH, 409)
    chat = place.chat
    if chat is None and len(asked.said) > 1:
        chat = import_history(token, asked, kept[:-1])
    turn = intake.receive(
        token.person, chat, text=asked.said[-1].text, model=asked.model, attachments=kept[-1]
    )
    Turn.objects.filter(pk=turn.pk).update(
        token=token,
        idempotency_key=asked.key,
        request_hash=marks.request,
        said_hash=marks.said,
        instructions=asked.instructions,
    )
    # Without a token the chat would be listed as one that the person began, and a model would title
    # it.
    chats = Conversation.objects.filter(pk=turn.conversation_id)
    chats.update(token=token, title_is_draft=False)
    return filter_turns(token).get(pk=turn.pk)


def mark_delivered(turn: Turn) -> None:
    """Record that the program gets the outcome now: the same messages later mean a new request."""
    if not turn.is_live:
        Turn.objects.filter(pk=turn.pk, delivered_at=None).update(delivered_at=Now())
