"""The log's entries about tool calls. The journal calls this module, so each state is recorded."""

import hashlib
from collections.abc import Collection, Iterator, Mapping
from typing import Any
from uuid import UUID

from chatapp.models import Approval, Member, Permit, Question, Review, ToolCall, Trial
from mcpconfig.models import Credential, Service
from mcpconfig.secrets import credentials
from mcpconfig.values.errors import OperationError
from mcpconfig.values.masking import list_secret_forms, mask_secrets
from mcpconfig.values.results import canonical_json

from . import audit_log, call_counts
from .audit_log import AuditEvent, Who

State = ToolCall.State
Kind = audit_log.Kind
MAX_CHARACTERS = 8_000
# What the entries about a call read beside it.
RELATED = (
    "turn__conversation__owner",
    *("service__credential", "definition", "rule", "resolved_by", "review"),
    "approval__decided_by",
)
EFFECTS = {State.AWAITING_APPROVAL: "ask", State.REFUSED: "deny", State.APPROVED: "allow"}
ENDS = (*ToolCall.FINAL, State.UNKNOWN)
LOGGED = frozenset((*EFFECTS, *ENDS))
RESOLUTIONS = {"worked": State.SUCCEEDED, "did-not": State.FAILED, "again": State.APPROVED}
# The entry about the end of an approval, by the state of its call and its own.
APPROVALS = {
    (State.APPROVED, Approval.State.GRANTED): Kind.GRANTED,
    (State.DENIED, Approval.State.DENIED): Kind.DENIED,
    (State.EXPIRED, Approval.State.EXPIRED): Kind.EXPIRED,
    (State.WITHDRAWN, Approval.State.WITHDRAWN): Kind.WITHDRAWN,
}
# The entry about the end of a review.
REVIEWS = {
    Review.State.GIVEN: Kind.REVIEW_GIVEN,
    Review.State.HELD_BACK: Kind.REVIEW_HELD_BACK,
    Review.State.EXPIRED: Kind.REVIEW_EXPIRED,
    Review.State.WITHDRAWN: Kind.REVIEW_WITHDRAWN,
}


def describe_state_changes(
    states: Mapping[UUID, str], *, sent: Collection[UUID] = ()
) -> list[AuditEvent]:
    """Return the entries about the states that decide, end or resolve a call. For those in `sent`,
    the first one says that the permit of their attempt was used."""
    logged = {pk: State(state) for pk, state in states.items() if state in LOGGED or pk in sent}
    if not logged:
        return []
    calls = ToolCall.objects.filter(pk__in=logged).select_related(*RELATED)
    events: list[AuditEvent] = []
    for call in calls:
        if call.pk in sent:
            permit = Permit.objects.filter(tool_call=call, attempt=call.attempt).first()
            events.append(describe_permit_use(call, permit))
        events += describe_state(call, logged[call.pk])
    return events


def describe_state(call: ToolCall, state: ToolCall.State) -> list[AuditEvent]:
    """Return the entries about a call that is in this state now, if it decides, ends or resolves
    the call. The call has the rows that are `RELATED` to it."""
    return list(_build_events(call, state)) if state in LOGGED else []


def describe_permit_use(call: ToolCall, permit: Permit | None) -> AuditEvent:
    """Return the entry for a call that is sent, or runs here, with the permit of its attempt."""
    used = {
        "binding": permit.binding if permit else "",
        "granted_by": permit.granted_by if permit else "",
        "arguments_hash": compute_hash(call.arguments),
    }
    return _build_event(call, Kind.SENT, used)


