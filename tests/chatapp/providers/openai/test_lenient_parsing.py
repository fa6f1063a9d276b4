"""Servers that keep to OpenAI's forms loosely, or speak of what nobody here knows."""

import asyncio
from typing import Any

import pytest

from chatapp.providers.events import Usage
from chatapp.providers.openai import chat as openai_chat
from tests.chatapp.providers.stories import (
    OPENAI_FORMS,
    STORIES,
    calls_of,
    failure_of,
    finish_of,
    opaque_of,
    said_by,
    text_of,
)
from tests.wire.script import Answer, Tool
from tests.wire.server import WireServer


@pytest.fixture(params=OPENAI_FORMS)
def form(request: pytest.FixtureRequest) -> str:
    return str(request.param)


async def test_tools_that_the_provider_runs_itself_are_no_calls(wire: WireServer) -> None:
    wire.play(STORIES["strange"])
    events = await said_by("openai")
    assert not calls_of(events)
    assert [item.data["data"]["type"] for item in opaque_of(events)] == ["message"]


async def test_half_characters_and_nul_never_leave_the_provider(
    wire: WireServer, form: str
) -> None:
    raw = 'data: {"type":"response.output_text.delta","output_index":0,"delta":"a\\ud83d\\u0000b"}'
    chat = 'data: {"choices":[{"delta":{"content":"a\\ud83d\\u0000b"},"finish_reason":"stop"}]}'
    end = 'data: {"type":"response.completed","response":{}}\n\n'
    wire.play(Answer(events=(f"{raw}\n\n{end}" if form == "openai" else f"{chat}\n\n",)))
    assert text_of(await said_by(form)) == "a\ufffdb"


async def test_a_sloppy_server_is_understood(wire: WireServer, form: str) -> None:
    tools = (Tool(name="notes_write", arguments={"a": 1}), Tool(name="notes_write"))
    wire.play(Answer(reasoning="Hm.", text="Well.", tools=tools, is_sloppy=True))
    events = await said_by(form)
    assert text_of(events) == "Well."
    assert [(call[0], *call[2:]) for call in calls_of(events)] == [
        (0, "notes_write", '{"a": 1}'),
        (1, "notes_write", "{}"),
    ]
    ids = [call[1] for call in calls_of(events)]
    assert all(ids)
    assert len(set(ids)) == 2
    assert finish_of(events) == "tool_calls"


async def test_calls_that_share_an_index_are_told_apart_by_their_ids(wire: WireServer) -> None:
    def piece(call_id: str, name: str, arguments: str) -> dict[str, object]:
        function = {"name": name, "arguments": arguments}
        call = {"index": 0, "id": call_id, "function": function}
        return {"choices": [{"delta": {"tool_calls": [call]}}]}

    end = {"choices": [{"delta": {}, "finish_reason": "stop"}]}
    wire.play(Answer(events=(piece("a", "one", "{}"), piece("b", "two", '{"x":1}'), end)))
    assert calls_of(await said_by("openai-chat")) == [
        (0, "a", "one", "{}"),
        (1, "b", "two", '{"x":1}'),
    ]


async def test_calls_that_share_an_id_get_their_own(wire: WireServer) -> None:
    calls = [
        {"index": index, "id": "call", "function": {"name": name, "arguments": "{}"}}
        for index, name in enumerate(("one", "two"))
    ]
    end = {"choices": [{"delta": {"tool_calls": calls}, "finish_reason": "tool_calls"}]}
    wire.play(Answer(events=(end,)))
    (_, first, *_), (_, second, *_) = calls_of(await said_by("openai-chat"))
    assert first == "call" != second


