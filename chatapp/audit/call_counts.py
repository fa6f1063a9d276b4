"""Counts for the metrics how tool calls end and how long people take to answer. They are counted
where the log has an entry, so each once, and after the commit."""

from datetime import datetime
from functools import partial

from django.db import transaction

from chatapp.models import Approval, ToolCall
from chatapp.telemetry import metrics


def count_end(call: ToolCall, state: ToolCall.State, *, was_asked: bool) -> None:
    """Count a call that ended, or whose outcome became unknown."""
    service = _label_service(call)
    labels = (service, call.risk or "none", _find_decision(call, state, was_asked), state.value)
    transaction.on_commit(metrics.TOOL_CALLS.labels(*labels).inc)
    if call.seconds is not None:
        observe = metrics.TOOL_CALL_SECONDS.labels(service).observe
        transaction.on_commit(partial(observe, max(0.0, call.seconds)))


def count_resolution(verdict: str) -> None:
    transaction.on_commit(metrics.TOOL_CALLS_RESOLVED.labels(verdict).inc)


def count_approval(approval: Approval) -> None:
    kind = "second_signature" if approval.second_id else "approval"
    count_answer(kind, approval.state, approval.created_at, approval.decided_at)


def count_answer(kind: str, answer: str, asked: datetime, answered: datetime | None) -> None:
    if answered is not None:
        observe = metrics.ANSWER_SECONDS.labels(kind, answer).observe
        seconds = max(0.0, (answered - asked).total_seconds())
        transaction.on_commit(partial(observe, seconds))


def _label_service(call: ToolCall) -> str:
    return "core" if call.is_core else metrics.label_service(call.service)


def _find_decision(call: ToolCall, state: ToolCall.State, was_asked: bool) -> str:
    """Return what policy decided. A call that could not even be decided about has no reason."""
    if was_asked:
        return "ask"
    if state == ToolCall.State.REFUSED:
        return "deny"
    return "allow" if call.why else "none"
