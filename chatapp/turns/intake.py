"""What a person asks of a conversation: a new message, and Stop."""

import uuid

from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models.functions import Now

from chatapp.models import Conversation, Member, Message, Part, Turn
from chatapp.providers.events import ProviderError
from chatapp.providers.registry import check_model
from mcpconfig.models import Service

from . import journal
from .calling import wake
from .ending import end
from .milestones import passed
from .refusals import Refused

TITLE_CHARACTERS = 60
STILL_WORKING = (
    "The assistant is still working on this chat. Stop it first, or wait for its answer."
)


def receive(
    person: Member,
    conversation: Conversation | None,
    *,
    text: str,
    model: str,
    client_id: uuid.UUID | None = None,
    services: list[str] | None = None,
) -> Turn:
    """Accept a message and queue its turn; None starts a conversation. Raises Refused.

    The same `client_id` again gives the turn of the first time. A turn that waits for an answer is
    ended: what it asked for is withdrawn, and the model is told so.
    """
    if client_id is not None and (known := _already_accepted(person, client_id)):
        return known
    check_text(text)
    _check_model(model)
    try:
        with transaction.atomic():
            turn = _accept(person, conversation, text, model, client_id, services)
    except (IntegrityError, Refused) as problem:  # perhaps the same message came at this moment
        if client_id is not None and (known := _already_accepted(person, client_id)):
            return known
        if isinstance(problem, Refused):
            raise
        raise Refused(STILL_WORKING, 409) from None
    return turn


def check_text(text: str) -> None:
    if not text.strip():
        raise Refused("Write a message first.")
    if len(text) > settings.MESSAGE_MAX_CHARACTERS:
        raise Refused(
            f"This message has {len(text):,} characters; the limit is "
            f"{settings.MESSAGE_MAX_CHARACTERS:,}. Shorten it, or send it in parts."
        )
    if "\x00" in text:
        raise Refused("This message contains a character that cannot be stored. Remove it.")


def _check_model(model: str) -> None:
    try:
        check_model(model)
    except ProviderError as error:
        raise Refused(" ".join(filter(None, [error.message, error.hint]))) from None


def _already_accepted(person: Member, client_id: uuid.UUID) -> Turn | None:
    return Turn.objects.filter(question__client_id=client_id, conversation__owner=person).first()


def _accept(
    person: Member,
    conversation: Conversation | None,
    text: str,
    model: str,
    client_id: uuid.UUID | None,
    services: list[str] | None,
) -> Turn:
    if conversation is None:
        conversation = Conversation.objects.create(owner=person, title=title_of(text), model=model)
    _make_way(conversation)
    Conversation.objects.filter(pk=conversation.pk).update(active_at=Now(), model=model)
    question, answer = _store_messages(conversation, text, client_id)
    turn = Turn.objects.create(
        conversation=conversation,
        question=question,
        answer=answer,
        model=model,
        services=services,
    )
    entries = [
        journal.message_entry(question),
        journal.message_entry(answer),
        journal.turn_entry(turn, Turn.State.QUEUED),
    ]
    journal.append(conversation.pk, turn.pk, entries)
    transaction.on_commit(lambda: wake(turn.pk))
    passed("K1")
    return turn


def _make_way(conversation: Conversation) -> None:
    """End a turn that waits for a person, who has written something else; a working one refuses."""
    live = Turn.objects.select_for_update().filter(conversation=conversation, state__in=Turn.LIVE)
    for turn in live:
        if turn.state != Turn.State.WAITING:
            raise Refused(STILL_WORKING, 409)
        end(turn, "stopped", "You wrote a new message, so the open question was withdrawn.")


def _store_messages(
    conversation: Conversation, text: str, client_id: uuid.UUID | None
) -> tuple[Message, Message]:
    """The person's message after the latest one, and the answer that will follow it."""
    question = Message.objects.create(
        conversation=conversation,
        parent=conversation.messages.order_by("created_seq").last(),
        role=Message.Role.USER,
        client_id=client_id,
    )
    Part.objects.create(message=question, position=0, kind=Part.Kind.TEXT, text=text)
    answer = Message.objects.create(
        conversation=conversation, parent=question, role=Message.Role.ASSISTANT
    )
    return question, answer


def title_of(text: str) -> str:
    """A conversation's title: the first words of its first message, on one line."""
    words = " ".join(text.split())
    if len(words) <= TITLE_CHARACTERS:
        return words
    return f"{words[:TITLE_CHARACTERS].rsplit(' ', 1)[0]}…"


def stop(conversation: Conversation) -> None:
    """Stop the live turn, if there is one: at once when nobody moves it, else its worker does."""
    with transaction.atomic():
        turn = (
            Turn.objects.select_for_update()
            .filter(conversation=conversation, state__in=Turn.LIVE)
            .first()
        )
        if turn is None:
            return
        if turn.state == Turn.State.RUNNING:
            Turn.objects.filter(pk=turn.pk).update(stop_requested=True, signals=turn.signals + 1)
            transaction.on_commit(lambda: wake(turn.pk))
        else:
            end(turn, "stopped")
    # A running turn's worker is told in this process at once, elsewhere by its next look.


def unknown_services(names: list[str]) -> list[str]:
    """Of these names, the ones that no enabled service has."""
    known = Service.objects.filter(name__in=names, is_enabled=True).values_list("name", flat=True)
    return sorted(set(names) - set(known))
