"""A person's reviews of results that the model has not read: give a result, or hold it back. The
first review counts, for exactly what was shown. Without a review in time it is held back."""

from django.db import transaction
from django.db.models import QuerySet
from django.db.models.functions import Now
from django.utils import timezone
from django.utils.translation import gettext as _

from chatapp.context.withheld_results import hash_result
from chatapp.journal import journal
from chatapp.journal.journal import signal_turn, wake
from chatapp.models import Member, Review, ToolCall
from chatapp.people.refused import CHANGED, Refused, refuse_haste

from .decisions import check_note


def filter_open_reviews(person: Member) -> QuerySet[ToolCall]:
    """Return the calls of this person's chats whose results wait for review, oldest first."""
    return (
        ToolCall.objects.filter(turn__conversation__owner=person, review__state=Review.State.OPEN)
        .select_related("turn__conversation", "service", "definition", "approval", "review")
        .order_by("review__created_at", "step", "position")
    )


def give_result(call: ToolCall, *, by: Member, binding: str, shown_at: float | None) -> None:
    """Let the model read this result. `shown_at` as for `decisions.grant`."""
    refuse_haste(shown_at)
    _settle(call, Review.State.GIVEN, by, binding, "")


def withhold_result(call: ToolCall, *, by: Member, binding: str, reason: str = "") -> None:
    """Keep this result from the model; `reason` is a note to it."""
    check_note(reason)
    _settle(call, Review.State.HELD_BACK, by, binding, reason.strip())


def _settle(call: ToolCall, state: Review.State, by: Member, binding: str, reason: str) -> None:
    with transaction.atomic():
        turn = signal_turn(call.turn_id)
        stored = ToolCall.objects.get(pk=call.pk)
        is_same = hash_result(stored) == binding
        settled = is_same and Review.objects.filter(
            tool_call=call, state=Review.State.OPEN, binding=binding, expires_at__gt=Now()
        ).update(state=state, reason=reason, decided_by=by, decided_at=Now())
        if not settled:
            raise Refused(_explain_too_late(call), 409)
        journal.append_call(turn, call.pk, stored.state)
        transaction.on_commit(lambda: wake(turn.pk))


def _explain_too_late(call: ToolCall) -> str:
    review = Review.objects.select_related("decided_by").filter(tool_call=call).first()
    if review is None:
        return _("This result does not wait for review.")
    match review.state:
        case Review.State.GIVEN:
            return _explain_settled(review)
        case Review.State.HELD_BACK:
            return _explain_settled(review)
        case Review.State.WITHDRAWN:
            return _("The answer has ended, so this result was withheld.")
        case Review.State.OPEN if review.expires_at > timezone.now():
            return str(CHANGED)
        case _:
            return _("Your review came too late, so the result was withheld.")


def _explain_settled(review: Review) -> str:
    by, name = review.decided_by, {"name": review.decided_by}
    if review.state == Review.State.GIVEN:
        return _("Already shared by %(name)s.") % name if by else _("Already shared.")
    return _("Already withheld by %(name)s.") % name if by else _("Already withheld.")


def filter_late_reviews() -> QuerySet[Review]:
    """Return the open reviews whose time has run out."""
    return Review.objects.filter(state=Review.State.OPEN, expires_at__lte=Now())


def expire_reviews() -> None:
    """Hold back the results that were not reviewed in time. The model reads that."""
    for review in filter_late_reviews().select_related("tool_call")[:100]:
        _expire(review)


def _expire(review: Review) -> None:
    call = review.tool_call
    with transaction.atomic():
        turn = signal_turn(call.turn_id)
        closed = Review.objects.filter(pk=review.pk, state=Review.State.OPEN).update(
            state=Review.State.EXPIRED, decided_at=Now()
        )
        if closed:
            journal.append_call(turn, call.pk, call.state)
