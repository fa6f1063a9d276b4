"""How the demo assistant streams: word by word, to the end, the same every time, never blocking."""

import asyncio
import json

import pytest
from pytest_django import Settings

from chatapp.demo.assistant import provider
from chatapp.providers.environment import NO_ACCOUNT
from chatapp.providers.events import (
    ArgumentsDelta,
    Finished,
    ProviderError,
    TextDelta,
    ToolCallReady,
    ToolCallStarted,
    Usage,
)

from .conversation import asked, calls_in, events_of, reasoning_in, text_in


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(provider, "DEMO_CHUNK_SECONDS", 0)


SAID = [
    "help",
    "show me everything you can do",
    "read Groceries and Ideas",
    "think about dinner",
    "read the locked note",
]


@pytest.mark.parametrize("text", SAID)
async def test_the_same_request_gets_the_same_events(text: str) -> None:
    assert await events_of(asked(text)) == await events_of(asked(text))


@pytest.mark.parametrize("text", SAID)
async def test_every_stream_ends_with_usage_and_finished(text: str) -> None:
    events = await events_of(asked(text))
    usage, finished = events[-2:]
    assert isinstance(usage, Usage)
    assert usage.input_tokens > 0
    assert usage.output_tokens > usage.reasoning_tokens
    assert finished == Finished(reason="tool_calls" if calls_in(events) else "stop")


async def test_text_comes_word_by_word_and_adds_up_with_all_its_blanks() -> None:
    events = await events_of(asked("show me everything you can do"))
    words = [event for event in events if isinstance(event, TextDelta)]
    assert max(len(word.text.split()) for word in words) == 1
    text = text_in(events)
    assert "    # Nothing that can do harm" in text
    assert "\n\n| Tool | Description |\n" in text


async def test_reasoning_comes_before_text() -> None:
    events = await events_of(asked("think about dinner"))
    kinds = [type(event).__name__ for event in events]
    assert reasoning_in(events)
    assert kinds.index("TextDelta") > max(
        number for number, kind in enumerate(kinds) if kind == "ReasoningDelta"
    )


async def test_parallel_calls_are_told_apart_by_their_index() -> None:
    events = await events_of(asked("read Groceries and Ideas"))
    started = [event for event in events if isinstance(event, ToolCallStarted)]
    assert [event.index for event in started] == [0, 1]
    for call in calls_in(events):
        deltas = [event for event in events if isinstance(event, ArgumentsDelta)]
        streamed = "".join(event.text for event in deltas if event.index == call.index)
        assert streamed == call.arguments
    assert [json.loads(call.arguments)["title"] for call in calls_in(events)] == [
        "Groceries",
        "Ideas",
    ]
    assert isinstance(events[-3], ToolCallReady)


async def test_another_task_has_a_turn_between_any_two_words() -> None:
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(other())
    stream = provider.stream(asked("help"), NO_ACCOUNT)
    turns_at_words = [turns async for event in stream if isinstance(event, TextDelta)]
    task.cancel()
    assert len(set(turns_at_words)) == len(turns_at_words) > 100


async def test_a_stream_that_is_left_stops_speaking(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(provider, "DEMO_CHUNK_SECONDS", 3_600)
    first = asyncio.Event()

    async def listen() -> None:
        async for _ in provider.stream(asked("help"), NO_ACCOUNT):
            first.set()

    task = asyncio.create_task(listen())
    await first.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_the_assistant_is_gone_when_the_demo_is_off(settings: Settings) -> None:
    settings.DEMO = False
    with pytest.raises(ProviderError) as refused:
        await events_of(asked("help"))
    assert refused.value.kind == "not_found"
    assert not refused.value.is_worth_a_retry
