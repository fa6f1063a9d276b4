"""Arguments that a person edited: whether they fit the tool, what policy decides about them, and
the open approval that is bound to them."""

import json
from copy import copy

from django.utils.translation import gettext as _

from chatapp.audit import call_entries
from chatapp.calls.own_tool_calls import find_core_tool
from chatapp.calls.recheck import compute_current_binding, decide_now, reload_as_shown
from chatapp.models import Approval, Conversation, Member, ToolCall
from chatapp.people.refused import Refused
from chatapp.permissions.binding import UnreadableArguments, canonical_arguments
from chatapp.permissions.rules import Decision
from chatapp.tools.context import ToolError
from mcpconfig.values.arguments import describe_mismatch


def read_changed_values(call: ToolCall, arguments: str | None) -> str | None:
    """Return the canonical JSON of the edited arguments, or None if nothing differs. Raises
    Refused."""
    if arguments is None:
        return None
    try:
        canonical = canonical_arguments(arguments)
    except UnreadableArguments as error:
        raise Refused(error.sentence) from None
    if canonical == call.arguments:
        return None
    if problem := _describe_mismatch(call, canonical):
        raise Refused(problem)
    return canonical


def _describe_mismatch(call: ToolCall, canonical: str) -> str:
    """Return why the tool does not take these arguments, or nothing."""
    if own := find_core_tool(call):
        try:
            own.validate(json.loads(canonical))
        except ToolError as problem:
            return str(problem)
        return ""
    schema = call.definition.input_schema if call.definition is not None else None
    if not isinstance(schema, dict):
        return _("You cannot edit the values of this tool.")
    return describe_mismatch(canonical, schema)


def judge_values(call: ToolCall, arguments: str, by: Member) -> Decision:
    """Return policy's decision about the edited arguments. Raises Refused if it forbids them."""
    other = copy(call)
    other.arguments = arguments
    decision, _risk = decide_now(other, by)
    if decision.effect == "deny":
        raise Refused(" ".join(filter(None, [_("Policy forbids these values."), decision.note])))
    return decision


def replace_arguments(
    call: ToolCall, arguments: str, by: Member, binding: str, decision: Decision
) -> str:
    """Bind the call and its open approval to the edited arguments, inside the caller's transaction,
    which locks the turn. Return the new binding. The model reads of the change later."""
    # Lock the chat before the audit log is written: the journal does it in this order, too.
    Conversation.objects.select_for_update(no_key=True).get(pk=call.turn.conversation_id)
    fresh = reload_as_shown(call, by, binding)
    asked, fresh.arguments = fresh.asked_arguments or fresh.arguments, arguments
    bound = compute_current_binding(fresh, by)
    ToolCall.objects.filter(pk=call.pk).update(
        arguments=arguments, asked_arguments=asked, binding=bound
    )
    question = Approval.objects.filter(tool_call=call)
    question.update(binding=bound)
    if decision.wants_typing:  # the second signer types it as well
        question.update(wants_typing=True)
    call_entries.log_edited_values(call.pk, by)
    return bound
