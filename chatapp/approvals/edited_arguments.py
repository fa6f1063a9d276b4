"""Other values than the model asked for: whether they fit, what policy says of them, and a question
that is about them from then on."""

import json
from copy import copy

from chatapp.models import Approval, Conversation, Member, ToolCall
from chatapp.permissions.binding import UnreadableArguments, canonical_arguments
from chatapp.permissions.rules import Decision
from chatapp.tools.context import ToolError
from mcpconfig.arguments import misfit

from . import log_of_calls
from .core_calls import core_tool_of
from .decided_anew import as_it_is, binding_by_now, decision_by_now
from .refusals import Refused


def changed_values(call: ToolCall, arguments: str | None) -> str | None:
    """The canonical form of other values for this call, None for the same. Raises Refused."""
    if arguments is None:
        return None
    try:
        canonical = canonical_arguments(arguments)
    except UnreadableArguments as error:
        raise Refused(str(error)) from None
    if canonical == call.arguments:
        return None
    if problem := _misfit(call, canonical):
        raise Refused(problem)
    return canonical


def _misfit(call: ToolCall, canonical: str) -> str:
    """Why the tool does not take these values, or nothing."""
    if own := core_tool_of(call):
        try:
            own.validated(json.loads(canonical))
        except ToolError as problem:
            return str(problem)
        return ""
    schema = call.definition.input_schema if call.definition is not None else None
    if not isinstance(schema, dict):
        return "The values of this tool cannot be changed."
    return misfit(canonical, schema)


def judged(call: ToolCall, arguments: str, by: Member) -> Decision:
    """What policy says of values that the person chose. Raises Refused where it forbids them."""
    other = copy(call)
    other.arguments = arguments
    decision, _risk = decision_by_now(other, by)
    if decision.effect == "deny":
        raise Refused(" ".join(filter(None, ["Policy forbids these values.", decision.note])))
    return decision


def ask_about(call: ToolCall, arguments: str, by: Member, binding: str, decision: Decision) -> str:
    """Make the open question one about the values that the person chose, inside the caller's
    transaction, which holds the turn; the model will be told of them. Its binding from then on."""
    # The journal, which is written next, takes the chat before the log, and so does everybody.
    Conversation.objects.select_for_update(no_key=True).get(pk=call.turn.conversation_id)
    fresh = as_it_is(call, by, binding)
    asked, fresh.arguments = fresh.asked_arguments or fresh.arguments, arguments
    bound = binding_by_now(fresh, by)
    ToolCall.objects.filter(pk=call.pk).update(
        arguments=arguments, asked_arguments=asked, binding=bound
    )
    question = Approval.objects.filter(tool_call=call)
    question.update(binding=bound)
    if decision.wants_typing:  # also by whoever signs second
        question.update(wants_typing=True)
    log_of_calls.values_changed(call.pk, by)
    return bound
