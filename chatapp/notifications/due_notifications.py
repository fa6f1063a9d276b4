"""Which notifications are due: what began to wait, and which answers ended, without being seen for
some seconds. Each is claimed once for a person's devices and once for each webhook."""

import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import Exists, F, OuterRef, Q, QuerySet
from django.db.models.functions import Now
from django.utils import timezone

from chatapp.approvals.inbox import list_all_waiting
from chatapp.models import (
    Approval,
    JournalEvent,
    Member,
    Notification,
    NotificationPreference,
    PersonSignal,
    PushDevice,
    Question,
    Review,
    ToolCall,
    Turn,
    Webhook,
)
from chatapp.people.second_signers import find_people_asked
from chatapp.rendering.pages.inbox import WaitingItem
from chatapp.server.compiled_queries import compiled

from . import devices

# What is answered or read within this time is not told.
GRACE = timedelta(seconds=10)
# What has waited for longer, such as while no worker ran, is left to the inbox and its mail.
FRESH = timedelta(days=1)
# For how long a signal leads to its person. What is missed is found by the look for all.
NEWS_KEPT = 3 * GRACE
KEPT = timedelta(days=30)
MAX_PER_PERSON = 50
State = ToolCall.State
# SQLite finds states joined by OR in the index, and not those of a list.
WAITING = (
    Q(state=State.AWAITING_APPROVAL)
    | Q(state=State.AWAITING_INPUT)
    | Q(state=State.AWAITING_SIGN_IN)
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """A message to each of these devices about these notifications."""

    device_ids: tuple[uuid.UUID, ...]
    notification_ids: tuple[uuid.UUID, ...]


@dataclass(slots=True, kw_only=True)
class Claimed:
    """What has to be sent: messages to devices, and notifications to their webhooks."""

    pushes: list[Delivery] = field(default_factory=list)
    posts: list[uuid.UUID] = field(default_factory=list)


# --- who ---------------------------------------------------------------------------------------
def has_receivers() -> bool:
    """Whether anybody could be told anything."""
    return _pushes_anybody() or bool(_find_webhook())


def has_news() -> bool:
    """Whether something changed lately that somebody may have to be told."""
    return has_receivers() and (_filter_signals().exists() or _filter_ended_turns().exists())


def find_people_with_news() -> list[int]:
    """Return the people for whom something ended or began to wait lately, if they can be told. A
    busy person for whom nothing waits is not among them, as each of them costs many statements."""
    told = Notification.objects.filter(turn=OuterRef("pk"))
    ended = _filter_ended_turns().exclude(Exists(told))
    people = set(ended.values_list("conversation__owner", flat=True))
    signalled = set(_filter_signals().values_list("person", flat=True))
    if signalled:
        people |= signalled & _find_people_asked()
    return _filter_receivers(people) if people else []


def find_all_people() -> list[int]:
    """Return all for whom something may wait, if they can be told. This finds what a signal was
    lost for."""
    return _filter_receivers(_find_people_asked())


def _filter_signals() -> QuerySet[PersonSignal]:
    """Return the signals of changes that have waited for the grace, and not for much longer."""
    return PersonSignal.objects.filter(
        created_at__lte=Now() - GRACE, created_at__gte=Now() - NEWS_KEPT
    )


def _find_people_asked() -> set[int]:
    """Return the ids of all for whom something may wait. Of all calls few wait, and each of these
    statements finds them by an index."""
    fresh_unknown = Q(state=State.UNKNOWN, sent_at__gte=Now() - FRESH)
    of_call = "turn__conversation__owner"
    people: set[int] = set()
    for waiting, owner in (
        (ToolCall.objects.filter(WAITING | fresh_unknown), of_call),
        (Question.objects.filter(state=Question.State.OPEN), f"tool_call__{of_call}"),
        (Review.objects.filter(state=Review.State.OPEN), f"tool_call__{of_call}"),
    ):
        people.update(waiting.order_by().values_list(owner, flat=True).distinct())
    signed = Approval.objects.filter(state=Approval.State.OPEN, first_at__isnull=False)
    return people | find_people_asked(signed.values_list("pk", flat=True))


def _filter_receivers(people: Iterable[int]) -> list[int]:
    found = Member.objects.filter(pk__in=list(people), is_active=True)
    webhooks = list(_filter_webhooks())
    if not any(each.audience == Webhook.Audience.EVERYONE for each in webhooks):
        receives = Q(groups__webhooks__in=webhooks) | Q(webhooks__in=webhooks)
        if settings.PUSH_NOTIFICATIONS:
            receives |= Q(push_devices__isnull=False)
        found = found.filter(receives).distinct()
    return list(found.order_by("pk").values_list("pk", flat=True))


def _pushes_anybody() -> bool:
    return settings.PUSH_NOTIFICATIONS and bool(_find_device())


# These two are asked every few seconds.
@compiled
def _find_device() -> QuerySet[PushDevice, uuid.UUID]:
    return PushDevice.objects.values_list("pk", flat=True)[:1]


@compiled
def _find_webhook() -> QuerySet[Webhook, int]:
    return _filter_webhooks().order_by().values_list("pk", flat=True)[:1]


def _filter_webhooks() -> QuerySet[Webhook]:
    return Webhook.objects.filter(is_enabled=True)


def list_webhooks(person: Member) -> list[Webhook]:
    """Return the webhooks that are told what waits for this person, unless they opted out."""
    chosen = Q(groups__user=person) | Q(members=person)
    meant = Q(audience=Webhook.Audience.EVERYONE) | chosen
    return list(_filter_webhooks().filter(meant).distinct())


# --- what --------------------------------------------------------------------------------------
def claim(person_id: int) -> Claimed:
    """Return what this person is to be told now, for one process only, inside the caller's
    transaction."""
    claimed = Claimed()
    person = Member.objects.filter(pk=person_id, is_active=True).first()
    if person is None:
        return claimed
    preference = NotificationPreference.of(person)
    device_ids = _list_device_ids(person) if settings.PUSH_NOTIFICATIONS else ()
    webhooks = list_webhooks(person) if preference.uses_webhooks else []
    if not device_ids and not webhooks:
        return claimed
    waiting, ended = _list_new_items(person), list(_filter_ended_turns(person))
    if device_ids:
        if preference.pushes_waiting and (new := _claim_items(waiting, person=person)):
            claimed.pushes.append(Delivery(device_ids=device_ids, notification_ids=tuple(new)))
        if preference.pushes_answers:
            claimed.pushes += [
                Delivery(device_ids=device_ids, notification_ids=(notification_id,))
                for notification_id in _claim_turns(ended, person=person)
            ]
    for webhook in webhooks:
        if webhook.sends_waiting:
            claimed.posts += _claim_items(waiting, webhook=webhook)
        if webhook.sends_answers:
            claimed.posts += _claim_turns(ended, webhook=webhook)
    return claimed


def is_open(call: ToolCall, kind: str) -> bool:
    """Whether somebody still has to do something about this call."""
    if kind == "second":
        return Approval.objects.filter(pk=call.pk, state=Approval.State.OPEN).exists()
    waiting = list_all_waiting(call.turn.conversation.owner)
    return any((each.call_id, each.kind) == (call.pk, kind) for each in waiting)


def delete_old() -> None:
    Notification.objects.filter(created_at__lt=Now() - KEPT).delete()


def _list_device_ids(person: Member) -> tuple[uuid.UUID, ...]:
    return tuple(device.pk for device in devices.filter_live(person))


def _list_new_items(person: Member) -> list[WaitingItem]:
    now = timezone.now()
    return [
        each
        for each in list_all_waiting(person)
        if each.since and now - FRESH <= each.since <= now - GRACE
    ][:MAX_PER_PERSON]


def _filter_ended_turns(person: Member | None = None) -> QuerySet[Turn]:
    """Return the turns that ended in the last minute, as long as the journal has their end, in
    chats that their people did not have open. Those of programs and apps are left out."""
    ends = JournalEvent.objects.filter(kind=JournalEvent.Kind.TURN).values("turn")
    turns = Turn.objects.filter(
        pk__in=ends,
        state__in=(Turn.State.DONE, Turn.State.FAILED),
        finished_at__lte=Now() - GRACE,
        token=None,
        app_of=None,
        conversation__deleted_at=None,
        conversation__is_temporary=False,
        conversation__active_at__gt=F("conversation__read_at"),
    )
    return turns if person is None else turns.filter(conversation__owner=person)


def _claim_items(items: Sequence[WaitingItem], **receiver: Any) -> list[uuid.UUID]:
    """Store a notification for each of these items that this receiver was not told. Return their
    ids."""
    told = set(
        Notification.objects.filter(
            call__in=[each.call_id for each in items], **receiver
        ).values_list("call_id", "thing")
    )
    new = [each for each in items if (each.call_id, each.thing) not in told]
    calls = ToolCall.objects.filter(pk__in=[each.call_id for each in new])
    chats = dict(calls.values_list("pk", "turn__conversation")) if new else {}
    return _store(
        {"conversation_id": chats[each.call_id], "call_id": each.call_id, "thing": each.thing}
        | receiver
        for each in new
        if each.call_id in chats
    )


def _claim_turns(turns: Sequence[Turn], **receiver: Any) -> list[uuid.UUID]:
    """Do the same with turns that ended."""
    told = set(
        Notification.objects.filter(turn__in=turns, **receiver).values_list("turn", flat=True)
    )
    return _store(
        {"conversation_id": turn.conversation_id, "turn": turn} | receiver
        for turn in turns
        if turn.pk not in told
    )


def _store(rows: Iterable[dict[str, Any]]) -> list[uuid.UUID]:
    """Store notifications, each for one process only: another may store the same one meanwhile."""
    stored = []
    for values in rows:
        key = {name: value for name, value in values.items() if name != "conversation_id"}
        with transaction.atomic():
            notification, is_new = Notification.objects.get_or_create(
                **key, defaults={"conversation_id": values["conversation_id"]}
            )
        if is_new:
            stored.append(notification.pk)
    return stored
