"""What the OpenAI providers make of every kind of answer, in both forms, over a real connection."""

import asyncio
import gc
import itertools
import time
import weakref
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from chatapp.providers.events import ProviderError, TextDelta, Usage
from chatapp.providers.registry import provider_for
from tests.chatapp.providers.stories import (
    STORIES,
    a_request,
    arguments_of,
    calls_of,
    finish_of,
    reasoning_of,
    said_by,
    text_of,
    without_opaque,
)
from tests.wire.openai import FORMATS, WireServer, stream_bytes
from tests.wire.script import Answer, Cut, Tool

CUTS: tuple[Cut, ...] = ("end", "reset")
PATHS = {"openai": "/v1/responses", "openai-chat": "/v1/chat/completions"}
REASONS = {
    "text": "stop",
    "reasoning": "stop",
    "one_tool": "tool_calls",
    "no_arguments": "tool_calls",
    "parallel_tools": "tool_calls",
    "refusal": "refused",
    "length": "length",
    "content_filter": "filtered",
    "strange": "stop",
}
RICH = Answer(
    reasoning="Think — 你好",
    text="Say 🙂 \u2028 this",
    tools=(
        Tool(name="notes_write", arguments={"text": "é"}),
        Tool(name="notes_write", arguments={"n": 2}),
    ),
    is_interleaved=True,
)


@pytest.mark.parametrize("name", STORIES)
async def test_each_story_arrives_whole(wire: WireServer, form: str, name: str) -> None:
    story = STORIES[name]
    wire.play(story)
    events = await said_by(form)
    assert text_of(events) == story.text + story.refusal
    assert reasoning_of(events) == story.reasoning
    assert finish_of(events) == REASONS[name]
    assert calls_of(events) == [
        (index, f"call_{index}", tool.name, tool.arguments_text)
        for index, tool in enumerate(story.tools)
    ]
    for index, tool in enumerate(story.tools):
        assert arguments_of(events, index) == tool.arguments_text


@pytest.mark.parametrize("name", STORIES)
async def test_the_same_story_gives_the_same_events_in_both_forms(
    wire: WireServer, name: str
) -> None:
    wire.play(STORIES[name], STORIES[name])
    responses, chat = await said_by("openai"), await said_by("openai-chat")
    assert without_opaque(responses) == without_opaque(chat)


async def test_tokens_are_counted_with_cache_and_reasoning(wire: WireServer, form: str) -> None:
    events = await said_by(form)
    assert events[-2] == Usage(
        input_tokens=120, cached_tokens=64, output_tokens=30, reasoning_tokens=12
    )


async def test_text_arrives_chunk_by_chunk_before_the_answer_ends(
    wire: WireServer, form: str
) -> None:
    wire.play(Answer(text="abcdefgh", chunk=2, cut="hang", cut_after=6))
    provider, _ = await provider_for(f"{form}:m")
    stream = provider.stream(a_request())
    async with asyncio.timeout(5):
        first, second = await anext(stream), await anext(stream)
    await stream.aclose()
    assert (first, second) == (TextDelta(text="ab"), TextDelta(text="cd"))


async def test_a_cut_call_is_not_ready_when_the_answer_is_too_long(
    wire: WireServer, form: str
) -> None:
    whole, cut = Tool(name="notes_write", arguments={"a": 1}), '{"text": "and th'
    wire.play(Answer(tools=(whole, Tool(name="notes_write", arguments=cut)), finish="length"))
    events = await said_by(form)
    assert calls_of(events) == [(0, "call_0", "notes_write", '{"a": 1}')]
    assert finish_of(events) == "length"


async def test_bytes_may_be_split_anywhere(wire: WireServer, form: str) -> None:
    wire.play(RICH, replace(RICH, write=1))
    whole, split = await said_by(form), await said_by(form)
    assert whole == split


