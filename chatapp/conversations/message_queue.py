"""The queue of a chat: messages that people write while the assistant works. Each is sent when the
answer before it is complete.

A queued message is checked again when it is sent: the model, the allowance and the attachments may
have changed. What cannot be sent, or follows an answer that did not finish, waits for its person.
"""

import uuid
from collections.abc import Sequence

from django.db import transaction
from django.db.models import Exists, OuterRef, QuerySet, Subquery
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from chatapp.context import attachments as attaching
from chatapp.journal import journal
from chatapp.models import Conversation, Member, Message, QueuedMessage, Turn
from chatapp.people.refused import Refused
from chatapp.server.compiled_queries import compiled
from chatapp.server.languages import speaking

from . import drafts, intake
from .intake import StillWorking, lock_latest

MAX_QUEUED = 10


def send_or_queue(
    person: Member,
    conversation: Conversation,
    *,
    text: str,
    model: str,
    client_id: uuid.UUID | None = None,
    attachments: Sequence[uuid.UUID] = (),
    effort: str = "",
    waits: bool = False,
) -> Turn | QueuedMessage:
    """Send a message, or queue it while the assistant works. With `waits`, also queue it while a
    request is open, which sending would cancel. Raises Refused."""
    message = QueuedMessage(
        conversation=conversation,
        client_id=client_id or uuid.uuid4(),
        text=text,
        model=model,
        attachments=[str(each) for each in attachments],
        effort=effort,
    )
    if waits and (queued := _queue(person, message)):
        return queued
    try:
        return _send(person, message)
    except StillWorking:
        # The answer may have ended since the attempt to send.
        return _queue(person, message) or _send(person, message)


def send_now(person: Member, conversation: Conversation, message_id: int) -> None:
    """Send a queued message before the others. An answer in progress is stopped first, and an open
    request is cancelled, as by any new message. Raises Refused."""
    with transaction.atomic():
        latest = lock_latest(conversation)
        message = _find(conversation, message_id)
        if latest is not None and latest.state in (Turn.State.QUEUED, Turn.State.RUNNING):
            _filter_queue(conversation).filter(is_urgent=True).update(is_urgent=False)
            _filter_queue(conversation).filter(pk=message.pk).update(is_urgent=True, problem="")
            intake.stop(conversation)
        else:
            _send(person, message)
            message.delete()
        _announce(conversation)


def take_back(
    person: Member,
    conversation: Conversation,
    message_id: int,
    *,
    text: str,
    attachments: Sequence[uuid.UUID],
    client_id: uuid.UUID | None = None,
) -> None:
    """Move a queued message into the message box, before the `text` that is there now. The result
    is the draft of the chat, and the box with this `client_id` saves nothing any more. Raises
    Refused."""
    with transaction.atomic():
        lock_latest(conversation)
        message = _find(conversation, message_id)
        ids = [*map(uuid.UUID, message.attachments), *attachments]
        texts = [each for each in (message.text, text) if each.strip()]
        whole, files = "\n\n".join(texts), list(dict.fromkeys(ids))
        intake.check_characters(whole)
        attaching.check_number(len(files))
        drafts.store_draft(
            person, conversation, whole, files, client_id=uuid.uuid4(), replaced_id=client_id
        )
        message.delete()
        _announce(conversation)


def remove(conversation: Conversation, message_id: int) -> None:
    """Remove a message from the queue without sending it."""
    with transaction.atomic():
        lock_latest(conversation)
        _find(conversation, message_id).delete()
        _announce(conversation)


def send_next(conversation_id: uuid.UUID) -> bool:
    """Send the first message of the queue if the last answer of the chat is complete. Called when
    an answer has ended. Return whether the chat has a queue."""
    queue = QueuedMessage.objects.filter(conversation=conversation_id)
    message = queue.select_related("conversation__owner").first()
    if message is None:
        return False
    conversation = message.conversation
    if conversation.deleted_at is None and conversation.owner.is_active:
        with speaking(conversation.owner.reading_language):
            _send_first(conversation)
    return True