@pytest.mark.parametrize("counted", [True, False])
async def test_a_line_that_stays_open_after_the_end_is_not_waited_for(
    wire: WireServer, monkeypatch: pytest.MonkeyPatch, counted: bool
) -> None:
    monkeypatch.setattr(openai_chat, "USAGE_SECONDS", 0.3)
    end = {"choices": [{"delta": {"content": "Done."}, "finish_reason": "stop"}]}
    count = {"choices": [], "usage": {"prompt_tokens": 7}}
    wire.play(Answer(events=(end, count, count), cut="hang", cut_after=1 + counted))
    async with asyncio.timeout(30):
        events = await said_by("openai-chat")
    assert (text_of(events), finish_of(events)) == ("Done.", "stop")
    assert [each.input_tokens for each in events if isinstance(each, Usage)] == [7 * counted]


STRANGE = ("text", 7, ["text", 7, None], {"delta": 1}, True)


@pytest.mark.parametrize("strange", STRANGE, ids=repr)
async def test_a_field_of_another_kind_says_nothing(
    wire: WireServer, form: str, strange: Any
) -> None:
    calls = {"tool_calls": strange, "content": strange if strange != "text" else ""}
    counts = {"prompt_tokens": strange, "prompt_tokens_details": strange}
    counts |= {"completion_tokens_details": strange, "input_tokens_details": strange}
    chat = (
        {"choices": strange},
        *({"choices": [{"delta": each}]} for each in (strange, calls)),
        {"choices": [{"delta": {"content": "Well."}, "finish_reason": "stop"}], "usage": counts},
    )
    message = {"type": "message", "content": strange}
    response = {"output": strange, "usage": counts, "status": "incomplete"}
    responses = (
        {"type": "response.output_item.done", "output_index": 9, "item": strange},
        {"type": "response.output_item.done", "output_index": 8, "item": message},
        {"type": "response.output_text.delta", "output_index": 0, "delta": "Well."},
        {"type": "response.completed", "response": response | {"incomplete_details": strange}},
    )
    wire.play(Answer(events=chat if form == "openai-chat" else responses))
    events = await said_by(form)
    assert text_of(events) == "Well."
    assert finish_of(events) == ("stop" if form == "openai-chat" else "length")


@pytest.mark.parametrize(
    ("error", "kind"),
    [({}, "server"), ({"error": {"code": 429, "message": "Slow down"}}, "rate_limit")],
)
async def test_an_answer_that_ends_with_an_error_is_none(
    wire: WireServer, error: dict[str, Any], kind: str
) -> None:
    half = {"choices": [{"delta": {"content": "Half an"}}]}
    end = {"choices": [{"delta": {}, "finish_reason": "error", **error}]}
    wire.play(Answer(events=(half, end)))
    assert (await failure_of("openai-chat")).kind == kind


@pytest.mark.parametrize("strange", STRANGE, ids=repr)
async def test_a_failure_that_says_nothing_is_one(wire: WireServer, strange: Any) -> None:
    for response in (strange, {"error": strange}):
        wire.play(Answer(events=({"type": "response.failed", "response": response},)))
        assert (await failure_of("openai")).kind == "server"


async def test_arguments_that_come_only_with_the_whole_item_are_taken(wire: WireServer) -> None:
    item = {"type": "function_call", "id": "fc", "call_id": "c", "name": "notes_write"}
    added = {"type": "response.output_item.added", "output_index": 0, "item": item}
    done = {**added, "type": "response.output_item.done", "item": item | {"arguments": '{"a":1}'}}
    end = {"type": "response.completed", "response": {"status": "completed"}}
    wire.play(Answer(events=(added, done, end)))
    assert calls_of(await said_by("openai")) == [(0, "c", "notes_write", '{"a":1}')]


async def test_a_call_is_ready_once_however_often_it_is_told(wire: WireServer) -> None:
    item = {"type": "function_call", "call_id": "c", "name": "notes_write", "arguments": "{}"}
    done = {"type": "response.output_item.done", "output_index": 0, "item": item}
    response = {"output": [{"type": "reasoning"}, item]}
    wire.play(Answer(events=(done, done, {"type": "response.completed", "response": response})))
    assert len(calls_of(await said_by("openai"))) == 1
