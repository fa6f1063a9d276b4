"""The checks of an approved call before it runs: time has passed since policy or a person decided.

In this order:

1. When a worker takes the turn, `reopen_decisions`: what policy alone allowed is decided again.
2. Before the calls run, `refresh_tool_lists`: services whose list of tools is too old are asked.
   For a call that is not of low risk, that is a list older than `TOOL_LIST_SECONDS`, whatever the
   service says about how long its list is valid.
3. In the transaction that makes the permit, `may_run`: the call, its approval and policy as they
   are stored at that moment.
"""

import asyncio
import logging
import uuid
from collections.abc import Iterable
from datetime import timedelta
from typing import Any, Literal

from django.conf import settings
from django.db.models import F, Q
from django.db.models.functions import Now
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from chatapp.journal import journal
from chatapp.journal.journal import Entry
from chatapp.journal.lease import Lease, lock_turn
from chatapp.models import Approval, Member, ToolCall, Turn
from chatapp.people import second_signers
from chatapp.people.refused import CHANGED, Refused
from chatapp.permissions import reasons
from chatapp.permissions.risk import Risk
from chatapp.permissions.rules import Decision
from chatapp.policy.stored_policy import Before, decide_again, load_policy
from chatapp.server.database import from_now, in_database
from chatapp.server.languages import in_english
from mcpconfig.models import Service, ToolDefinition, ToolSetting
from mcpconfig.operations.tool_listing import fetch_tools
from mcpconfig.secrets.encryption import DecryptionError
from mcpconfig.values.acting import Acting
from mcpconfig.values.arguments import describe_mismatch
from mcpconfig.values.errors import OperationError

from .deciding import compute_binding, store_decision
from .own_tool_calls import compute_core_binding, decide_core_call, find_core_tool
from .question_rounds import build_resumption
from .transitions import Worker, move_read_call

log = logging.getLogger(__name__)
State = ToolCall.State
Verdict = Literal["run", "deny", "sign", "type", "ask"]
LISTING_SECONDS = 20.0
TOOL_CHANGED_AFTER_APPROVAL = gettext_lazy(
    "The tool changed after this was approved, so it was not run. "
    "Call it again to show what changed."
)
TOOL_GONE = gettext_lazy("The service no longer has this tool, so it was not run.")
UNREADABLE = gettext_lazy("The data that the service sent with its question is not readable.")
REFUSALS = {
    "deny": gettext_lazy("Policy now forbids this, so it was not run."),
    "sign": gettext_lazy("Policy now requires another approval, so it was not run."),
    "type": gettext_lazy("Policy now requires typing the tool’s name, so it was not run."),
}


# --- 1. when a worker takes the turn -------------------------------------------------------------
@in_english
def reopen_decisions(lease: Lease) -> None:
    """Move the calls that policy alone allowed, and that certainly have not run, back to proposed.

    They were allowed before a pause, and an admin may have tightened policy since. What a person
    allowed stays allowed.
    """
    allowed = ToolCall.objects.filter(
        turn=lease.turn_id, state=State.APPROVED, attempt=F("pauses"), approval__isnull=True
    )
    if not allowed.exists():  # the worker holds the lease, so no other process decides meanwhile
        return
    with lock_turn(lease) as turn:
        entries: list[Entry] = []
        for call in allowed:
            worker = Worker(lease=lease, attempt=call.attempt)
            move_read_call(
                turn, call, State.PROPOSED, by=worker, was=State.APPROVED, entries=entries
            )
        journal.append(turn.conversation_id, turn.pk, entries)


# --- 2. before the calls run ---------------------------------------------------------------------
async def refresh_tool_lists(lease: Lease, call_ids: Iterable[uuid.UUID]) -> None:
    """Fetch the lists of tools that are too old. The stored list of a service that does not answer
    stays: the call itself then fails and says why."""
    services = await in_database(_find_services_with_old_lists, list(call_ids))
    if not services:
        return
    person = await in_database(Member.objects.get, conversations=lease.conversation_id)
    acting = Acting.of(person, lease.conversation_id)
    await asyncio.gather(*(_refresh_tool_list(service, acting) for service in services))


def has_old_list(service: Service, risk: str) -> bool:
    """Whether the list of tools is too old for a call of this risk to be sent."""
    now = timezone.now()
    until, at = service.tools_fresh_until, service.tools_listed_at
    limit = now - timedelta(seconds=settings.TOOL_LIST_SECONDS)
    is_stale = until is not None and until <= now
    return is_stale or (risk != "low" and at is not None and at <= limit)


