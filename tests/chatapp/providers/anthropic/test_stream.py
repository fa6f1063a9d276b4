"""What is particular about Anthropic's answers: pauses, redacted thoughts, pings, refusals."""

import json
from typing import Any

import pytest
from pytest_django import Settings

from chatapp.providers.anthropic import client
from chatapp.providers.anthropic.messages import MAX_PAUSES
from chatapp.providers.events import Finished, OpaqueData, Usage
from tests.chatapp.providers.stories import (
    calls_of,
    failure_of,
    finish_of,
    opaque_of,
    reasoning_of,
    said_by,
    text_of,
)
from tests.wire.script import Answer, Tool
from tests.wire.server import WireServer

START = {"type": "message_start", "message": {"usage": {"input_tokens": 10, "output_tokens": 1}}}
PING = {"type": "ping"}


def said(*blocks: dict[str, Any]) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = []
    for index, block in enumerate(blocks):
        events.append({"type": "content_block_start", "index": index, "content_block": block})
        events.append({"type": "content_block_stop", "index": index})
    return events


def stop(reason: str, **usage: int) -> list[dict[str, Any]]:
    delta = {"stop_reason": reason, "stop_sequence": None}
    return [{"type": "message_delta", "delta": delta, "usage": usage}, {"type": "message_stop"}]


def answer(*blocks: dict[str, Any], reason: str = "end_turn", **usage: int) -> Answer:
    return Answer(events=(START, *said(*blocks), *stop(reason, **usage)))


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