@hypothesis_settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(cuts=st.lists(st.integers(1, 6_000), min_size=1, max_size=12))
async def test_wherever_bytes_are_split_the_events_are_the_same(
    wire: WireServer, form: str, cuts: list[int]
) -> None:
    length = len(stream_bytes(RICH, PATHS[form], {"model": "scripted"}))
    places = tuple(cut % length for cut in cuts)
    wire.script.clear()
    wire.play(RICH, replace(RICH, write=places))
    assert await said_by(form) == await said_by(form)


async def test_an_answer_cut_at_any_event_is_an_error_or_complete(
    wire: WireServer, form: str
) -> None:
    story = STORIES["one_tool"]
    count = len(list(FORMATS[PATHS[form]](story, "scripted")))
    wire.play(story)
    complete = await said_by(form)
    outcomes = []
    for cut_after, cut in itertools.product(range(count), CUTS):
        wire.play(replace(story, cut=cut, cut_after=cut_after))
        try:
            events = await said_by(form)
        except ProviderError as error:
            outcomes.append(error.kind)
        else:
            # The count of tokens comes last and may be missing; the answer may not.
            assert events[:-2] == complete[:-2]
            assert finish_of(events) == "tool_calls"
    assert set(outcomes) <= {"protocol", "network"}
    assert len(outcomes) >= 2 * (count - 2)


async def test_cancelling_the_reader_closes_the_stream_at_the_provider(
    wire: WireServer, form: str
) -> None:
    wire.play(Answer(text="abc" * 20, cut="hang", cut_after=6))
    heard = asyncio.Event()

    async def read() -> None:
        provider, _ = await provider_for(f"{form}:m")
        async for _ in provider.stream(a_request()):
            heard.set()

    task = asyncio.create_task(read())
    async with asyncio.timeout(5):
        await heard.wait()
    started = time.monotonic()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await wire.until(lambda: wire.aborted == 1)
    assert time.monotonic() - started < 1


async def test_cancelling_before_the_first_byte_closes_the_request(
    wire: WireServer, form: str
) -> None:
    wire.play(Answer(cut="hang", cut_after=-1))
    task = asyncio.create_task(said_by(form))
    await wire.until(lambda: wire.streaming == 1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await wire.until(lambda: wire.aborted == 1 and wire.streaming == 0)


async def test_closing_the_iterator_closes_the_stream_at_the_provider(
    wire: WireServer, form: str
) -> None:
    wire.play(Answer(text="abc" * 20, cut="hang", cut_after=6))
    provider, _ = await provider_for(f"{form}:m")
    stream = provider.stream(a_request())
    async with asyncio.timeout(5):
        await anext(stream)
    await stream.aclose()
    await wire.until(lambda: wire.aborted == 1)


async def test_a_connection_read_to_its_end_is_used_again(wire: WireServer, form: str) -> None:
    for _ in range(3):
        await said_by(form)
    assert wire.connections == 1


async def test_another_event_loop_gets_a_client_of_its_own(wire: WireServer, form: str) -> None:
    await said_by(form)
    events = await asyncio.to_thread(asyncio.run, said_by(form))
    assert finish_of(events) == "stop"
    assert finish_of(await said_by(form)) == "stop"


async def test_a_closed_event_loop_is_not_kept_with_its_client(wire: WireServer, form: str) -> None:
    async def elsewhere() -> weakref.ref[asyncio.AbstractEventLoop]:
        await said_by(form)
        return weakref.ref(asyncio.get_running_loop())

    loop = await asyncio.to_thread(asyncio.run, elsewhere())
    await said_by(form)
    gc.collect()
    assert loop() is None


async def test_a_burst_leaves_room_for_other_tasks(wire: WireServer, form: str) -> None:
    wire.play(Answer(text="x" * 4_000, chunk=1, write=10_000_000))
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    provider, _ = await provider_for(f"{form}:m")
    stream = provider.stream(a_request())
    async with asyncio.timeout(10):
        await anext(stream)
        task = asyncio.create_task(other())
        texts = [event async for event in stream if isinstance(event, TextDelta)]
    task.cancel()
    assert len(texts) == 3_999
    assert turns >= 3_999 // 64
