"""Results that a person reviews before the assistant sees them: when one is held, whether the
model may see it, and what it sees instead."""

from typing import Any

from django.conf import settings
from django.db.models import Exists, OuterRef, QuerySet
from django.db.models.functions import Now

from chatapp.audit.call_entries import compute_hash
from chatapp.models import Review, ToolCall, Turn
from chatapp.models.conversations.copied_call import CopiedCall
from chatapp.server.database import from_now
from mcpconfig.models import ToolSetting

State = ToolCall.State
ENDS = {
    State.SUCCEEDED: "The call succeeded, so do not repeat it, but its result is withheld.",
    State.FAILED: "The call failed, and its result is withheld.",
}
BECAUSE = {
    Review.State.HELD_BACK: "The person read it and decided so.",
    Review.State.EXPIRED: "Nobody looked at it in time.",
}


def annotate_review(calls: QuerySet[ToolCall]) -> QuerySet[ToolCall]:
    """Read with each call whether an admin wants its result to be reviewed."""
    of_tool = ToolSetting.objects.filter(service=OuterRef("service"), name=OuterRef("tool_name"))
    return calls.annotate(wants_review=Exists(of_tool.filter(wants_review=True)))


def hold_result(call: ToolCall) -> None:
    """Open the review of the call's result if an admin wants one, inside the transaction that
    stores the result. The call has what `annotate_review` reads."""
    row: Any = call
    if call.state in ENDS and row.wants_review:
        Review.objects.create(
            tool_call=call,
            binding=hash_result(call),
            expires_at=from_now(days=settings.APPROVAL_DAYS),
        )


def hash_result(call: ToolCall) -> str:
    """Return the hash of what a person sees of a result."""
    return compute_hash(
        {"call": str(call.pk), "state": call.state, "result": call.result, "error": call.error}
    )


def is_visible_to_model(call: ToolCall) -> bool:
    """Return whether the model may see the result: it needs no review, or a person released
    exactly this result."""
    review: Review | None = getattr(call, "review", None)
    if review is None:
        return True
    return review.state == Review.State.GIVEN and review.binding == hash_result(call)


def describe_withheld(call: ToolCall) -> str:
    """Return what the model reads about a call whose result it may not see."""
    review = call.review
    words = [ENDS[State(call.state)], BECAUSE.get(Review.State(review.state), "")]
    if review.reason:
        words.append(f"They said: {review.reason}")
    return " ".join(filter(None, words))


def is_copy_withheld(copied: CopiedCall) -> bool:
    """Return whether a copied call has what a model reads instead of its result. Calls that were
    copied before that was stored are known by their text."""
    return copied.is_withheld or copied.outcome.startswith(tuple(ENDS.values()))


def withdraw_open_reviews(turn: Turn) -> list[ToolCall]:
    """Withdraw the open reviews of a turn that ends: the model does not see those results.
    Return their calls."""
    held = ToolCall.objects.filter(turn=turn, review__state=Review.State.OPEN)
    calls = list(held)
    Review.objects.filter(tool_call__in=calls, state=Review.State.OPEN).update(
        state=Review.State.WITHDRAWN, decided_at=Now()
    )
    return calls
