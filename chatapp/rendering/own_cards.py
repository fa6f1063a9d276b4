"""What core tools leave in a chat for people: the plan as it stands, and what was remembered."""

from django.utils.safestring import SafeString

from chatapp.models import Plan, ToolCall

from .pauses import Card
from .visible import draw_hidden

WORDS = {"open": "to do", "doing": "under way", "done": "done"}


def card_of(call: ToolCall) -> Card | None:
    """The card of a call that succeeded; None for all that are shown as a row."""
    if not call.is_core or call.state != ToolCall.State.SUCCEEDED:
        return None
    match call.tool_name:
        case "make-plan":
            return _plan(call)
        case "remember":
            return _remembered(call)
    return None


def _plan(call: ToolCall) -> Card | None:
    """A call that only ticked is a row: the plan itself changes where it stands."""
    plan = Plan.objects.filter(call=call).first()
    if plan is None:
        return None
    steps = [
        {"text": draw_hidden(step["text"]), "state": step["state"], "word": WORDS[step["state"]]}
        for step in plan.steps
    ]
    done = sum(step["state"] == "done" for step in plan.steps)
    return Card(template="chat/_plan.html", context={"steps": steps, "done": done})


def words_of(call: ToolCall) -> dict[str, SafeString]:
    """What the row of a call that ticked a plan says instead of its numbers."""
    if not call.is_core or call.tool_name != "make-plan" or call.result is None:
        return {}
    steps = call.result["structured"]["steps"]
    done = sum(step["state"] == "done" for step in steps)
    return {"title": draw_hidden("Plan"), "brief": draw_hidden(f"{done} of {len(steps)} done")}


def _remembered(call: ToolCall) -> Card:
    fact = (call.result or {})["structured"]
    text, is_new = draw_hidden(str(fact["text"])), bool(fact["is_new"])
    return Card(template="chat/_remembered.html", context={"text": text, "is_new": is_new})
