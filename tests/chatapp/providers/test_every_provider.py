"""What every provider makes of every kind of answer, over a real connection in its own form."""

import asyncio
import gc
import json
import weakref
from collections import Counter
from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from chatapp.providers.events import ModelEvent, ProviderError, TextDelta, ToolLeftOut, Usage
from chatapp.providers.request import ToolSpec
from chatapp.providers.stream_reading import EVENTS_BEFORE_OTHERS
from tests.wire.formats import FORMATS
from tests.wire.script import Answer, Cut, Tool
from tests.wire.server import WireServer

from .accounts import find_provider
from .stories import (
    NOTES,
    REASONS,
    STORIES,
    a_request,
    arguments_of,
    calls_of,
    finish_of,
    reasoning_of,
    said_by,
    text_of,
    whole_of,
)

CUTS: tuple[Cut, ...] = ("end", "reset")
# A count of tokens that comes after the end of an answer may be missing.
EVENTS_AFTER_THE_END = 2
WRITES_TO_CACHE = {"anthropic": 16, "bedrock": 16}
COUNTS_NO_REASONING = {"bedrock"}
# Gemini sends calls whole, as objects: it has no text that may be cut.
WRITES_ARGUMENTS = [form for form in FORMATS if form != "google"]
RICH = Answer(
    reasoning="Think — 你好",
    text="Say 🙂 \u2028 this",
    tools=(
        Tool(name="notes_write", arguments={"text": "é"}),
        Tool(name="notes_write", arguments={"n": 2}),
    ),
    is_interleaved=True,
)


async def stream_of(form: str) -> AsyncGenerator[ModelEvent, None]:
    provider, _, account = await find_provider(f"{form}:m")
    return provider.stream(a_request(), account)


def hung_after(form: str, text: str, words: str) -> Answer:
    """An answer that falls silent after the event that adds these words."""
    answer = Answer(text=text, chunk=len(words))
    pieces = FORMATS[form].pieces(answer)
    delta = f'"{words}"'.encode()
    said = next(number for number, piece in enumerate(pieces) if delta in piece)
    return replace(answer, cut="hang", cut_after=said + 1)