def _find_services_with_old_lists(call_ids: list[uuid.UUID]) -> list[Service]:
    calls = ToolCall.objects.filter(pk__in=call_ids, state=State.APPROVED)
    limit = from_now(seconds=-settings.TOOL_LIST_SECONDS)
    is_old = Q(tools_fresh_until__lte=Now(), toolcall__in=calls) | Q(
        tools_listed_at__lte=limit, toolcall__in=calls.exclude(risk="low")
    )
    return list(Service.objects.filter(is_old, is_enabled=True).distinct())


async def _refresh_tool_list(service: Service, acting: Acting) -> None:
    try:
        await fetch_tools(service, acting=acting, total_seconds=LISTING_SECONDS)
    except OperationError as error:
        log.info("The tools of service %s could not be listed again: %s", service.name, error)


# --- 3. in the transaction that makes the permit -------------------------------------------------
def may_run(
    lease: Lease, turn: Turn, call: ToolCall, person: Member, before: Before | None = None
) -> bool:
    """Whether an approved call may run now, inside the caller's transaction. What came `before` it
    is read if it is not given.

    A call that may not run is withdrawn. A call that policy alone allowed, and that needs a person
    now, is moved to awaiting approval here: decided again from a stored catalogue that says
    otherwise, it would come back endlessly. So is such a call whose tool has changed.
    """
    approval: Approval | None = getattr(call, "approval", None)
    if approval is None and not call.may_have_run and (changed := _find_changed_tool(call)):
        return _ask_about_changed_tool(lease, turn, call, person, changed)
    if problem := _find_problem(call, person, approval):
        return _withdraw(lease, turn, call, problem)
    decision, risk = _decide_in_turn(turn, call, person, before)
    verdict = _judge(decision, call, approval)
    if refusal := REFUSALS.get(verdict):
        return _withdraw(lease, turn, call, str(refusal))
    if verdict == "ask":
        _ask(lease, turn, call, risk, decision, call.binding)
    return verdict == "run"


def _find_changed_tool(call: ToolCall) -> ToolDefinition | None:
    """Return the current definition of the call's tool if it is another than the one that policy
    decided about, and the service still offers the tool."""
    if call.definition is None or call.definition.is_current:
        return None
    current = ToolDefinition.objects.filter(
        service=call.service_id, name=call.tool_name, is_current=True
    )
    return current.first()


def _ask_about_changed_tool(
    lease: Lease, turn: Turn, call: ToolCall, person: Member, changed: ToolDefinition
) -> Literal[False]:
    """Ask a person about a call that policy alone allowed when its tool was another."""
    if problem := describe_mismatch(call.arguments, changed.input_schema):
        changed_since = _("The tool changed before this ran.")
        return _withdraw(lease, turn, call, f"{changed_since} {problem}")
    call.definition = changed
    decision, risk = _decide_in_turn(turn, call, person)
    if decision.effect == "deny":
        return _withdraw(lease, turn, call, str(REFUSALS["deny"]))
    if decision.effect == "allow":
        decision = Decision(effect="ask", reason=reasons.TOOL_CHANGED)
    binding = compute_current_binding(call, person)
    _ask(lease, turn, call, risk, decision, binding, definition_id=changed.pk)
    return False


def _ask(
    lease: Lease,
    turn: Turn,
    call: ToolCall,
    risk: Risk,
    decision: Decision,
    binding: str,
    **place: Any,
) -> None:
    entries: list[Entry] = []
    store_decision(
        turn,
        call,
        risk,
        decision,
        binding,
        by=Worker(lease=lease, attempt=call.attempt),
        was=State.APPROVED,
        entries=entries,
        **place,
    )
    journal.append(turn.conversation_id, turn.pk, entries)


def _find_problem(call: ToolCall, person: Member, approval: Approval | None) -> str:
    """Return why an approved call may not run, or nothing."""
    is_own, service = find_core_tool(call) is not None, call.service
    if not is_own and (problem := _find_problem_of_tool(call)):
        return problem
    if not person.is_active:
        return _("The person who asked for this is no longer active.")
    usable = Service.objects.for_member(person)
    if service is not None and not usable.filter(pk=service.pk).exists():
        return _("The person who asked for this can no longer use the service.")
    if approval is not None and (problem := _find_problem_of_approval(call, person, approval)):
        return problem
    if compute_current_binding(call, person) != (approval.binding if approval else call.binding):
        return _("This call changed after the decision, so it was not run.")
    return "" if is_own or _can_resume(call) else str(UNREADABLE)


