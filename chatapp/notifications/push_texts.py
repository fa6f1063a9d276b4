"""What a push message says: which kind of thing waits, and the title of the chat unless the person
hides it. It never has a value of a call or the text of a message."""

import uuid
from collections.abc import Sequence
from datetime import timedelta

from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from chatapp.approvals.inbox import list_all_waiting
from chatapp.models import Member, Notification, NotificationPreference, Turn
from chatapp.rendering.pages.inbox import KIND_TEXTS, WaitingItem
from chatapp.server.languages import speaking

from .links import find_path
from .push_messages import PushMessage

WAITING_KEPT = timedelta(days=1)
ANSWERS_KEPT = timedelta(hours=4)
# A push service replaces a message that it still has by the next one about the same topic.
ALL_WAITING = "waiting"
TEST = "test"


def build_message(person: Member, notification_ids: Sequence[uuid.UUID]) -> PushMessage | None:
    """Return the message about these, or None if all were answered or read meanwhile."""
    related = ("conversation", "turn")
    notifications = list(
        Notification.objects.filter(pk__in=notification_ids, person=person).select_related(*related)
    )
    shows_titles = NotificationPreference.of(person).shows_titles
    with speaking(person.reading_language):
        if any(notification.turn_id for notification in notifications):
            return _describe_answer(notifications[0], shows_titles=shows_titles)
        return _describe_waiting(person, notifications, shows_titles=shows_titles)


def build_test(person: Member) -> PushMessage:
    with speaking(person.reading_language):
        return PushMessage(
            title="Countersign",
            body=_("Push messages reach this device."),
            path=reverse("settings") + "#notifications",
            topic=TEST,
            ttl=60,
            is_urgent=True,
        )


def _describe_answer(notification: Notification, *, shows_titles: bool) -> PushMessage | None:
    chat, turn = notification.conversation, notification.turn
    if turn is None or not chat.has_news or chat.deleted_at:
        return None
    has_failed = turn.state == Turn.State.FAILED
    title = _("An answer failed") if has_failed else _("An answer is finished")
    return PushMessage(
        title=title if shows_titles else "Countersign",
        body=str(chat) if shows_titles else _describe_plainly(),
        path=find_path(chat.pk, None),
        topic=chat.pk.hex,
        ttl=int(ANSWERS_KEPT.total_seconds()),
        is_urgent=False,
    )


def _describe_waiting(
    person: Member, notifications: Sequence[Notification], *, shows_titles: bool
) -> PushMessage | None:
    told = {
        (notification.call_id, notification.thing): notification for notification in notifications
    }
    waiting = [each for each in list_all_waiting(person) if (each.call_id, each.thing) in told]
    if not waiting:
        return None
    is_one = len(waiting) == 1
    notification = told[waiting[0].call_id, waiting[0].thing]
    title, body = (
        _name_one(person, waiting[0], notification)
        if is_one
        else _name_several(person, notifications, waiting)
    )
    return PushMessage(
        title=title if shows_titles else "Countersign",
        body=body if shows_titles else _describe_plainly(),
        path=find_path(notification.conversation_id, notification.call_id)
        if is_one
        else reverse("approvals"),
        topic=waiting[0].call_id.hex if is_one else ALL_WAITING,
        ttl=int(WAITING_KEPT.total_seconds()),
        is_urgent=True,
    )


def _name_one(person: Member, item: WaitingItem, notification: Notification) -> tuple[str, str]:
    return str(KIND_TEXTS[item.kind].heading), _name_chat(person, notification)


def _name_several(
    person: Member, notifications: Sequence[Notification], waiting: Sequence[WaitingItem]
) -> tuple[str, str]:
    title = ngettext(
        "%(count)d request waits for you", "%(count)d requests wait for you", len(waiting)
    )
    names = dict.fromkeys(_name_chat(person, notification) for notification in notifications)
    return title % {"count": len(waiting)}, ", ".join(name for name in names if name)[:200]


def _name_chat(person: Member, notification: Notification) -> str:
    """Return the title of the person's own chat. A second signer does not see the chat."""
    chat = notification.conversation
    return str(chat) if chat.owner_id == person.pk else ""


def _describe_plainly() -> str:
    return _("Something waits for you.")
