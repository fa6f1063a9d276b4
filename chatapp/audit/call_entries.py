"""What the log says of tool calls. It follows the journal, so that no state escapes it."""

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any
from uuid import UUID

from chatapp.models import Approval, Member, Permit, Question, Review, ToolCall, Trial
from mcpconfig import credentials
from mcpconfig.errors import OperationError
from mcpconfig.masking import forms_of, masked
from mcpconfig.models import Credential, Service
from mcpconfig.results import canonical_json

from . import log
from .log import Happening, Who

State = ToolCall.State
Kind = log.Kind
MOST_CHARACTERS = 8_000
EFFECTS = {State.AWAITING_APPROVAL: "ask", State.REFUSED: "deny", State.APPROVED: "allow"}
ENDS = (*ToolCall.FINAL, State.UNKNOWN)
TOLD = frozenset((*EFFECTS, *ENDS))
RESOLUTIONS = {"worked": State.SUCCEEDED, "did-not": State.FAILED, "again": State.APPROVED}
# The entry about an approval, by what became of it, and the state that its call has then.
APPROVALS = {
    (State.APPROVED, Approval.State.GRANTED): Kind.GRANTED,
    (State.DENIED, Approval.State.DENIED): Kind.DENIED,
    (State.EXPIRED, Approval.State.EXPIRED): Kind.EXPIRED,
    (State.WITHDRAWN, Approval.State.WITHDRAWN): Kind.WITHDRAWN,
}
# The entry about a review, by what became of it.
REVIEWS = {
    Review.State.GIVEN: Kind.REVIEW_GIVEN,
    Review.State.HELD_BACK: Kind.REVIEW_HELD_BACK,
    Review.State.EXPIRED: Kind.REVIEW_EXPIRED,
    Review.State.WITHDRAWN: Kind.REVIEW_WITHDRAWN,
}


def moved(states: Mapping[UUID, str]) -> None:
    """Log that these calls have these states now, where that decides, ends or settles something."""
    telling = {pk: State(state) for pk, state in states.items() if state in TOLD}
    if not telling:
        return
    calls = ToolCall.objects.filter(pk__in=telling).select_related(
        "turn__conversation__owner", "service", "definition", "rule", "resolved_by"
    )
    log.append([each for call in calls for each in _told(call, telling[call.pk])])


def _told(call: ToolCall, state: ToolCall.State) -> Iterator[Happening]:
    if RESOLUTIONS.get(call.resolution) == state:
        yield _about(call, Kind.RESOLVED, {"verdict": call.resolution}, Who.of(call.resolved_by))
        return
    review = Review.objects.filter(tool_call=call).select_related("decided_by").first()
    if review is not None and review.state != Review.State.OPEN:  # its end is logged already
        yield _of_review(call, review)
        return
    people = ("decided_by", "first_by", "signed_for", "second")
    approval = Approval.objects.filter(tool_call=call).select_related(*people).first()
    kind = _kind_of(approval, call, state)
    if approval is not None and kind is not None:
        yield _of_approval(call, approval, kind)
    elif state in EFFECTS and not (state == State.APPROVED and call.attempt):
        yield from _decision(call, EFFECTS[state])
    if state in ENDS:
        ended = outcome(call.result, call.error, call.service)
        yield _about(call, Kind.ENDED, {"state": state.value} | ended)


def _kind_of(approval: Approval | None, call: ToolCall, state: ToolCall.State) -> log.Kind | None:
    """What became of an approval just now. One that was given before the call was sent last is not
    given again when the call goes on after a pause."""
    if approval is None:
        return None
    if state == State.AWAITING_APPROVAL and approval.waits_for_second:
        return Kind.SIGNED
    if approval.decided_at is None:
        return None
    if call.sent_at is not None and approval.decided_at <= call.sent_at:
        return None
    return APPROVALS.get((state, Approval.State(approval.state)))


