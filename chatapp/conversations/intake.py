"""What a person asks of a conversation: a new message, and Stop."""

import uuid
from collections.abc import Sequence

from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models.functions import Now

from chatapp.models import Attachment, Conversation, LogEntry, Member, Message, Part, Turn
from chatapp.providers.events import ProviderError
from mcpconfig.models import Service

from . import attachments as attaching
from . import journal, log, usage
from .calling import wake
from .ending import end
from .log import Happening, Who
from .milestones import passed
from .model_choice import chosen_model
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
    attachments: Sequence[uuid.UUID] = (),
    mode: str = "",
    tools: str = "",
) -> Turn:
    """Accept a message and queue its turn; None starts a conversation. Raises Refused.

    The same `client_id` again gives the turn of the first time. A turn that waits for an answer is
    ended: what it asked for is withdrawn, and the model is told so. `mode` and `tools`
    (“off”: it uses none) are those of a new conversation.
    """
    if client_id is not None and (known := _already_accepted(person, client_id)):
        return known
    check_text(text)
    check_may_ask(person, model)
    files = attaching.chosen(person, attachments)
    try:
        with transaction.atomic():
            begun = conversation or _begun(person, text, model, mode, tools)
            turn = _accept(begun, text, model, client_id, services, files, conversation is None)
            if conversation is None:
                log_first_mode(begun)
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
        raise Refused(too_long(f"{len(text):,}"))
    if "\x00" in text:
        raise Refused("This message contains a character that cannot be stored. Remove it.")


def too_long(count: str = "too many") -> str:
    """Why a message is refused that has so many characters, or more than anybody counted."""
    most = settings.MESSAGE_MAX_CHARACTERS
    return (
        f"This message has {count} characters; the limit is {most:,}. Shorten it, or send it in "
        "parts."
    )


def check_may_ask(person: Member, model: str) -> None:
    """Refuse a model that this person cannot ask, and one more question once an allowance of theirs
    is used up, in words."""
    try:
        chosen_model(model, person)
    except ProviderError as error:
        raise Refused(" ".join(filter(None, [error.message, error.hint]))) from None
    if sentence := usage.used_up(person):
        raise Refused(f"{sentence} {usage.hint()}", 409)


def _already_accepted(person: Member, client_id: uuid.UUID) -> Turn | None:
    return Turn.objects.filter(question__client_id=client_id, conversation__owner=person).first()


def _begun(person: Member, text: str, model: str, mode: str, tools: str) -> Conversation:
    known = mode if mode in Conversation.Mode.values else Conversation.Mode.ACT
    return Conversation.objects.create(
        owner=person,
        title=title_of(text),
        model=model,
        mode=known,
        uses_tools=tools != "off",
    )


def _accept(
    conversation: Conversation,
    text: str,
    model: str,
    client_id: uuid.UUID | None,
    services: list[str] | None,
    files: Sequence[Attachment],
    is_new: bool,
) -> Turn:
    latest = None
    if not is_new:
        _make_way(conversation)
        # A chat of a program that a person writes in is theirs from here on.
        Conversation.objects.filter(pk=conversation.pk).update(
            active_at=Now(), model=model, token=None
        )
        latest = conversation.messages.order_by("created_seq").last()
    question, answer = _store_messages(conversation, latest, text, client_id)
    attaching.send_with(question, files)
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


def lock_latest(conversation: Conversation) -> Turn | None:
    """The latest turn, locked until the caller's commit: what a person does to a chat comes one
    after another, and the turn before the conversation, as everywhere."""
    turns = Turn.objects.select_for_update().filter(conversation=conversation)
    return turns.order_by("created_at").last()


def _make_way(conversation: Conversation) -> None:
    """End a turn that waits for a person, who has written something else; a working one refuses."""
    lock_latest(conversation)
    live = Turn.objects.select_for_update().filter(conversation=conversation, state__in=Turn.LIVE)
    for turn in live:
        if turn.state != Turn.State.WAITING:
            raise Refused(STILL_WORKING, 409)
        end(turn, "stopped", "You wrote a new message, so the open question was withdrawn.")


def _store_messages(
    conversation: Conversation, latest: Message | None, text: str, client_id: uuid.UUID | None
) -> tuple[Message, Message]:
    """The person's message after the latest one, and the answer that will follow it."""
    question = Message(
        conversation=conversation, parent=latest, role=Message.Role.USER, client_id=client_id
    )
    answer = Message(conversation=conversation, parent=question, role=Message.Role.ASSISTANT)
    Message.objects.bulk_create([question, answer])
    Part.objects.create(message=question, position=0, kind=Part.Kind.TEXT, text=text)
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


def unknown_services(person: Member, names: list[str]) -> list[str]:
    """Of these names, the ones that no service has which this person may use."""
    known = Service.objects.for_member(person).filter(name__in=names)
    return sorted(set(names) - set(known.values_list("name", flat=True)))


def switch_mode(conversation: Conversation, mode: str) -> None:
    """Let a chat plan or act, from the next call of a model or a tool on. Its owner does."""
    if mode not in Conversation.Mode.values:
        raise Refused("A chat plans or acts.")
    with transaction.atomic():
        latest = lock_latest(conversation)
        others = Conversation.objects.filter(pk=conversation.pk).exclude(mode=mode)
        has_switched = others.update(mode=mode) == 1
        if latest is not None:
            entry = journal.turn_entry(latest, latest.state)
            journal.append(conversation.pk, latest.pk, [entry])
        if has_switched:
            log.append([_switched(conversation, mode)])
    conversation.mode = mode


def log_first_mode(conversation: Conversation) -> None:
    """A chat that plans from its beginning is logged as one that was switched to it: without this,
    nothing in the log would say in which mode its first calls were decided."""
    if conversation.mode != Conversation.Mode.ACT:
        log.append([_switched(conversation, conversation.mode)])


def _switched(conversation: Conversation, mode: str) -> Happening:
    owner = Who.of(conversation.owner)
    return Happening(
        kind=LogEntry.Kind.MODE,
        data={"mode": mode},
        actor=owner,
        person=owner,
        conversation_id=conversation.pk,
    )
