"""What tests ask the models for, and how they compare what was said."""

from chatapp.providers.events import (
    ArgumentsDelta,
    Finished,
    ModelEvent,
    OpaqueData,
    ReasoningDelta,
    TextDelta,
    ToolCallReady,
    Usage,
)
from chatapp.providers.registry import provider_for
from chatapp.providers.request import HistoryItem, ModelRequest, ToolSpec, UserMessage
from tests.wire.script import Answer, Tool

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
    "refusal": Answer(refusal="I cannot help with that."),
    "length": Answer(text="This goes on and", finish="length"),
    "content_filter": Answer(text="This was", finish="content_filter"),
    "strange": Answer(text="Still only this text.", is_strange=True),
}


def a_request(
    history: tuple[HistoryItem, ...] = HELLO, tools: tuple[ToolSpec, ...] = (WEATHER, NOTES)
) -> ModelRequest:
    return ModelRequest(model="scripted", system="Be brief.", history=history, tools=tools)


async def said_by(form: str, request: ModelRequest | None = None) -> list[ModelEvent]:
    """Everything that a model says, through the registry as the engine calls it."""
    provider, model = await provider_for(f"{form}:scripted")
    assert model == "scripted"
    return [event async for event in provider.stream(request or a_request())]


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


def opaque_of(events: list[ModelEvent]) -> list[OpaqueData]:
    return [event for event in events if isinstance(event, OpaqueData)]


def finish_of(events: list[ModelEvent]) -> str:
    """The reason to finish, after the token count and with nothing behind it."""
    usage, finished = events[-2:]
    assert isinstance(usage, Usage)
    assert isinstance(finished, Finished)
    assert sum(isinstance(event, Usage | Finished) for event in events) == 2
    return finished.reason


def without_opaque(events: list[ModelEvent]) -> list[ModelEvent]:
    """The events as both forms have them; a whole call is told last, as the chat form must."""
    kept = [event for event in events if not isinstance(event, OpaqueData | ToolCallReady)]
    ready = [
        ToolCallReady(index=index, call_id=call_id, name=name, arguments=arguments)
        for index, call_id, name, arguments in calls_of(events)
    ]
    return [*kept[:-2], *ready, *kept[-2:]]
