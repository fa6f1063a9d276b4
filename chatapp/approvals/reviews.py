"""What a person says about a result that the assistant has not seen: give it, or hold it back. The
first word counts, about exactly what was shown; silence never gives anything away."""

from django.db import transaction
from django.db.models import QuerySet
from django.db.models.functions import Now
from django.utils import timezone

from chatapp.models import Member, Review, ToolCall

from . import journal
from .answers import REASON_CHARACTERS
from .calling import wake
from .ending import signal
from .held_results import binding_of_result
from .refusals import CHANGED, Refused, refuse_haste


def open_reviews(person: Member) -> QuerySet[ToolCall]:
    """The calls of this person's chats whose results wait for their look, the oldest first."""
    return (
        ToolCall.objects.filter(turn__conversation__owner=person, review__state=Review.State.OPEN)
        .select_related("turn__conversation", "service", "definition", "approval", "review")
        .order_by("review__created_at", "step", "position")
    )


def give(call: ToolCall, *, by: Member, binding: str, shown_at: float | None) -> None:
    """Let the assistant see this result. `shown_at` as for `answers.grant`."""
    refuse_haste(shown_at)
    _settle(call, Review.State.GIVEN, by, binding, "")


def hold_back(call: ToolCall, *, by: Member, binding: str, reason: str = "") -> None:
    """Keep this result from the assistant; `reason` is a word to it."""
    if len(reason) > REASON_CHARACTERS:
        raise Refused(f"Keep the word to the assistant under {REASON_CHARACTERS:,} characters.")
    _settle(call, Review.State.HELD_BACK, by, binding, reason.strip())


def _settle(call: ToolCall, state: Review.State, by: Member, binding: str, reason: str) -> None:
    with transaction.atomic():
        turn = signal(call.turn_id)
        stored = ToolCall.objects.get(pk=call.pk)
        is_same = binding_of_result(stored) == binding
        settled = is_same and Review.objects.filter(
            tool_call=call, state=Review.State.OPEN, binding=binding, expires_at__gt=Now()
        ).update(state=state, reason=reason, decided_by=by, decided_at=Now())
        if not settled:
            raise Refused(_why_too_late(call), 409)
        journal.tell_call(turn, call.pk, stored.state)
        transaction.on_commit(lambda: wake(turn.pk))


def _why_too_late(call: ToolCall) -> str:
    review = Review.objects.select_related("decided_by").filter(tool_call=call).first()
    if review is None:
        return "Nobody was asked about this result."
    match review.state:
        case Review.State.GIVEN:
            return f"Already given to the assistant by {review.decided_by or 'somebody'}."
        case Review.State.HELD_BACK:
            return f"Already held back by {review.decided_by or 'somebody'}."
        case Review.State.WITHDRAWN:
            return "The answer has ended, so this result was held back."
        case Review.State.OPEN if review.expires_at > timezone.now():
            return CHANGED
        case _:
            return "This came too late, so the result was held back."


def expire_reviews() -> None:
    """Hold back what nobody looked at in time; the model is told."""
    late = Review.objects.filter(state=Review.State.OPEN, expires_at__lte=Now())
    for review in late.select_related("tool_call")[:100]:
        _expire(review)


def _expire(review: Review) -> None:
    call = review.tool_call
    with transaction.atomic():
        turn = signal(call.turn_id)
        closed = Review.objects.filter(pk=review.pk, state=Review.State.OPEN).update(
            state=Review.State.EXPIRED, decided_at=Now()
        )
        if closed:
            journal.tell_call(turn, call.pk, call.state)
