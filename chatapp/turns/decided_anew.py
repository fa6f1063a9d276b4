"""What policy says by now of a call that was decided before, be it of a service or of our own, and
what a decision about it binds to by now."""

from chatapp.models import Member, ToolCall
from chatapp.permissions.risk import Risk
from chatapp.permissions.rules import Decision

from .core_calls import binding_of_core, core_tool_of, decision_about_core
from .deciding import binding_of
from .policy import decision_now, policy_for
from .refusals import CHANGED, Refused


def decision_by_now(call: ToolCall, person: Member) -> tuple[Decision, Risk]:
    """The decision and the call's risk, with the values that `call` has here, which need not be
    stored. Raises Refused where there is nothing to run any more."""
    if own := core_tool_of(call):
        policy = policy_for(person, call.turn.conversation)
        return decision_about_core(call.turn, call, own, person, policy)
    if call.service is None or call.definition is None:
        raise Refused(CHANGED, 409)
    return decision_now(call.turn, call, person)


def binding_by_now(call: ToolCall, person: Member) -> str:
    """The hash of all that a person is shown about the call as it is here. Raises Refused."""
    if own := core_tool_of(call):
        return binding_of_core(call, own, person)
    service, definition = call.service, call.definition
    if service is None or definition is None or not definition.is_current:
        raise Refused(CHANGED, 409)
    return binding_of(call, service.pk, service.endpoint, definition.hash, person)


def as_it_is(call: ToolCall, by: Member, binding: str) -> ToolCall:
    """The call with its service and definition as they are now, which must be what was shown: what
    follows binds to them anew. Raises Refused."""
    related = ("service", "definition", "turn__conversation")
    fresh = ToolCall.objects.select_related(*related).get(pk=call.pk)
    if binding_by_now(fresh, by) != binding:
        raise Refused(CHANGED, 409)
    return fresh
