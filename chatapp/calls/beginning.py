"""Deciding about the calls of a step and beginning to send those that policy allows, in one
transaction. What was read for the decision is then also what is true when the permit is made.

This is for calls of services' tools that are as they were offered to the model a moment ago.
`deciding` and `ledger` do the same in two transactions for all others, as a request to a service
or another catalogue may be needed between them.
"""

from typing import Any

from django.db.models import Exists, OuterRef, Subquery

from chatapp.journal import journal
from chatapp.journal.lease import Lease, lock_turn
from chatapp.models import Member, ToolCall, Turn
from chatapp.server.languages import in_english
from chatapp.tool_menu.turn_selection import annotate_switch, is_still_chosen
from chatapp.tools.catalogue import (
    Catalogue,
    CatalogueTool,
    annotate_state,
    assess_risk,
    is_confirmed,
    is_safe_to_repeat,
    is_unchanged,
    read_state,
)
from chatapp.tools.tool_list_refresh import is_fresh
from mcpconfig.models import Service, ToolDefinition, ToolSetting

from .attempts import MAX_PARALLEL
from .deciding import Decider, load_proposed
from .ledger import Sending, store_sending
from .recheck import has_old_list

State = ToolCall.State
# What admins set for a tool, which is read again with the call.
SET_FIELDS = ("is_enabled", "level", "confirmed_hash", "is_safe_to_repeat")


@in_english
def decide_and_begin(
    lease: Lease, step: int, offered: Catalogue, person: Member
) -> list[Sending] | None:
    """Decide about the proposed calls of a step, and store `sending` for those that are allowed,
    unless a person has to decide about one of them. `offered` is what the model was offered, built
    for this `person`.

    Return the calls that may be sent now. Return None, having done nothing, unless each call is of
    a tool that is offered and chosen still, as it was, by a service that the person may use and
    whose list of tools is fresh.
    """
    with lock_turn(lease) as turn:
        calls = _load_calls(turn, step, person)
        if turn.stop_requested or not 0 < len(calls) <= MAX_PARALLEL:
            return None
        turn.conversation = calls[0].turn.conversation
        now = turn.conversation.owner
        if not now.is_active or _list_rights(now) != _list_rights(person):
            return None
        if not all(_is_as_offered(call, offered, turn) for call in calls):
            return None
        decider = Decider.of(lease, turn, calls)
        for call in calls:
            decider.decide(call, offered)
        begun = []
        # The calls of a step run together, once all of them are decided.
        if not any(call.state == State.AWAITING_APPROVAL for call in calls):
            for call in calls:
                if call.state == State.APPROVED:
                    begun.append(store_sending(lease, turn, call, now, decider.entries))
        journal.append(turn.conversation_id, turn.pk, decider.entries)
        return begun


def _list_rights(person: Member) -> tuple[object, ...]:
    return person.pk, person.is_staff, person.is_superuser, person.rights


def _load_calls(turn: Turn, step: int, person: Member) -> list[ToolCall]:
    """Load the proposed calls of this step, with all that counts for them now, in one statement."""
    usable = Service.objects.for_member(person).filter(pk=OuterRef("service"))
    of_step = ToolCall.objects.filter(turn=turn.pk, step=step)
    settings = ToolSetting.objects.filter(service=OuterRef("service"), name=OuterRef("tool_name"))
    known = of_step.annotate(
        is_usable=Exists(usable.order_by()),
        **annotate_state("service"),
        **{f"set_{name}": Subquery(settings.values(name)[:1]) for name in SET_FIELDS},
    )
    return load_proposed(annotate_switch(known), person)


def _is_as_offered(call: ToolCall, offered: Catalogue, turn: Turn) -> bool:
    """Whether the call was never decided about and is of a tool that was offered, and nothing has
    changed about that since: its definition, the admins' settings, its service, who may use it, and
    the person's choice."""
    row: Any = call
    tool, service, definition = offered.get(call.tool_id), call.service, call.definition
    if tool is None or service is None or definition is None or not row.is_usable:
        return False
    if call.attempt or call.binding:
        return False
    if (tool.service_id, tool.definition_id) != (service.pk, definition.pk):
        return False
    if not definition.is_current or not is_unchanged(tool, read_state(service, annotated=call)):
        return False
    if not _is_set_as_offered(row, tool, service, definition):
        return False
    if not is_still_chosen(call, service, offered, turn):
        return False
    return is_fresh(service) and not has_old_list(service, tool.risk.level)


def _is_set_as_offered(
    row: Any, tool: CatalogueTool, service: Service, definition: ToolDefinition
) -> bool:
    """Whether the rows of the definition and of the admins' settings say what the offered tool
    says. The marks by which a kept tool is known as unchanged are not relied on alone."""
    values = {name: getattr(row, f"set_{name}") for name in SET_FIELDS}
    is_set = values["is_enabled"] is not None
    setting = ToolSetting(**values) if is_set else None
    return (
        (setting is None or setting.is_enabled)
        and definition.hash == tool.definition_hash
        and is_confirmed(definition, setting) == tool.is_confirmed
        and is_safe_to_repeat(setting) == tool.is_safe_to_repeat
        and assess_risk(service, definition, setting) == tool.risk
    )