def _build_events(call: ToolCall, state: ToolCall.State) -> Iterator[AuditEvent]:
    if RESOLUTIONS.get(call.resolution) == state:
        call_counts.count_resolution(call.resolution)
        yield _build_event(
            call, Kind.RESOLVED, {"verdict": call.resolution}, Who.of(call.resolved_by)
        )
        return
    review: Review | None = getattr(call, "review", None)
    if review is not None and review.state != Review.State.OPEN:
        # The end of the call is logged already.
        call_counts.count_answer("review", review.state, review.created_at, review.decided_at)
        yield _build_review(call, review)
        return
    approval: Approval | None = getattr(call, "approval", None)
    kind = _find_approval_kind(approval, call, state)
    if approval is not None and kind is not None:
        if kind != Kind.SIGNED:
            call_counts.count_approval(approval)
        yield _build_approval(call, approval, kind)
    elif state in EFFECTS and not (state == State.APPROVED and call.attempt):
        yield from _build_decision(call, EFFECTS[state])
    if state in ENDS:
        call_counts.count_end(call, state, was_asked=approval is not None)
        ended = describe_outcome(call.result, call.error, call.service)
        yield _build_event(call, Kind.ENDED, {"state": state.value} | ended)


def _find_approval_kind(
    approval: Approval | None, call: ToolCall, state: ToolCall.State
) -> audit_log.Kind | None:
    """Return the kind of entry for what just happened to the approval, if anything. An approval
    that was granted before the call was last sent is not logged again when the call continues."""
    if approval is None:
        return None
    if state == State.AWAITING_APPROVAL and approval.waits_for_second:
        return Kind.SIGNED
    if approval.decided_at is None:
        return None
    if call.sent_at is not None and approval.decided_at <= call.sent_at:
        return None
    return APPROVALS.get((state, Approval.State(approval.state)))


def _build_event(
    call: ToolCall, kind: audit_log.Kind, data: Mapping[str, Any], actor: Who = audit_log.SERVER
) -> AuditEvent:
    return AuditEvent(
        kind=kind,
        data={
            "tool": call.tool_name or call.tool_id,
            "service": call.service.name if call.service else "",
            "attempt": call.attempt,
            **data,
        },
        actor=actor,
        person=Who.of(call.turn.conversation.owner),
        conversation_id=call.turn.conversation_id,
        turn_id=call.turn_id,
        call_id=call.pk,
    )


def _build_decision(call: ToolCall, effect: str) -> Iterator[AuditEvent]:
    decision = {
        "effect": effect,
        "reason": call.why,
        "note": call.note,
        "risk": call.risk,
        "risk_reasons": call.reasons,
        "rule": call.rule and {"id": call.rule.pk, "name": call.rule.name},
        "consent": call.consent_id and str(call.consent_id),
        "endpoint": mask_secrets(call.service.endpoint, ()) if call.service else "",
        "definition": call.definition.hash if call.definition else "",
        "binding": call.binding,
        **_describe_arguments(call.arguments, call.service),
    }
    yield _build_event(call, Kind.DECIDED, decision)
    used = ToolCall.objects.filter(consent=call.consent_id).exclude(pk=call.pk)
    if call.consent_id and not used.exists():
        yield _build_event(call, Kind.CONSENT_USED, {"consent": str(call.consent_id)})


def _build_approval(call: ToolCall, approval: Approval, kind: audit_log.Kind) -> AuditEvent:
    """Build the entry with the person who decided and exactly what they decided about."""
    data = {
        "reason": mask_secrets(approval.reason, list_secrets(call.service)),
        "binding": approval.binding,
        "asked_at": approval.created_at.isoformat(),
        **_describe_second_signature(approval),
        **_describe_arguments(call.arguments, call.service),
    }
    by = approval.first_by if kind == Kind.SIGNED else approval.decided_by
    return _build_event(call, kind, data, Who.of(by))


def _describe_second_signature(approval: Approval) -> dict[str, Any]:
    """Return who has to sign second and, if a delegate did, for whom."""
    if approval.second is None:
        return {}
    right = approval.signed_for
    stood_in = right is not None and right != approval.decided_by
    return {
        "second_signature": approval.second.name,
        "first_by": Who.of(approval.first_by).name,
        "stands_in_for": Who.of(right).name if stood_in else "",
    }


