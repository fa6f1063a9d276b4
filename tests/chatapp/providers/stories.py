"""What tests ask the models for, and how they compare what was said."""

import asyncio
from dataclasses import replace
from operator import itemgetter

import pytest

from chatapp.providers.events import (
    ArgumentsDelta,
    Finished,
    ModelEvent,
    OpaqueData,
    ProviderError,
    ReasoningDelta,
    TextDelta,
    ToolCallReady,
    ToolCallStarted,
    Usage,
)
from chatapp.providers.request import (
    AskedTool,
    AssistantMessage,
    HistoryItem,
    ModelRequest,
    SaidReasoning,
    SaidText,
    ToolSpec,
    UserMessage,
)
from tests.wire.script import Answer, Tool

from .accounts import find_provider

OPENAI_FORMS = ("openai", "openai-chat")
WEATHER = ToolSpec(
    name="weather_look.up",
    description="[MCP:weather] Look up the weather",
    input_schema={"type": "object", "properties": {"place": {"type": "string"}}},
)
NOTES = ToolSpec(name="notes_write", description="Write a note", input_schema={})
HELLO = (UserMessage(text="Hello"),)

STORIES = {
    "text": Answer(text="Bonjour “monde” — 你好 \u2028 🙂 and more words to follow."),
    "reasoning": Answer(reasoning="First I think about it.", text="Then I say it."),
    "one_tool": Answer(text="Let me look.", tools=(Tool(name="notes_write", arguments={"a": 1}),)),
    "no_arguments": Answer(tools=(Tool(name="notes_write", arguments=""),)),
    "parallel_tools": Answer(
        tools=(
            Tool(name="notes_write", arguments={"text": "eins", "pages": [1, 2, 3]}),
            Tool(name="notes_write", arguments={"text": "zwei"}),
        ),
        is_interleaved=True,
    ),
    "thoughts_among_calls": Answer(
        reasoning="First this.",
        tools=(Tool(name="notes_write", arguments={"a": 1}),),
        then=(
            Answer(
                reasoning="Then that.",
                text="Now the other.",
                tools=(Tool(name="notes_write", arguments={"a": 2}),),
            ),
        ),
    ),
    "thoughts_among_words": Answer(
        reasoning="First this.", text="Said.", then=(Answer(reasoning="Then that.", text="Done."),)
    ),
    "refusal": Answer(refusal="I cannot help with that."),
    "length": Answer(text="This goes on and", finish="length"),
    "content_filter": Answer(text="This was", finish="content_filter"),
    "strange": Answer(text="Still only this text.", is_strange=True),
}
# Why each answer ends, and in which forms a story ends otherwise: Anthropic has one word for all
# that its filters stop, Gemini knows no refusal.
REASONS: dict[str | tuple[str, str], str] = {
    **dict.fromkeys(("text", "reasoning", "strange", "thoughts_among_words"), "stop"),
    **dict.fromkeys(("one_tool", "no_arguments", "parallel_tools"), "tool_calls"),
    "thoughts_among_calls": "tool_calls",
    "refusal": "refused",
    "length": "length",
    "content_filter": "filtered",
    ("anthropic", "content_filter"): "refused",
    ("google", "refusal"): "filtered",
}


def a_request(
    history: tuple[HistoryItem, ...] = HELLO, tools: tuple[ToolSpec, ...] = (WEATHER, NOTES)
) -> ModelRequest:
    return ModelRequest(model="scripted", system="Be brief.", history=history, tools=tools)


async def said_by(form: str, request: ModelRequest | None = None) -> list[ModelEvent]:
    """Everything that a model says, through the registry as the engine calls it."""
    provider, model, account = await find_provider(f"{form}:scripted")
    assert model == "scripted"
    return [event async for event in provider.stream(request or a_request(), account)]


async def failure_of(form: str, request: ModelRequest | None = None) -> ProviderError:
    """How a model call fails, which it does soon."""
    async with asyncio.timeout(30):
        with pytest.raises(ProviderError) as raised:
            await said_by(form, request)
    return raised.value


