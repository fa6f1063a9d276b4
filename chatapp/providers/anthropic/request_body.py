"""A request in Anthropic's format, and how it is simplified when a model refuses it."""

import re
from typing import Any

from chatapp.providers.refusals import refuses_documents, refuses_pictures
from chatapp.providers.request import Effort, ModelRequest
from chatapp.providers.tools.toolbox import Toolbox

from .history import THINKING, build_messages, find_called_tools, remove_blocks

Body = dict[str, Any]

USUAL_MAX_TOKENS = 32_000
FEWEST_TOKENS = 1_024
EPHEMERAL = {"type": "ephemeral"}
# Tokens for thinking, for models that do not choose the amount themselves.
BUDGETS: dict[Effort, int] = {"low": 2_048, "medium": 8_192, "high": 24_576}
TOO_MANY_TOKENS = re.compile(r"max_tokens: \d+ > (\d+)")
TOO_LITTLE_ROOM = re.compile(r"exceed context limit: (\d+) \+ \d+ > (\d+)")
REFUSED = {"image": refuses_pictures, "document": refuses_documents}


def build_body(request: ModelRequest, box: Toolbox, largest_answer: int | None) -> Body:
    """Return the body. What stays the same from call to call comes first, for the prompt cache."""
    parameters = request.parameters
    messages = build_messages(request.history, box)
    body: Body = {
        "model": request.model,
        "max_tokens": parameters.output_tokens or largest_answer or USUAL_MAX_TOKENS,
        **_build_tools(request, box),
        "messages": messages,
        "stream": True,
    }
    if request.system.strip():
        body["system"] = [{"type": "text", "text": request.system, "cache_control": EPHEMERAL}]
    if messages and messages[-1]["role"] == "user":
        messages[-1]["content"][-1]["cache_control"] = EPHEMERAL
    if parameters.temperature is not None:
        body["temperature"] = parameters.temperature
        if not parameters.effort:
            # Thinking and a temperature exclude each other, and models think only if asked to.
            return body
    return body | _build_thinking(parameters.effort)


def _build_tools(request: ModelRequest, box: Toolbox) -> Body:
    """Return the options for tools.

    Calls in the history need their tools, even if none may be used.
    """
    tools = [
        {"name": tool.name, "description": tool.description, "input_schema": tool.schema}
        for tool in box.tools
    ]
    if tools:
        tools[-1]["cache_control"] = EPHEMERAL
        return {"tools": tools}
    past = [
        {"name": box.to_wire(name), "input_schema": {"type": "object"}}
        for name in find_called_tools(request.history)
    ]
    return {"tools": past, "tool_choice": {"type": "none"}} if past else {}


def _build_thinking(effort: Effort) -> Body:
    if effort == "off":
        return {"thinking": {"type": "disabled"}}
    thinking: Body = {"thinking": {"type": "adaptive", "display": "summarized"}}
    return thinking | ({"output_config": {"effort": effort}} if effort else {})


def simplify_body(effort: Effort, body: Body, complaint: str) -> Body | None:
    """Return the body without the cause of the complaint, or None for another cause."""
    for change in (
        _remove_temperature,
        _shorten_answer,
        _remove_thoughts,
        _reduce_thinking,
        _remove_cache_marks,
        _remove_files,
    ):
        smaller = change(effort, body, complaint)
        if smaller is not None:
            return smaller
    return None


def _remove_options(body: Body, *options: str) -> Body | None:
    """Return the body without options, or None if it has none: it would be refused again."""
    return _copy_without(body, *options) if body.keys() & set(options) else None


def _copy_without(body: Body, *options: str) -> Body:
    return {key: value for key, value in body.items() if key not in options}


def _remove_temperature(_: Effort, body: Body, complaint: str) -> Body | None:
    """Models that think choose their temperature."""
    return _remove_options(body, "temperature") if "temperature" in complaint else None


def _shorten_answer(_: Effort, body: Body, complaint: str) -> Body | None:
    """Lower the limit to that of the model, or to what fits after the conversation."""
    most = read_max_tokens(complaint)
    if room := TOO_LITTLE_ROOM.search(complaint):
        most = int(room[2]) - int(room[1])
    fits = most is not None and FEWEST_TOKENS <= most < body["max_tokens"]
    return {**body, "max_tokens": most} if fits else None


def read_max_tokens(complaint: str) -> int | None:
    """Return the longest answer of the model, if the complaint has it."""
    found = TOO_MANY_TOKENS.search(complaint)
    return int(found[1]) if found else None


def _remove_thoughts(_: Effort, body: Body, complaint: str) -> Body | None:
    """Remove thoughts of another account or model, which this one cannot verify."""
    if "signature" not in complaint:
        return None
    messages = remove_blocks(body["messages"], THINKING)
    if messages == body["messages"]:
        return None
    return _copy_without({**body, "messages": messages}, "thinking", "output_config")


def _reduce_thinking(effort: Effort, body: Body, complaint: str) -> Body | None:
    """Replace adaptive thinking by a budget, and a budget by no thinking."""
    if "output_config" in body and ("output_config" in complaint or "effort" in complaint):
        return _copy_without(body, "output_config")
    if "thinking" not in complaint:
        return None
    budget = min(BUDGETS.get(effort, 0), body["max_tokens"] - FEWEST_TOKENS)
    is_adaptive = body.get("thinking", {}).get("type") == "adaptive"
    if not is_adaptive or budget < FEWEST_TOKENS or "must start with" in complaint:
        return _remove_options(body, "thinking", "output_config")
    enabled = {"type": "enabled", "budget_tokens": budget, "display": "summarized"}
    return _copy_without({**body, "thinking": enabled}, "output_config")


def _remove_cache_marks(_: Effort, body: Body, complaint: str) -> Body | None:
    """Compatible servers may have no prompt cache."""
    bare = _copy_unmarked(body)
    return bare if "cache_control" in complaint and bare != body else None


def _copy_unmarked(value: Any) -> Any:
    match value:
        case dict():
            marked = ("cache_control", EPHEMERAL)
            return {
                key: _copy_unmarked(each) for key, each in value.items() if (key, each) != marked
            }
        case list():
            return [_copy_unmarked(each) for each in value]
    return value


def _remove_files(_: Effort, body: Body, complaint: str) -> Body | None:
    """Remove pictures or documents. The text beside them names them."""
    for kind, is_refused in REFUSED.items():
        if is_refused(complaint):
            messages = remove_blocks(body["messages"], (kind,))
            if messages != body["messages"]:
                return {**body, "messages": messages}
    return None