@compiled
def find_sendable() -> QuerySet[QueuedMessage, uuid.UUID]:
    """Select chats with a queued message that nothing holds back, because the process that should
    have sent it has ended or was busy elsewhere."""
    live = Turn.objects.filter(conversation=OuterRef("conversation"), state__in=Turn.LIVE)
    queue = QueuedMessage.objects.filter(conversation=OuterRef("conversation"))
    waiting = QueuedMessage.objects.filter(
        pk=Subquery(queue.values("pk")[:1]),
        problem="",
        conversation__deleted_at=None,
        conversation__owner__is_active=True,
    )
    chats = waiting.exclude(Exists(live)).order_by("pk")
    return chats.values_list("conversation", flat=True)[:100]


@transaction.atomic
def _send_first(conversation: Conversation) -> None:
    latest = lock_latest(conversation)
    message = _filter_queue(conversation).first()
    if latest is None or latest.is_live or message is None or message.problem:
        return
    if latest.conversation.deleted_at is not None:
        return
    problem = ""
    if not (latest.is_complete or message.is_urgent):
        problem = _(
            "Not sent, because the last answer is not complete. Send it now, edit it, or remove it."
        )
    else:
        try:
            with transaction.atomic():
                _send(conversation.owner, message)
                message.delete()
        except StillWorking:
            # A turn has begun while this waited for the lock of the one before.
            return
        except Refused as refused:
            problem = refused.sentence
    if problem:
        _filter_queue(conversation).filter(pk=message.pk).update(problem=problem, is_urgent=False)
    _announce(conversation)


def _send(person: Member, message: QueuedMessage) -> Turn:
    return intake.receive(
        person,
        message.conversation,
        text=message.text,
        model=message.model,
        client_id=message.client_id,
        attachments=[uuid.UUID(each) for each in message.attachments],
        effort=message.effort,
    )


def _queue(person: Member, message: QueuedMessage) -> QueuedMessage | None:
    """Store a message in the queue of its chat. Return None if nothing is live there or if it was
    sent before: then `_send` may have it. Raises Refused."""
    intake.check_text(message.text)
    intake.check_effort(message.effort)
    intake.check_may_ask(person, message.model)
    attaching.load_drafts(person, [uuid.UUID(each) for each in message.attachments])
    conversation = message.conversation
    with transaction.atomic():
        latest = lock_latest(conversation)
        if known := QueuedMessage.objects.filter(client_id=message.client_id).first():
            if known.conversation_id != conversation.pk:
                raise Refused(intake.NOT_VALID)
            return known
        was_sent = Message.objects.filter(client_id=message.client_id).exists()
        if was_sent or latest is None or not latest.is_live:
            return None
        _check_room(conversation, message)
        message.save()
        _announce(conversation)
    return message


def _check_room(conversation: Conversation, message: QueuedMessage) -> None:
    if _filter_queue(conversation).count() >= MAX_QUEUED:
        sentence = ngettext(
            "A chat can have %(count)d queued message. Wait, or remove it.",
            "A chat can have %(count)d queued messages. Wait, or remove one.",
            MAX_QUEUED,
        )
        raise Refused(sentence % {"count": MAX_QUEUED}, 409)
    if message.attachments:
        ids = [uuid.UUID(each) for each in message.attachments]
        attaching.check_room_for_queued(conversation.owner, ids)


def _find(conversation: Conversation, message_id: int) -> QueuedMessage:
    """Return a message of the queue. Raises Refused if it is not there any more."""
    message = _filter_queue(conversation).filter(pk=message_id).first()
    if message is None:
        raise Refused(_("This message is no longer in the queue. It was sent or removed."), 409)
    message.conversation = conversation
    return message


def _filter_queue(conversation: Conversation) -> QuerySet[QueuedMessage]:
    return QueuedMessage.objects.filter(conversation=conversation)


def _announce(conversation: Conversation) -> None:
    """Have open pages show the queue as it is after the commit."""
    journal.append(conversation.pk, None, [journal.queue_entry()])
