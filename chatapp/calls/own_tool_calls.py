"""Policy's decision about a call of a core tool, and the hash that binds the decision."""

import hashlib
import json
from typing import TYPE_CHECKING

from chatapp.models import Member, ToolCall, Turn
from chatapp.permissions.binding import binding_hash
from chatapp.permissions.decide import raise_risk
from chatapp.permissions.risk import Risk
from chatapp.permissions.rules import OWN_TOOLS, CallFacts, Decision
from chatapp.policy.daily_limits import count_uses_today
from chatapp.policy.stored_policy import Policy, count_earlier_calls, find_taint_before
from chatapp.tools.core import core_tool
from chatapp.tools.core_catalogue import assess_core_risk

if TYPE_CHECKING:
    from chatapp.tools.blueprint import CoreTool

# The service id in the hash of a core tool. Ids of services begin at 1.
NO_SERVICE = 0


def find_core_tool(call: ToolCall) -> "CoreTool | None":
    return core_tool(call.tool_id) if call.service_id is None else None


def decide_core_call(
    turn: Turn, call: ToolCall, tool: "CoreTool", person: Member, policy: Policy
) -> tuple[Decision, Risk]:
    """Return policy's present decision about the call, and its risk in this turn."""
    facts, risk = _build_facts(turn, call, tool, person, policy), assess_core_risk(tool)
    return policy.decide(facts, risk, turn.conversation.mode), raise_risk(risk, facts)


def _build_facts(
    turn: Turn, call: ToolCall, tool: "CoreTool", person: Member, policy: Policy
) -> CallFacts:
    return CallFacts(
        service=OWN_TOOLS,
        tool=tool.name,
        is_confirmed=True,
        identical_calls_before=count_earlier_calls(turn, call),
        conversation_id=str(turn.conversation_id),
        arguments=json.loads(call.arguments),
        calls_today=count_uses_today(person, None, tool.name, besides=call)
        if policy.is_limited
        else 0,
        tainted_by=find_taint_before(turn, call, in_whole_chat=tool.outlives_chat),
    )


def compute_core_binding(call: ToolCall, tool: "CoreTool", person: Member) -> str:
    schema = json.dumps(tool.input_schema, sort_keys=True)
    definition = hashlib.sha256(schema.encode()).hexdigest()
    return binding_hash(
        service_id=NO_SERVICE,
        endpoint="",
        tool_name=tool.name,
        definition_hash=definition,
        arguments=call.arguments,
        person_id=person.pk,
        call_id=str(call.pk),
    )
