"""How often a person used a tool today, in chats and in manual runs, for the daily limits."""

from collections import Counter
from collections.abc import Iterable

from django.db.models import Count, Q
from django.utils import timezone

from chatapp.models import Member, ToolCall, Trial


def count_uses_today(
    person: Member, service_id: int | None, tool: str, besides: ToolCall | None = None
) -> int:
    """Count the uses that were sent since midnight (UTC) and the calls that may be sent now.

    `besides` is the call to be decided. Without a service, the tool is a core tool.
    """
    midnight = timezone.now().replace(hour=0, minute=0, second=0, microsecond=0)
    is_next = Q(state=ToolCall.State.APPROVED)
    of_tool = {"service_id": service_id, "tool_name": tool}
    in_chats = ToolCall.objects.filter(
        Q(sent_at__gte=midnight) | is_next, turn__conversation__owner=person, **of_tool
    )
    if besides is not None:
        in_chats = in_chats.filter(_is_before(besides))
    by_hand = Trial.objects.filter(person=person, sent_at__gte=midnight, **of_tool)
    return in_chats.count() + by_hand.count()


def count_all_uses_today(people: Iterable[int]) -> Counter[tuple[int, int | None, str]]:
    """Count the same for every tool of these people, by person, service and tool, in two
    statements."""
    midnight = timezone.now().replace(hour=0, minute=0, second=0, microsecond=0)
    is_next = Q(state=ToolCall.State.APPROVED)
    owner, found = "turn__conversation__owner_id", Counter[tuple[int, int | None, str]]()
    in_chats = ToolCall.objects.filter(
        Q(sent_at__gte=midnight) | is_next, **{f"{owner}__in": people}
    )
    by_hand = Trial.objects.filter(sent_at__gte=midnight, person__in=people)
    for rows, person in ((in_chats, owner), (by_hand, "person_id")):
        counted = rows.order_by().values_list(person, "service_id", "tool_name")
        for *key, number in counted.annotate(number=Count("pk")):
            found[key[0], key[1], key[2]] += number
    return found


def _is_before(call: ToolCall) -> Q:
    """Return the condition for calls that count before this one.

    In the same turn, those are the earlier calls. In other turns, those are sent calls and, while
    this call is not approved, approved ones: an approved call must not lose its place to one that
    was approved later.
    """
    is_earlier = Q(step__lt=call.step) | Q(step=call.step, position__lt=call.position)
    elsewhere = ~Q(turn=call.turn_id)
    if call.state == ToolCall.State.APPROVED:
        elsewhere &= Q(sent_at__isnull=False)
    return Q(turn=call.turn_id) & is_earlier | elsewhere


def lock_person(person: Member) -> None:
    """Lock the person until the transaction ends.

    Without the lock, two chats could each find one use left. SQLite has one writer at a time
    anyway.
    """
    Member.objects.select_for_update(no_key=True).get(pk=person.pk)