def _find_problem_of_tool(call: ToolCall) -> str:
    service, definition = call.service, call.definition
    if service is None or not service.is_enabled:
        return _("The service was switched off or removed before this ran.")
    if definition is None or not definition.is_current:
        return str(TOOL_GONE if _find_changed_tool(call) is None else TOOL_CHANGED_AFTER_APPROVAL)
    if ToolSetting.objects.filter(service=service, name=call.tool_name, is_enabled=False).exists():
        return _("The tool was switched off before this ran.")
    return ""


def _find_problem_of_approval(call: ToolCall, person: Member, approval: Approval) -> str:
    if approval.state != Approval.State.GRANTED:
        return _("No one allowed this, so it was not run.")
    if call.service is not None and call.service.signs_in_otherwise_since(approval.created_at):
        return _("The sign-in settings of the service changed after this was shown.")
    return second_signers.find_flaw(approval, person)


def _can_resume(call: ToolCall) -> bool:
    """Whether the keys still open what the service gave with its last question."""
    try:
        build_resumption(call)
    except DecryptionError:
        return False
    return True


def _judge(decision: Decision, call: ToolCall, approval: Approval | None) -> Verdict:
    """Return what the present policy says of a call that was allowed before.

    A person is not asked again about a call that may have run, but all that policy demands now has
    to be there. An attempt that certainly did nothing, as before a pause, does not count as a run.
    """
    if decision.effect == "allow":
        return "run"
    if decision.effect == "deny" or (approval is None and not call.may_have_run):
        return decision.effect
    signed_id = approval.second_id if approval is not None else None
    if decision.demand is not None and decision.demand.id != signed_id:
        return "sign"
    was_typed = approval is None or approval.wants_typing
    return "type" if decision.wants_typing and not was_typed else "run"


def _withdraw(lease: Lease, turn: Turn, call: ToolCall, problem: str) -> Literal[False]:
    """Move the call out of approved; return False, as it may not run."""
    # The outcome of an earlier attempt stays unknown, whatever prevents the next one.
    state = State.UNKNOWN if call.may_have_run else State.WITHDRAWN
    error = {"kind": "withdrawn", "message": problem, "hint": ""}
    worker = Worker(lease=lease, attempt=call.attempt)
    move_read_call(turn, call, state, by=worker, was=State.APPROVED, error=error, finished_at=Now())
    return False


# --- the same for the pages of approvals ---------------------------------------------------------
def decide_now(call: ToolCall, person: Member) -> tuple[Decision, Risk]:
    """Return what policy decides now, and the call's risk. The values of `call` need not be stored.
    Raises Refused if its tool or service is gone."""
    return _decide_in_turn(call.turn, call, person)


def _decide_in_turn(
    turn: Turn, call: ToolCall, person: Member, before: Before | None = None
) -> tuple[Decision, Risk]:
    if own := find_core_tool(call):
        policy = load_policy(person, turn.conversation)
        return decide_core_call(turn, call, own, person, policy)
    if call.service is None or call.definition is None:
        raise Refused(CHANGED, 409)
    return decide_again(turn, call, person, before)


def compute_current_binding(call: ToolCall, person: Member) -> str:
    """Return the hash of all that a person is shown about the call as it is in `call`. Raises
    Refused if its tool or service is gone."""
    if own := find_core_tool(call):
        return compute_core_binding(call, own, person)
    service, definition = call.service, call.definition
    if service is None or definition is None or not definition.is_current:
        raise Refused(CHANGED, 409)
    return compute_binding(call, service.pk, service.endpoint, definition.hash, person)


def reload_as_shown(call: ToolCall, by: Member, binding: str) -> ToolCall:
    """Return the call with its service and definition as they are stored now. Raises Refused if
    that is not what was shown under `binding`."""
    related = ("service", "definition", "turn__conversation")
    fresh = ToolCall.objects.select_related(*related).get(pk=call.pk)
    if compute_current_binding(fresh, by) != binding:
        raise Refused(CHANGED, 409)
    return fresh
