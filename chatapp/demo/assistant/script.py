"""The next step of the demo assistant, computed from the history of the request alone."""

from dataclasses import dataclass, replace

from chatapp.providers.request import (
    AskedTool,
    AssistantMessage,
    HistoryItem,
    ModelRequest,
    ToolOutcome,
    UserMessage,
)

from . import texts
from .explanations import Result, explain, list_objects, list_tools, read_object
from .scenes import Round, Scene, build_call, understand

MAX_READ_AT_ONCE = 8
UNKNOWN = ToolOutcome(call_id="", name="", text=texts.NO_OUTCOME, is_error=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class NextStep:
    """What the assistant does now, all of it in one answer."""

    reasoning: str = ""
    text: str = ""
    calls: Round = ()


def choose_step(request: ModelRequest) -> NextStep:
    history, tools = request.history, list_tools(request.tools)
    start = max((n for n, item in enumerate(history) if isinstance(item, UserMessage)), default=0)
    question = history[start] if history else None
    scene, wanted = understand(question.text if isinstance(question, UserMessage) else "")
    rounds = list_rounds(history[start:])
    calls = choose_calls(scene, wanted, rounds)
    offered = {tool.name for tool in request.tools}
    missing = [call.name for call in calls if call.name not in offered]
    if calls and not missing:
        number = sum(map(len, list_rounds(history)))
        return NextStep(
            reasoning="" if rounds else scene.reasoning.format(**read_object(calls[0].arguments)),
            text="" if rounds else texts.BEFORE_CALLS,
            calls=tuple(replace(each, call_id=f"demo_{n}") for n, each in enumerate(calls, number)),
        )
    said = [explain([result for results in rounds for result in results])]
    if missing:
        said.append(texts.NOT_OFFERED.format(tool_id=missing[0], tools=tools))
    elif not rounds:
        said.append(scene.page.replace(texts.TOOLS, tools))
    elif scene.reasoning:
        said.append(texts.AFTER_THOUGHTS)
    return NextStep(text="\n\n".join(filter(None, said)))


def choose_calls(scene: Scene, wanted: tuple[Round, ...], rounds: list[list[Result]]) -> Round:
    """Return the calls of the next round. After a call that did not succeed there are none."""
    if any(outcome.is_error for results in rounds for _, outcome in results):
        return ()
    if len(rounds) < len(wanted):
        return wanted[len(rounds)]
    if not scene.reads_found or len(rounds) != 1:
        return ()
    _, found = rounds[0][0]
    notes = list_objects(read_object(found.text).get("notes"))[:MAX_READ_AT_ONCE]
    return tuple(build_call("notebook_read_note", title=note.get("title")) for note in notes)


def list_rounds(history: tuple[HistoryItem, ...]) -> list[list[Result]]:
    """Return the calls of each model call with their outcomes."""
    outcomes = {item.call_id: item for item in history if isinstance(item, ToolOutcome)}
    answers = [item.parts for item in history if isinstance(item, AssistantMessage)]
    calls = [[part for part in parts if isinstance(part, AskedTool)] for parts in answers]
    return [[(each, outcomes.get(each.call_id, UNKNOWN)) for each in row] for row in calls if row]
