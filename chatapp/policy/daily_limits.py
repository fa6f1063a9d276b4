"""How often a person used a tool today, in chats and by hand: what the limits of a day count."""

from django.db.models import Q
from django.utils import timezone

from chatapp.models import Member, ToolCall, Trial


def uses_today(
    person: Member, service_id: int | None, tool: str, besides: ToolCall | None = None
) -> int:
    """The uses that were sent since midnight (UTC), and the calls that may be sent now, `besides` a
    call that is decided. Without a service it is a tool of our own."""
    midnight = timezone.now().replace(hour=0, minute=0, second=0, microsecond=0)
    is_next = Q(state=ToolCall.State.APPROVED)
    of_tool = {"service_id": service_id, "tool_name": tool}
    in_chats = ToolCall.objects.filter(
        Q(sent_at__gte=midnight) | is_next, turn__conversation__owner=person, **of_tool
    )
    if besides is not None:
        in_chats = in_chats.filter(_comes_before(besides))
    by_hand = Trial.objects.filter(person=person, sent_at__gte=midnight, **of_tool)
    return in_chats.count() + by_hand.count()


def _comes_before(call: ToolCall) -> Q:
    """Of its own turn, the earlier calls. Elsewhere, what was sent, and while it is not allowed
    yet, what may be sent: once it is, whatever was allowed after it must not take its place."""
    is_earlier = Q(step__lt=call.step) | Q(step=call.step, position__lt=call.position)
    elsewhere = ~Q(turn=call.turn_id)
    if call.state == ToolCall.State.APPROVED:
        elsewhere &= Q(sent_at__isnull=False)
    return Q(turn=call.turn_id) & is_earlier | elsewhere


def one_at_a_time(person: Member) -> None:
    """Hold, until the transaction ends, what decides about this person's uses elsewhere: two chats
    would each find one use left. SQLite writes one at a time anyway."""
    Member.objects.select_for_update(no_key=True).get(pk=person.pk)