def _about(
    call: ToolCall, kind: log.Kind, data: Mapping[str, Any], actor: Who = log.SERVER
) -> Happening:
    return Happening(
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


def _decision(call: ToolCall, effect: str) -> Iterator[Happening]:
    decision = {
        "effect": effect,
        "reason": call.why,
        "note": call.note,
        "risk": call.risk,
        "risk_reasons": call.reasons,
        "rule": call.rule and {"id": call.rule.pk, "name": call.rule.name},
        "consent": call.consent_id and str(call.consent_id),
        "endpoint": masked(call.service.endpoint, ()) if call.service else "",
        "definition": call.definition.hash if call.definition else "",
        "binding": call.binding,
        **_arguments(call.arguments, call.service),
    }
    yield _about(call, Kind.DECIDED, decision)
    used = ToolCall.objects.filter(consent=call.consent_id).exclude(pk=call.pk)
    if call.consent_id and not used.exists():
        yield _about(call, Kind.CONSENT_USED, {"consent": str(call.consent_id)})


def _of_approval(call: ToolCall, approval: Approval, kind: log.Kind) -> Happening:
    """Who decided about exactly what."""
    data = {
        "reason": masked(approval.reason, known_secrets(call.service)),
        "binding": approval.binding,
        "asked_at": approval.created_at.isoformat(),
        **_second_of(approval),
        **_arguments(call.arguments, call.service),
    }
    by = approval.first_by if kind == Kind.SIGNED else approval.decided_by
    return _about(call, kind, data, Who.of(by))


def _second_of(approval: Approval) -> dict[str, Any]:
    """Who has to sign second, and whom whoever did stood in for."""
    if approval.second is None:
        return {}
    right = approval.signed_for
    stood_in = right is not None and right != approval.decided_by
    return {
        "second_signature": approval.second.name,
        "first_by": Who.of(approval.first_by).name,
        "stands_in_for": Who.of(right).name if stood_in else "",
    }


def _of_review(call: ToolCall, review: Review) -> Happening:
    """Who gave the assistant exactly what, or held it back."""
    data = {
        "reason": masked(review.reason, known_secrets(call.service)),
        "binding": review.binding,
        "asked_at": review.created_at.isoformat(),
        **outcome(call.result, call.error, call.service),
    }
    return _about(call, REVIEWS[Review.State(review.state)], data, Who.of(review.decided_by))


def values_changed(call_id: UUID, by: Member) -> None:
    """Log that whoever allowed this call chose other values than the assistant."""
    related = ("tool_call__service", "tool_call__turn__conversation__owner")
    approval = Approval.objects.select_related(*related).get(tool_call=call_id)
    call = approval.tool_call
    data = {"binding": approval.binding, "asked_arguments_hash": hash_of(call.asked_arguments)}
    data |= _arguments(call.arguments, call.service)
    log.append([_about(call, Kind.VALUES_CHANGED, data, Who.of(by))])


def sent(call_id: UUID, attempt: int) -> None:
    """Log that a call is about to be sent, once, under the permit of this attempt."""
    call = ToolCall.objects.select_related("service", "turn__conversation__owner").get(pk=call_id)
    permit = Permit.objects.filter(tool_call=call, attempt=attempt).first()
    used = {
        "attempt": attempt,
        "binding": permit.binding if permit else "",
        "granted_by": permit.granted_by if permit else "",
        "arguments_hash": hash_of(call.arguments),
    }
    log.append([_about(call, Kind.SENT, used)])


def answered(question: Question, by: Member, action: str) -> None:
    """Log that somebody answered a service's question; of the values only a hash is kept."""
    given = Question.objects.get(pk=question.pk).given
    values = {"action": action, "round": question.round, "answers_hash": hash_of(given)}
    log.append([_about(question.tool_call, Kind.ANSWERED, values, Who.of(by))])


def tried(trial: Trial) -> None:
    """Log what became of a tool that an admin runs by hand: that it is sent, or how it ended."""
    is_over = trial.state != State.SENDING
    data: dict[str, Any] = {"tool": trial.tool_name, "trial": str(trial.pk), "state": trial.state}
    data["service"] = trial.service.name if trial.service else ""
    if is_over:
        data |= outcome(trial.result, trial.error, trial.service)
    else:
        data |= {"reason": trial.why, "risk": trial.risk, "binding": trial.binding}
        data |= {"confirmed": trial.was_confirmed, **_arguments(trial.arguments, trial.service)}
    kind = Kind.TRIAL_ENDED if is_over else Kind.TRIAL_SENT
    who = Who.of(trial.person)
    log.append([Happening(kind=kind, data=data, actor=who, person=who)])


def outcome(
    result: Any, error: Mapping[str, Any] | None, service: Service | None
) -> dict[str, Any]:
    """A result by its hash: what a tool returned may hold anything. An error in masked words."""
    said = None
    if error is not None:
        message = masked(str(error.get("message", "")), known_secrets(service))
        said = {"kind": error.get("kind", ""), "message": message}
    return {"result_hash": None if result is None else hash_of(result), "error": said}


def _arguments(text: str, service: Service | None) -> dict[str, Any]:
    return {"arguments_hash": hash_of(text), "arguments": masked_arguments(text, service)}


def masked_arguments(text: str, service: Service | None) -> str:
    """The arguments as the trace would show them; the end of very long ones is left out."""
    shown = masked(text, known_secrets(service))
    return shown if len(shown) <= MOST_CHARACTERS else f"{shown[:MOST_CHARACTERS]}…"


def known_secrets(service: Service | None) -> list[str]:
    """What opens the service, as it may stand in a text."""
    stored = Credential.objects.filter(service=service).first() if service else None
    if service is None or stored is None:
        return []
    try:
        headers = credentials.request_headers(service, stored)
    except OperationError:  # the keys do not open it any more, so nobody knows it
        return []
    return forms_of(part for value in headers.values() for part in (value, value.split()[-1]))


def hash_of(value: Any) -> str:
    """Of a text as it is, of anything else in its canonical form."""
    known = value.encode("utf-8", "surrogatepass") if isinstance(value, str) else None
    return hashlib.sha256(canonical_json(value) if known is None else known).hexdigest()