@pytest.mark.parametrize(
    ("reason", "finish"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("something_new", "stop"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("refusal", "refused"),
    ],
)
async def test_each_reason_to_stop_is_understood(
    wire: WireServer, reason: str, finish: str
) -> None:
    wire.play(answer(text("Well"), reason=reason))
    assert finish_of(await said_by("anthropic")) == finish


async def test_no_room_for_a_single_word_is_an_error(wire: WireServer) -> None:
    wire.play(answer(reason="model_context_window_exceeded"))
    assert (await failure_of("anthropic")).kind == "too_long"


async def test_a_pause_goes_on_in_another_request(wire: WireServer) -> None:
    search = {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {"q": "x"}}
    found = {"type": "web_search_tool_result", "tool_use_id": "srv_1", "content": []}
    call = {"type": "tool_use", "id": "toolu_1", "name": "notes_write", "input": {"a": 1}}
    wire.play(
        answer(text("Wait"), search, found, reason="pause_turn", output_tokens=5),
        answer(text(" and see."), call, reason="tool_use", output_tokens=7),
    )
    events = await said_by("anthropic")
    assert text_of(events) == "Wait and see."
    assert calls_of(events) == [(0, "toolu_1", "notes_write", '{"a": 1}')]
    assert events[-2] == Usage(input_tokens=20, output_tokens=12)
    first, second = (request.body["messages"] for request in wire.requests)
    assert second == [*first, {"role": "assistant", "content": [text("Wait"), search, found]}]


async def test_an_answer_that_only_pauses_ends(wire: WireServer) -> None:
    search = {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {}}
    wire.play(*[answer(text("."), search, reason="pause_turn")] * (MAX_PAUSES + 5))
    events = await said_by("anthropic")
    assert finish_of(events) == "length"
    assert len(wire.requests) == MAX_PAUSES + 1
    assert text_of(events) == "." * (MAX_PAUSES + 1)


async def test_redacted_thoughts_are_kept_without_words(wire: WireServer) -> None:
    sealed = {"type": "redacted_thinking", "data": "EmwKAhgB"}
    signed = {"type": "thinking", "thinking": "Hm.", "signature": "s"}
    wire.play(answer(sealed, signed, text("Well.")))
    events = await said_by("anthropic")
    assert reasoning_of(events) == "Hm."
    kept = [(each.kind, each.data["data"]) for each in opaque_of(events)]
    assert kept == [
        ("reasoning", {"place": 0, "block": sealed}),
        ("reasoning", {"place": 1, "block": signed}),
        ("text", {"place": 2}),
    ]
    assert all(each.data["provider"] == "anthropic" for each in opaque_of(events))


async def test_a_refusal_is_explained_behind_what_was_said(wire: WireServer) -> None:
    wire.play(Answer(text="Sure:", refusal="This is about something else."))
    events = await said_by("anthropic")
    assert text_of(events) == "Sure:\n\nThis is about something else."
    assert finish_of(events) == "refused"


async def test_tools_that_the_provider_runs_itself_are_no_calls(wire: WireServer) -> None:
    wire.play(Answer(text="Still here.", is_strange=True))
    events = await said_by("anthropic")
    assert not calls_of(events)
    assert [each.kind for each in opaque_of(events)] == ["text"]


async def test_a_sloppy_server_is_understood(wire: WireServer) -> None:
    """No message at the start, whole arguments at once, no count of tokens."""
    tools = (Tool(name="notes_write", arguments={"a": 1}), Tool(name="notes_write"))
    wire.play(Answer(reasoning="Hm.", text="Well.", tools=tools, is_sloppy=True))
    events = await said_by("anthropic")
    assert (reasoning_of(events), text_of(events)) == ("Hm.", "Well.")
    assert [call[3] for call in calls_of(events)] == ['{"a": 1}', "{}"]
    assert events[-2:] == [Usage(), Finished(reason="tool_calls")]


async def test_events_without_their_name_beside_them_are_heard(wire: WireServer) -> None:
    events = [*said(text("Heard.")), *stop("end_turn")]
    wire.play(Answer(events=tuple(f"data: {json.dumps(event)}\n\n" for event in events)))
    assert text_of(await said_by("anthropic")) == "Heard."


async def test_events_that_only_their_name_tells_apart_are_heard(wire: WireServer) -> None:
    lines = ""
    for event in [*said(text("Heard.")), *stop("end_turn")]:
        lines += f"event: {event.pop('type')}\ndata: {json.dumps(event)}\n\n"
    wire.play(Answer(events=(lines,)))
    assert text_of(await said_by("anthropic")) == "Heard."


async def test_blocks_that_never_close_are_whole_at_the_end(wire: WireServer) -> None:
    call = {"type": "tool_use", "id": "t", "name": "notes_write", "input": {}}
    open_blocks = [event for event in said(text("Well."), call) if "stop" not in event["type"]]
    wire.play(Answer(events=(START, *open_blocks, *stop("tool_use"))))
    events = await said_by("anthropic")
    assert calls_of(events) == [(0, "t", "notes_write", "{}")]


async def test_nonsense_between_events_is_passed_over(wire: WireServer) -> None:
    nonsense: list[dict[str, Any]] = [
        {"type": "content_block_delta", "index": 7, "delta": {"type": "text_delta", "text": "x"}},
        {"type": "content_block_start", "index": [], "content_block": None},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": None}},
        {"type": "content_block_stop", "index": None},
        {"type": "message_delta", "delta": None, "usage": None},
        {"type": "message_delta", "delta": {"stop_reason": None}, "usage": {"input_tokens": None}},
        {"type": None},
    ]
    wire.play(Answer(events=(*nonsense, START, *nonsense, *said(text("Well.")), *stop("end_turn"))))
    assert text_of(await said_by("anthropic")) == "Well."


async def test_numbers_of_tokens_are_replaced_and_not_added(wire: WireServer) -> None:
    counts = {"input_tokens": 12, "cache_read_input_tokens": 5, "cache_creation_input_tokens": 3}
    end = stop("end_turn", output_tokens=9, **counts)
    wire.play(Answer(events=(START, *said(text("Well")), *end)))
    assert (await said_by("anthropic"))[-2] == Usage(
        input_tokens=20, cached_tokens=5, cache_write_tokens=3, output_tokens=9
    )


async def test_half_characters_and_nul_never_leave_the_provider(wire: WireServer) -> None:
    delta = '{"type":"text_delta","text":"a\\ud83d\\u0000b"}'
    events = [json.dumps(event) for event in [*said(text("")), *stop("end_turn")]]
    events.insert(1, f'{{"type":"content_block_delta","index":0,"delta":{delta}}}')
    wire.play(Answer(events=tuple(f"data: {event}\n\n" for event in events)))
    assert text_of(await said_by("anthropic")) == "a\ufffdb"


async def test_a_call_without_an_id_gets_its_own(wire: WireServer) -> None:
    call = {"type": "tool_use", "name": "notes_write", "input": {}}
    wire.play(answer(call, call, reason="tool_use"))
    ids = [call_id for _, call_id, _, _ in calls_of(await said_by("anthropic"))]
    assert all(ids)
    assert len(set(ids)) == 2


async def test_pings_show_that_the_server_is_alive(wire: WireServer, settings: Settings) -> None:
    settings.MODEL_IDLE_SECONDS = 0.6
    wire.play(
        Answer(events=(START, *[PING] * 10, *said(text("Late.")), *stop("end_turn")), delay_ms=80)
    )
    assert text_of(await said_by("anthropic")) == "Late."


async def test_a_server_that_only_pings_times_out(
    wire: WireServer, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "MAX_PINGS", 3)
    settings.MODEL_IDLE_SECONDS = 0.1
    wire.play(Answer(events=(START, *[PING] * 500), delay_ms=20))
    assert (await failure_of("anthropic")).kind == "timeout"
    await wire.until(lambda: wire.aborted == 1)


async def test_text_in_two_blocks_stays_two_parts(wire: WireServer) -> None:
    wire.play(answer(text("One."), text("Two.")))
    events = await said_by("anthropic")
    assert [type(event) for event in events].count(OpaqueData) == 2
