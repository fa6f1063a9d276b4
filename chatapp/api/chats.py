"""Chats of programs: what one sends as to an OpenAI-compatible server becomes a turn in a chat of
its person, and asking again brings the same turn."""

import asyncio
import contextlib
import uuid
from dataclasses import dataclass
from datetime import timedelta

from django.db import IntegrityError, transaction
from django.db.models import Q, QuerySet
from django.db.models.functions import Now
from django.utils import timezone

from chatapp.models import AccessToken, Conversation, Turn
from chatapp.providers.events import ProviderError
from chatapp.storage import in_database

from . import attachments as attaching
from . import intake, usage
from .file_reading import examined_files
from .model_choice import chosen_model
from .program_calls import MOST_TRIES, OTHER_REQUEST, TOO_MUCH, check_pace, turn_of_key
from .program_histories import continued, imported, is_latest
from .program_requests import Asked, Marks, marks_of
from .refusals import Refused
from .uploads import Examined, keep

NO_CHAT = "This token has no such conversation."
KEPT_FOR_ASKING = timedelta(days=1)
KEPT_FOR_RETRY = timedelta(minutes=15)


class NoSuchModel(Refused):
    """The model does not exist, or is not for this person."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a request goes on: in this chat, as long as `after` is its latest turn; None: in a new
    one."""

    chat: Conversation | None = None
    after: Turn | None = None


async def receive(token: AccessToken, asked: Asked) -> Turn:
    """Accept what a program asks, or find the turn that it asked for before. Raises Refused.

    All that can be refused is refused before a file is opened, and all that takes long is done
    before the database is asked to write.
    """
    marks = await asyncio.to_thread(marks_of, asked)
    found = await in_database(_looked_up, token, asked, marks)
    if isinstance(found, Turn):
        return found
    wanted = asked.said if found.chat is None else asked.said[-1:]
    files = await examined_files(token, [each.files for each in wanted])
    return await in_database(_accepted, token, asked, marks, found, files)


def _looked_up(token: AccessToken, asked: Asked, marks: Marks) -> Turn | Place:
    """The turn of before, or where a new one belongs."""
    if known := _known(token, asked, marks):
        return known
    _check(token, asked)
    check_pace(token)
    return _place(token, asked, marks)


def _check(token: AccessToken, asked: Asked) -> None:
    try:
        chosen_model(asked.model, token.person)
    except ProviderError as error:
        words = " ".join(filter(None, [error.message, error.hint]))
        raise NoSuchModel(words, 404) from None
    if sentence := usage.used_up(token.person):
        raise Refused(f"{sentence} {usage.hint()}", 429)
    for each in asked.said:
        attaching.check_number(len(each.files))
    intake.check_text(asked.said[-1].text)
    for text in (asked.instructions, *(each.text for each in asked.said[:-1])):
        if text:
            intake.check_text(text)


def turns_of(token: AccessToken) -> QuerySet[Turn]:
    """The turns in which this token's programs asked a model."""
    return Turn.objects.filter(token=token).exclude(model="").select_related("conversation__owner")


def _known(token: AccessToken, asked: Asked, marks: Marks) -> Turn | None:
    """The turn of the same request, whose outcome the program may not have."""
    mine = turns_of(token)
    if asked.key:
        turn = turn_of_key(token, asked.key)
        if turn is not None and turn.request_hash != marks.request:
            raise Refused(OTHER_REQUEST, 409)
        return mine.get(pk=turn.pk) if turn is not None else None
    alike = mine.filter(model=asked.model, instructions=asked.instructions)
    if asked.conversation_id is None:
        alike = alike.filter(said_hash=marks.said)
    else:  # the program may send its last message alone
        latest = mine.filter(conversation=asked.conversation_id).order_by("-created_at")[:1]
        same_words = Q(question__parts__text=asked.said[-1].text, question__parts__position=0)
        alike = alike.filter(same_words, pk__in=list(latest.values_list("pk", flat=True)))
    return alike.filter(_may_lack(asked)).order_by("-created_at").first()


def _may_lack(asked: Asked) -> Q:
    """Turns whose outcome the program was not given; where it says so, also those whose answer may
    have been lost on its way."""
    now = timezone.now()
    is_young = Q(finished_at=None) | Q(finished_at__gt=now - KEPT_FOR_ASKING)
    was_lost = Q(finished_at__gt=now - KEPT_FOR_RETRY) if asked.is_retry else Q(pk=None)
    return Q(is_young, delivered_at=None) | was_lost


def _place(token: AccessToken, asked: Asked, marks: Marks) -> Place:
    if asked.conversation_id is not None:
        chats = Conversation.objects.filter(token=token, owner=token.person).exclude(model="")
        found = chats.filter(pk=asked.conversation_id).first()
        if found is None:
            raise Refused(NO_CHAT, 404)
        return Place(chat=found)
    turn = continued(token, asked, marks) if len(asked.said) > 1 else None
    return Place(chat=turn.conversation, after=turn) if turn is not None else Place()


def _accepted(
    token: AccessToken, asked: Asked, marks: Marks, place: Place, files: list[list[Examined]]
) -> Turn:
    kept = [[keep(token.person, file).pk for file in each] for each in files]
    for _ in range(MOST_TRIES):
        # An integrity error: somebody began something in this chat at this moment.
        with contextlib.suppress(IntegrityError), transaction.atomic():
            # One request of a token is accepted at a time, so that the same one twice is one.
            AccessToken.objects.select_for_update().get(pk=token.pk)
            return _known(token, asked, marks) or _begun(token, asked, marks, place, kept)
    raise Refused(TOO_MUCH, 409)


def _begun(
    token: AccessToken, asked: Asked, marks: Marks, place: Place, kept: list[list[uuid.UUID]]
) -> Turn:
    check_pace(token)
    if place.after is not None and not is_latest(place.after):
        raise Refused(TOO_MUCH, 409)
    chat = place.chat
    if chat is None and len(asked.said) > 1:
        chat = imported(token, asked, kept[:-1])
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
    # Without this the chat would be the person's own, as one is that they write in.
    Conversation.objects.filter(pk=turn.conversation_id).update(token=token)
    return turns_of(token).get(pk=turn.pk)


def deliver(turn: Turn) -> None:
    """The program is given the outcome now: the same words mean something new from here on."""
    if not turn.is_live:
        Turn.objects.filter(pk=turn.pk, delivered_at=None).update(delivered_at=Now())
