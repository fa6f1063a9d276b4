"""Named points in the life of a turn, in the order in which its changes become durable.

Production has no observers. The fault tests kill the process at each point.
"""

from enum import StrEnum

from chatapp.server.runtime import current_runtime


class FaultPoint(StrEnum):
    """The points, in the order of a turn. Each comment says what has just happened."""

    # The message and its turn were written. Their transaction is not committed.
    MESSAGE_STORED_UNCOMMITTED = "message-stored-uncommitted"
    # A worker was given a turn. It does not hold the lease.
    TURN_FOUND = "turn-found"
    # The next action is the first model call. The transaction that takes the turn is not committed.
    FIRST_STEP_CHOSEN = "first-step-chosen"
    # The request to the model was built. Nothing was sent.
    MODEL_REQUEST_BUILT = "model-request-built"
    # New text of the model was collected. It is not stored.
    TEXT_BATCH_COLLECTED = "text-batch-collected"
    # New text was committed. No tab has received it.
    TEXT_BATCH_COMMITTED = "text-batch-committed"
    # The model requested its first tool call of this step. The call is not stored.
    TOOL_CALL_RECEIVED = "tool-call-received"
    # Policy decided about the calls of a step, and the decisions were committed.
    DECISION_COMMITTED = "decision-committed"
    # The turn was stored as waiting, and its worker released the lease.
    TURN_PARKED = "turn-parked"
    # A person's decision about a call was committed.
    APPROVAL_ANSWERED = "approval-answered"
    # The call was committed as `sending`. The first byte was not sent.
    CALL_STORED_AS_SENDING = "call-stored-as-sending"
    # The answer of the service was read. It is not stored.
    CALL_ANSWERED = "call-answered"
    # The calls of a step have outcomes, and the next action is another model call.
    NEXT_STEP_CHOSEN = "next-step-chosen"
    # The next action is the end of the turn. The end is not stored.
    TURN_END_CHOSEN = "turn-end-chosen"
    # A person stopped the turn, and its work was cancelled. The end is not stored.
    STOP_RECEIVED = "stop-received"
    # A person's answer to a service's question was committed.
    QUESTION_ANSWERED = "question-answered"
    # A question that a service asked while the call was open was committed.
    LIVE_QUESTION_COMMITTED = "live-question-committed"
    # The call was committed as waiting for a sign-in.
    SIGN_IN_PAUSE_COMMITTED = "sign-in-pause-committed"
    # The call was committed as waiting for an answer.
    QUESTION_PAUSE_COMMITTED = "question-pause-committed"
    # The long task that the service started was committed.
    TASK_PAUSE_COMMITTED = "task-pause-committed"


def reach(point: FaultPoint) -> None:
    """Call every observer of this process with `point`."""
    for observer in current_runtime().fault_observers:
        observer(point)