def refusal(status: int, code: str, message: str, **headers: str) -> Answer:
    """An error before the stream, written by each form as its own."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    error = {"message": message, "type": "error", "param": None, "code": code}
    return Answer(status=status, error=error, headers=named)


def text_of(events: list[ModelEvent]) -> str:
    return "".join(event.text for event in events if isinstance(event, TextDelta))


def reasoning_of(events: list[ModelEvent]) -> str:
    return "".join(event.text for event in events if isinstance(event, ReasoningDelta))


def calls_of(events: list[ModelEvent]) -> list[tuple[int, str, str, str]]:
    """The whole calls by index: of parallel ones a later may be whole before an earlier."""
    ready = sorted(
        (event for event in events if isinstance(event, ToolCallReady)), key=lambda call: call.index
    )
    return [(call.index, call.call_id, call.name, call.arguments) for call in ready]


def arguments_of(events: list[ModelEvent], index: int) -> str:
    deltas = [event for event in events if isinstance(event, ArgumentsDelta)]
    return "".join(delta.text for delta in deltas if delta.index == index)


def whole_of(events: list[ModelEvent]) -> tuple[object, ...]:
    """All that was said, however it was cut into pieces; arguments as what they mean."""
    calls = [(index, name, arguments) for index, _, name, arguments in calls_of(events)]
    return reasoning_of(events), text_of(events), calls, opaque_of(events), finish_of(events)


def opaque_of(events: list[ModelEvent]) -> list[OpaqueData]:
    return [event for event in events if isinstance(event, OpaqueData)]


def finish_of(events: list[ModelEvent]) -> str:
    """The reason to finish, after the token count and with nothing behind it."""
    usage, finished = events[-2:]
    assert isinstance(usage, Usage)
    assert isinstance(finished, Finished)
    assert sum(isinstance(event, Usage | Finished) for event in events) == 2
    return finished.reason


def as_history(events: list[ModelEvent]) -> AssistantMessage:
    """The parts as the engine tells them: opaque data stays with the part that came before it, and
    calls stand where they began."""
    said: list[SaidText | SaidReasoning] = []
    places: dict[int, int] = {}

    def more(kind: type[SaidText] | type[SaidReasoning], text: str) -> None:
        is_closed = len(said) in places.values()
        if is_closed or not said or type(said[-1]) is not kind or said[-1].opaque is not None:
            said.append(kind(text=""))
        said[-1] = replace(said[-1], text=said[-1].text + text)

    for event in events:
        match event:
            case TextDelta():
                more(SaidText, event.text)
            case ReasoningDelta():
                more(SaidReasoning, event.text)
            case ToolCallStarted():
                places.setdefault(event.index, len(said))
            case OpaqueData():
                more(SaidText if event.kind == "text" else SaidReasoning, "")
                said[-1] = replace(said[-1], opaque=event.data)
    ready = [event for event in events if isinstance(event, ToolCallReady)]
    calls = [
        AskedTool(call_id=e.call_id, name=e.name, arguments=e.arguments or "{}", opaque=e.opaque)
        for e in ready
    ]
    placed = [(places[event.index], 0, call) for event, call in zip(ready, calls, strict=True)]
    among = [*placed, *((place, 1, part) for place, part in enumerate(said))]
    return AssistantMessage(parts=tuple(part for *_, part in sorted(among, key=itemgetter(0, 1))))


def as_stopped(answer: AssistantMessage) -> AssistantMessage:
    """As the engine tells it when its calls were not run: thoughts that led to them are no longer
    sealed."""
    kept: list[SaidText | SaidReasoning] = []
    leads_nowhere = False
    for part in reversed(answer.parts):
        if isinstance(part, AskedTool):
            leads_nowhere = True
        elif isinstance(part, SaidReasoning) and leads_nowhere:
            kept.append(replace(part, opaque=None))
        else:
            leads_nowhere = False
            kept.append(part)
    return AssistantMessage(parts=tuple(reversed(kept)))
