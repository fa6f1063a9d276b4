"""A request as Anthropic takes it, and what is left out of it when a model takes less."""

import re
from typing import Any

from chatapp.providers.anthropic_history import (
    THINKING,
    called_tools,
    messages_of,
    without_blocks,
)
from chatapp.providers.complaints import refuses_documents, refuses_pictures
from chatapp.providers.request import Effort, ModelRequest
from chatapp.providers.toolbox import Toolbox

Body = dict[str, Any]

USUAL_MAX_TOKENS = 32_000
FEWEST_TOKENS = 1_024
EPHEMERAL = {"type": "ephemeral"}
# What models that cannot choose for themselves may spend on thinking.
BUDGETS: dict[Effort, int] = {"low": 2_048, "medium": 8_192, "high": 24_576}
TOO_MANY_TOKENS = re.compile(r"max_tokens: \d+ > (\d+)")
TOO_LITTLE_ROOM = re.compile(r"exceed context limit: (\d+) \+ \d+ > (\d+)")
REFUSED = {"image": refuses_pictures, "document": refuses_documents}


def body_of(request: ModelRequest, box: Toolbox, largest_answer: int | None) -> Body:
    """What stays the same from call to call comes first and is marked for the prompt cache."""
    parameters = request.parameters
    messages = messages_of(request.history, box)
    body: Body = {
        "model": request.model,
        "max_tokens": parameters.output_tokens or largest_answer or USUAL_MAX_TOKENS,
        **_tools(request, box),
        "messages": messages,
        "stream": True,
    }
    if request.system.strip():
        body["system"] = [{"type": "text", "text": request.system, "cache_control": EPHEMERAL}]
    if messages and messages[-1]["role"] == "user":
        messages[-1]["content"][-1]["cache_control"] = EPHEMERAL
    if parameters.temperature is not None:
        body["temperature"] = parameters.temperature
    return body | _thinking(parameters.effort)


def _tools(request: ModelRequest, box: Toolbox) -> Body:
    """Calls in the history need tools beside them, even when none may be called any more."""
    tools = [
        {"name": tool.name, "description": tool.description, "input_schema": tool.schema}
        for tool in box.tools
    ]
    if tools:
        tools[-1]["cache_control"] = EPHEMERAL
        return {"tools": tools}
    past = [
        {"name": box.to_wire(name), "input_schema": {"type": "object"}}
        for name in called_tools(request.history)
    ]
    return {"tools": past, "tool_choice": {"type": "none"}} if past else {}


def _thinking(effort: Effort) -> Body:
    if effort == "off":
        return {"thinking": {"type": "disabled"}}
    thinking: Body = {"thinking": {"type": "adaptive", "display": "summarized"}}
    return thinking | ({"output_config": {"effort": effort}} if effort else {})


def simpler(effort: Effort, body: Body, complaint: str) -> Body | None:
    """The body without what the complaint is about, or None when it is about something else."""
    for change in (_warmer, _shorter, _unsigned, _less_thoughtful, _uncached, _blind):
        smaller = change(effort, body, complaint)
        if smaller is not None:
            return smaller
    return None


def _without(body: Body, *options: str) -> Body | None:
    """None when there is nothing to leave out: the same request would fail the same way."""
    return _dropped(body, *options) if body.keys() & set(options) else None


def _dropped(body: Body, *options: str) -> Body:
    return {key: value for key, value in body.items() if key not in options}


def _warmer(_: Effort, body: Body, complaint: str) -> Body | None:
    """Models that think choose their temperature."""
    return _without(body, "temperature") if "temperature" in complaint else None


def _shorter(_: Effort, body: Body, complaint: str) -> Body | None:
    """As many tokens as the model can say at all, or as still fit behind the conversation."""
    most = allowed_tokens(complaint)
    if room := TOO_LITTLE_ROOM.search(complaint):
        most = int(room[2]) - int(room[1])
    fits = most is not None and FEWEST_TOKENS <= most < body["max_tokens"]
    return {**body, "max_tokens": most} if fits else None


def allowed_tokens(complaint: str) -> int | None:
    """The longest answer that the model can give, where a complaint names it."""
    found = TOO_MANY_TOKENS.search(complaint)
    return int(found[1]) if found else None


def _unsigned(_: Effort, body: Body, complaint: str) -> Body | None:
    """Thoughts of another account or model, which this one cannot verify."""
    if "signature" not in complaint:
        return None
    messages = without_blocks(body["messages"], THINKING)
    if messages == body["messages"]:
        return None
    return _dropped({**body, "messages": messages}, "thinking", "output_config")


def _less_thoughtful(effort: Effort, body: Body, complaint: str) -> Body | None:
    """From thinking as it likes to thinking within a budget to not thinking."""
    if "output_config" in body and ("output_config" in complaint or "effort" in complaint):
        return _dropped(body, "output_config")
    if "thinking" not in complaint:
        return None
    budget = min(BUDGETS.get(effort, 0), body["max_tokens"] - FEWEST_TOKENS)
    is_adaptive = body.get("thinking", {}).get("type") == "adaptive"
    if not is_adaptive or budget < FEWEST_TOKENS or "must start with" in complaint:
        return _without(body, "thinking", "output_config")
    enabled = {"type": "enabled", "budget_tokens": budget, "display": "summarized"}
    return _dropped({**body, "thinking": enabled}, "output_config")


def _uncached(_: Effort, body: Body, complaint: str) -> Body | None:
    """Compatible servers need not know the prompt cache."""
    bare = _unmarked(body)
    return bare if "cache_control" in complaint and bare != body else None


def _unmarked(value: Any) -> Any:
    match value:
        case dict():
            marked = ("cache_control", EPHEMERAL)
            return {key: _unmarked(each) for key, each in value.items() if (key, each) != marked}
        case list():
            return [_unmarked(each) for each in value]
    return value


def _blind(_: Effort, body: Body, complaint: str) -> Body | None:
    """Pictures and documents that the model does not take; the text beside them names them."""
    for kind, is_refused in REFUSED.items():
        if is_refused(complaint):
            messages = without_blocks(body["messages"], (kind,))
            if messages != body["messages"]:
                return {**body, "messages": messages}
    return None