@contextmanager
def without_collector() -> Iterator[None]:
    """A stream that only the garbage collector would close stays open here."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@pytest.mark.parametrize("name", STORIES)
async def test_each_story_arrives_whole_and_the_same(
    wire: WireServer, form: str, name: str
) -> None:
    story = STORIES[name]
    wire.play(story)
    events = await said_by(form)
    assert text_of(events) == "".join(said.text + said.refusal for said in story.rounds)
    assert reasoning_of(events) == "".join(said.reasoning for said in story.rounds)
    assert finish_of(events) == REASONS.get((form, name), REASONS[name])
    assert [(index, call_id, called) for index, call_id, called, _ in calls_of(events)] == [
        (index, f"call_{index}", tool.name) for index, tool in enumerate(story.all_tools)
    ]
    for index, (tool, call) in enumerate(zip(story.all_tools, calls_of(events), strict=True)):
        assert json.loads(call[3] or "{}") == (tool.arguments or {})
        assert arguments_of(events, index) in ("", call[3])


async def test_tokens_are_counted_with_cache_and_reasoning(wire: WireServer, form: str) -> None:
    events = await said_by(form)
    assert events[-2] == Usage(
        input_tokens=120,
        cached_tokens=64,
        cache_write_tokens=WRITES_TO_CACHE.get(form, 0),
        output_tokens=30,
        reasoning_tokens=0 if form in COUNTS_NO_REASONING else 12,
    )


async def test_text_arrives_chunk_by_chunk_before_the_answer_ends(
    wire: WireServer, form: str
) -> None:
    wire.play(hung_after(form, "abcdefgh", "cd"))
    stream = await stream_of(form)
    async with asyncio.timeout(30):
        first, second = await anext(stream), await anext(stream)
    await stream.aclose()
    assert (first, second) == (TextDelta(text="ab"), TextDelta(text="cd"))


@pytest.mark.parametrize("form", WRITES_ARGUMENTS)
async def test_a_cut_call_is_not_ready_when_the_answer_is_too_long(
    wire: WireServer, form: str
) -> None:
    whole, cut = Tool(name="notes_write", arguments={"a": 1}), '{"text": "and th'
    wire.play(Answer(tools=(whole, Tool(name="notes_write", arguments=cut)), finish="length"))
    events = await said_by(form)
    assert calls_of(events) == [(0, "call_0", "notes_write", '{"a": 1}')]
    assert finish_of(events) == "length"


@pytest.mark.parametrize("form", WRITES_ARGUMENTS)
async def test_a_whole_call_is_told_even_when_it_cannot_be_read(
    wire: WireServer, form: str
) -> None:
    wire.play(Answer(tools=(Tool(name="notes_write", arguments="not JSON"),)))
    events = await said_by(form)
    assert calls_of(events) == [(0, "call_0", "notes_write", "not JSON")]
    assert finish_of(events) == "tool_calls"


async def test_bytes_may_be_split_anywhere(wire: WireServer, form: str) -> None:
    """Every byte comes alone, and then in two pieces that meet at every place."""
    length = len(b"".join(FORMATS[form].pieces(RICH)))
    wire.play(RICH, replace(RICH, write=1))
    whole = whole_of(await said_by(form))
    assert whole_of(await said_by(form)) == whole
    for place in range(1, length, 37):
        wire.play(replace(RICH, write=(place,)))
        assert whole_of(await said_by(form)) == whole


@hypothesis_settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cuts=st.lists(st.integers(1, 20_000), min_size=1, max_size=12))
async def test_wherever_bytes_are_split_the_answer_is_the_same(
    wire: WireServer, form: str, cuts: list[int]
) -> None:
    length = len(b"".join(FORMATS[form].pieces(RICH)))
    wire.script.clear()
    wire.play(RICH, replace(RICH, write=tuple(cut % length for cut in cuts)))
    assert whole_of(await said_by(form)) == whole_of(await said_by(form))


@pytest.mark.parametrize("told", ["reasoning", "one_tool", "parallel_tools", "refusal", "length"])
@pytest.mark.parametrize("cut", CUTS)
async def test_an_answer_cut_at_any_event_is_an_error_or_complete(
    wire: WireServer, form: str, cut: Cut, told: str
) -> None:
    story = STORIES[told]
    count = len(FORMATS[form].pieces(story))
    wire.play(story)
    complete = whole_of(await said_by(form))
    outcomes = []
    for cut_after in range(count):
        wire.play(replace(story, cut=cut, cut_after=cut_after))
        try:
            events = await said_by(form)
        except ProviderError as error:
            outcomes.append(error.kind)
        else:
            assert whole_of(events) == complete
    assert set(outcomes) <= {"protocol", "network"}
    assert len(outcomes) >= count - EVENTS_AFTER_THE_END


async def test_a_tool_that_nobody_can_take_is_named_and_spoils_nothing(
    wire: WireServer, form: str
) -> None:
    schema = {"type": "array", "anyOf": "x", "properties": {"n": {"default": float("nan")}}}
    bad = ToolSpec(name="bad_tool", description="", input_schema=schema)
    events = await said_by(form, a_request(tools=(bad, NOTES)))
    assert [event.name for event in events if isinstance(event, ToolLeftOut)] == ["bad_tool"]
    assert finish_of(events) == "stop"
    sent = json.dumps(wire.requests[0].body)
    assert NOTES.name in sent
    assert "bad_tool" not in sent


async def test_cancelling_the_reader_closes_the_stream_at_the_provider(
    wire: WireServer, form: str
) -> None:
    wire.play(hung_after(form, "abc" * 20, "abc"))
    heard = asyncio.Event()

    async def read() -> None:
        async for _ in await stream_of(form):
            heard.set()

    task = asyncio.create_task(read())
    async with asyncio.timeout(30):
        await heard.wait()
    with without_collector():
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await wire.until(lambda: wire.aborted == 1)


async def test_cancelling_before_the_first_byte_closes_the_request(
    wire: WireServer, form: str
) -> None:
    wire.play(Answer(cut="hang", cut_after=-1))
    task = asyncio.create_task(said_by(form))
    await wire.until(lambda: wire.streaming == 1)
    with without_collector():
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await wire.until(lambda: wire.aborted == 1 and wire.streaming == 0)


async def test_closing_the_iterator_closes_the_stream_at_the_provider(
    wire: WireServer, form: str
) -> None:
    wire.play(hung_after(form, "abc" * 20, "abc"))
    stream = await stream_of(form)
    async with asyncio.timeout(30):
        await anext(stream)
    with without_collector():
        await stream.aclose()
        await wire.until(lambda: wire.aborted == 1)


async def test_closing_it_while_words_still_come_closes_the_stream_too(
    wire: WireServer, form: str
) -> None:
    wire.play(Answer(text="abc" * 400, chunk=3, delay_ms=2))
    stream = await stream_of(form)
    async with asyncio.timeout(30):
        await anext(stream)
    with without_collector():
        await stream.aclose()
        await wire.until(lambda: wire.aborted == 1 and wire.streaming == 0)


async def test_a_connection_read_to_its_end_is_used_again(wire: WireServer, form: str) -> None:
    for _ in range(3):
        await said_by(form)
    assert wire.connections == 1


async def test_many_streams_run_at_once(wire: WireServer, form: str) -> None:
    wire.play(*[Answer(text="abc" * 3, first_byte_ms=100)] * 40)
    async with asyncio.timeout(60):
        said = await asyncio.gather(*(said_by(form) for _ in range(40)))
    assert {text_of(events) for events in said} == {"abc" * 3}


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
    """Another task has a turn between batches of deltas that arrive all at once."""
    wire.play(Answer(text="x" * 4_000, chunk=1, write=10_000_000))
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    stream = await stream_of(form)
    await anext(stream)
    task = asyncio.create_task(other())
    turns_at_deltas = [turns async for event in stream if isinstance(event, TextDelta)]
    task.cancel()
    assert len(turns_at_deltas) == 3_999
    assert max(Counter(turns_at_deltas).values()) <= EVENTS_BEFORE_OTHERS


@pytest.mark.parametrize("form", ["openai-chat", "bedrock"])
async def test_arguments_that_nobody_can_read_were_cut_off(wire: WireServer, form: str) -> None:
    """The fault to plant: no RecursionError where the last call of a cut answer is read."""
    wire.play(Answer(tools=(Tool(name="notes_write", arguments="[" * 10_000),), finish="length"))
    events = await said_by(form)
    assert (calls_of(events), finish_of(events)) == ([], "length")
