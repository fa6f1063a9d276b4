"""Results that a person sees before the assistant does: when one is held, whether the assistant may
be told, and what it is told instead."""

import uuid

from django.conf import settings
from django.db.models.functions import Now

from chatapp.models import Review, ToolCall, Turn
from chatapp.storage import in_time
from mcpconfig.models import ToolSetting

from .log_of_calls import hash_of

State = ToolCall.State
ENDS = {
    State.SUCCEEDED: "The call succeeded, so do not repeat it, but its result is held back.",
    State.FAILED: "The call failed, and what it answered is held back.",
}
BECAUSE = {
    Review.State.HELD_BACK: "The person read it and decided so.",
    Review.State.EXPIRED: "Nobody looked at it in time.",
}


def hold_result(call_id: uuid.UUID) -> None:
    """Open the review of what a call has just brought back, where an admin wants one: inside the
    transaction that stores it, so that nobody can read it in between."""
    call = ToolCall.objects.get(pk=call_id)
    if call.state in ENDS and _wants_review(call):
        Review.objects.create(
            tool_call=call,
            binding=binding_of_result(call),
            expires_at=in_time(days=settings.APPROVAL_DAYS),
        )


def _wants_review(call: ToolCall) -> bool:
    settings_of_tool = ToolSetting.objects.filter(service=call.service_id, name=call.tool_name)
    return settings_of_tool.filter(wants_review=True).exists()


def binding_of_result(call: ToolCall) -> str:
    """The hash of what a person is shown of a result."""
    return hash_of(
        {"call": str(call.pk), "state": call.state, "result": call.result, "error": call.error}
    )


def may_be_told(call: ToolCall) -> bool:
    """Whether the assistant may see what the call brought back: nobody has to look at it first, or
    a person gave it exactly this."""
    review: Review | None = getattr(call, "review", None)
    if review is None:
        return True
    return review.state == Review.State.GIVEN and review.binding == binding_of_result(call)


def told_instead(call: ToolCall) -> str:
    """What the model reads of a call whose result it may not see."""
    review = call.review
    words = [ENDS[State(call.state)], BECAUSE.get(Review.State(review.state), "")]
    if review.reason:
        words.append(f"They said: {review.reason}")
    return " ".join(filter(None, words))


def withdraw_open(turn: Turn) -> list[ToolCall]:
    """The turn ends, so nobody is asked about its results any more, and the assistant does not see
    them. Returns the calls that they are of."""
    held = ToolCall.objects.filter(turn=turn, review__state=Review.State.OPEN)
    calls = list(held)
    Review.objects.filter(tool_call__in=calls, state=Review.State.OPEN).update(
        state=Review.State.WITHDRAWN, decided_at=Now()
    )
    return calls
