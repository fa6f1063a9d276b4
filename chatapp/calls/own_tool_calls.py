"""What is known of a call of a core tool: its facts and policy's decision about it, and what that
decision is bound to."""

import hashlib
import json
from typing import TYPE_CHECKING

from chatapp.models import Member, ToolCall, Turn
from chatapp.permissions.binding import binding_hash
from chatapp.permissions.decide import raised
from chatapp.permissions.risk import Risk
from chatapp.permissions.rules import OWN_TOOLS, CallFacts, Decision
from chatapp.tools.core import core_tool
from chatapp.tools.core_catalogue import risk_of_core

from .daily_uses import uses_today
from .policy import Policy, earlier_calls, tainted_by

if TYPE_CHECKING:
    from chatapp.tools.blueprint import CoreTool

# No service can have it: their ids begin at 1.
OWN = 0


def core_tool_of(call: ToolCall) -> "CoreTool | None":
    return core_tool(call.tool_id) if call.service_id is None else None


def decision_about_core(
    turn: Turn, call: ToolCall, tool: "CoreTool", person: Member, policy: Policy
) -> tuple[Decision, Risk]:
    """What policy says of the call now, and its risk as it stands in this turn."""
    facts, risk = _facts(turn, call, tool, person, policy), risk_of_core(tool)
    return policy.decide(facts, risk, turn.conversation.mode), raised(risk, facts)


def _facts(
    turn: Turn, call: ToolCall, tool: "CoreTool", person: Member, policy: Policy
) -> CallFacts:
    return CallFacts(
        service=OWN_TOOLS,
        tool=tool.name,
        is_confirmed=True,
        identical_calls_before=earlier_calls(turn, call),
        conversation_id=str(turn.conversation_id),
        arguments=json.loads(call.arguments),
        calls_today=uses_today(person, None, tool.name, besides=call) if policy.is_limited else 0,
        tainted_by=tainted_by(turn, call, in_whole_chat=tool.outlives_chat),
    )


def binding_of_core(call: ToolCall, tool: "CoreTool", person: Member) -> str:
    schema = json.dumps(tool.input_schema, sort_keys=True)
    definition = hashlib.sha256(schema.encode()).hexdigest()
    return binding_hash(
        service_id=OWN,
        endpoint="",
        tool_name=tool.name,
        definition_hash=definition,
        arguments=call.arguments,
        person_id=person.pk,
        call_id=str(call.pk),
    )