def _build_review(call: ToolCall, review: Review) -> AuditEvent:
    """Build the entry with the person who released or withheld exactly this result."""
    data = {
        "reason": mask_secrets(review.reason, list_secrets(call.service)),
        "binding": review.binding,
        "asked_at": review.created_at.isoformat(),
        **describe_outcome(call.result, call.error, call.service),
    }
    return _build_event(call, REVIEWS[Review.State(review.state)], data, Who.of(review.decided_by))


def log_edited_values(call_id: UUID, by: Member) -> None:
    """Log that the person who allowed this call edited the values of the assistant."""
    related = ("tool_call__service", "tool_call__turn__conversation__owner")
    approval = Approval.objects.select_related(*related).get(tool_call=call_id)
    call = approval.tool_call
    data = {"binding": approval.binding, "asked_arguments_hash": compute_hash(call.asked_arguments)}
    data |= _describe_arguments(call.arguments, call.service)
    audit_log.append([_build_event(call, Kind.VALUES_CHANGED, data, Who.of(by))])


def log_answer(question: Question, by: Member, action: str) -> None:
    """Log that somebody answered a service's question, with only a hash of the values."""
    stored = Question.objects.get(pk=question.pk)
    given = stored.given
    call_counts.count_answer("question", stored.state, stored.created_at, stored.answered_at)
    values = {"action": action, "round": question.round, "answers_hash": compute_hash(given)}
    audit_log.append([_build_event(question.tool_call, Kind.ANSWERED, values, Who.of(by))])


def log_trial(trial: Trial) -> None:
    """Log that a tool which an admin runs by hand was sent, or how it ended."""
    is_over = trial.state != State.SENDING
    data: dict[str, Any] = {"tool": trial.tool_name, "trial": str(trial.pk), "state": trial.state}
    data["service"] = trial.service.name if trial.service else ""
    if is_over:
        data |= describe_outcome(trial.result, trial.error, trial.service)
    else:
        data |= {"reason": trial.why, "risk": trial.risk, "binding": trial.binding}
        data |= {
            "confirmed": trial.was_confirmed,
            **_describe_arguments(trial.arguments, trial.service),
        }
    kind = Kind.TRIAL_ENDED if is_over else Kind.TRIAL_SENT
    who = Who.of(trial.person)
    audit_log.append([AuditEvent(kind=kind, data=data, actor=who, person=who)])


def describe_outcome(
    result: Any, error: Mapping[str, Any] | None, service: Service | None
) -> dict[str, Any]:
    """Return the hash of the result, which may contain anything, and the masked error."""
    reported = None
    if error is not None:
        message = mask_secrets(str(error.get("message", "")), list_secrets(service))
        reported = {"kind": error.get("kind", ""), "message": message}
    return {"result_hash": None if result is None else compute_hash(result), "error": reported}


def _describe_arguments(text: str, service: Service | None) -> dict[str, Any]:
    return {"arguments_hash": compute_hash(text), "arguments": mask_arguments(text, service)}


def mask_arguments(text: str, service: Service | None) -> str:
    """Return the arguments with secrets masked. Very long ones are cut."""
    shown = mask_secrets(text, list_secrets(service))
    return shown if len(shown) <= MAX_CHARACTERS else f"{shown[:MAX_CHARACTERS]}…"


def list_secrets(service: Service | None) -> list[str]:
    """Return the service's secrets in the forms in which a text may contain them."""
    stored: Credential | None = getattr(service, "credential", None)
    if service is None or stored is None:
        return []
    try:
        headers = credentials.load_request_headers(service, stored)
    except OperationError:  # the encryption keys no longer decrypt it
        return []
    return list_secret_forms(
        part for value in headers.values() for part in (value, value.split()[-1])
    )


def compute_hash(value: Any) -> str:
    """Return the SHA-256 of a text, or of the canonical JSON of any other value."""
    known = value.encode("utf-8", "surrogatepass") if isinstance(value, str) else None
    return hashlib.sha256(canonical_json(value) if known is None else known).hexdigest()
