"""Builds what the demo assistant is given, and gathers what it says."""

from chatapp.demo.assistant import provider
from chatapp.demo.assistant.script import NextStep
from chatapp.providers.environment import NO_ACCOUNT
from chatapp.providers.events import ModelEvent, ReasoningDelta, TextDelta, ToolCallReady
from chatapp.providers.request import (
    AssistantMessage,
    AssistantPart,
    HistoryItem,
    ModelRequest,
    SaidReasoning,
    SaidText,
    ToolOutcome,
    ToolSpec,
    UserMessage,
)

NOTEBOOK = (
    "list_notes",
    "read_note",
    "search_notes",
    "create_note",
    "append_to_note",
    "delete_note",
    "search_archive",
    "read_locked_note",
)


def spec(name: str) -> ToolSpec:
    return ToolSpec(name=name, description=f"[MCP:notebook] Does {name}.", input_schema={})


TOOLS = tuple(spec(f"notebook_{name}") for name in NOTEBOOK)


def request(*history: HistoryItem, tools: tuple[ToolSpec, ...] = TOOLS) -> ModelRequest:
    return ModelRequest(model="assistant", system="Be brief.", history=history, tools=tools)


def asked(text: str, tools: tuple[ToolSpec, ...] = TOOLS) -> ModelRequest:
    return request(UserMessage(text=text), tools=tools)


def said(step: NextStep) -> AssistantMessage:
    """The step as it comes back in the history."""
    parts: list[AssistantPart] = []
    if step.reasoning:
        parts.append(SaidReasoning(text=step.reasoning))
    if step.text:
        parts.append(SaidText(text=step.text))
    parts += step.calls
    return AssistantMessage(parts=tuple(parts))


def answered(
    before: ModelRequest, step: NextStep, *texts: str, is_error: bool = False
) -> ModelRequest:
    """The request of the next step, when these are the outcomes of the step's calls."""
    outcomes = tuple(
        ToolOutcome(call_id=call.call_id, name=call.name, text=text, is_error=is_error)
        for call, text in zip(step.calls, texts, strict=True)
    )
    return request(*before.history, said(step), *outcomes, tools=before.tools)


async def events_of(asking: ModelRequest) -> list[ModelEvent]:
    return [event async for event in provider.stream(asking, NO_ACCOUNT)]


def text_in(events: list[ModelEvent]) -> str:
    return "".join(event.text for event in events if isinstance(event, TextDelta))


def reasoning_in(events: list[ModelEvent]) -> str:
    return "".join(event.text for event in events if isinstance(event, ReasoningDelta))


def calls_in(events: list[ModelEvent]) -> list[ToolCallReady]:
    return [event for event in events if isinstance(event, ToolCallReady)]
