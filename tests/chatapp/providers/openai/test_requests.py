"""What the OpenAI providers send: the request itself and a history that replays exactly."""

import re
from typing import Any

import pytest

from chatapp.providers.request import (
    AskedTool,
    AssistantMessage,
    HistoryItem,
    SaidReasoning,
    SaidText,
    ToolOutcome,
    UserMessage,
)
from tests.chatapp.providers.stories import (
    HELLO,
    OPENAI_FORMS,
    WEATHER,
    a_request,
    as_history,
    calls_of,
    failure_of,
    opaque_of,
    refusal,
    said_by,
    text_of,
)
from tests.wire.script import Answer, Tool
from tests.wire.server import WireServer

STORY = Answer(
    reasoning="I need both.",
    text="Let me look.",
    tools=(
        Tool(name="notes_write", arguments={"text": "é"}),
        Tool(name="notes_write", arguments={"n": 2}),
    ),
    is_interleaved=True,
)
OUTCOMES = (
    ToolOutcome(call_id="call_0", name="notes_write", text="Written."),
    ToolOutcome(call_id="call_1", name="notes_write", text="Denied: not today", is_error=True),
)


@pytest.fixture(params=OPENAI_FORMS)
def form(request: pytest.FixtureRequest) -> str:
    return str(request.param)


async def second_body(wire: WireServer, form: str, story: Answer) -> dict[str, Any]:
    """The body of the request after `story` was said, its calls answered, and more asked."""
    wire.play(story)
    said = as_history(await said_by(form))
    history: tuple[HistoryItem, ...] = (*HELLO, said, *OUTCOMES[: len(story.tools)])
    await said_by(form, a_request(history))
    body: dict[str, Any] = wire.requests[-1].body
    return body


async def test_nothing_is_stored_at_openai(wire: WireServer) -> None:
    await said_by("openai")
    body = wire.requests[0].body
    assert body["store"] is False
    assert body["include"] == ["reasoning.encrypted_content"]
    assert body["instructions"] == "Be brief."
    assert body["input"] == [{"role": "user", "content": "Hello"}]
    assert body["stream"] is True


async def test_a_chat_request_asks_for_the_token_count(wire: WireServer) -> None:
    await said_by("openai-chat")
    body = wire.requests[0].body
    assert body["messages"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Hello"},
    ]
    assert body["stream_options"] == {"include_usage": True}


async def test_history_replays_items_exactly_as_they_came(wire: WireServer) -> None:
    body = await second_body(wire, "openai", STORY)
    kinds = [item.get("type") for item in body["input"]]
    assert kinds[:3] == [None, "reasoning", "message"]
    assert kinds[3:5] == ["function_call"] * 2
    wire.play(STORY)
    came = {
        item.data["data"]["id"]: item.data["data"] for item in opaque_of(await said_by("openai"))
    }
    assert came["rs_1"]["encrypted_content"] == "gAAAA-sealed"
    assert body["input"][1] == came["rs_1"]
    assert body["input"][2] == came["msg_1"]
    assert body["input"][2]["phase"] == "final_answer"
    assert {call["call_id"]: call["arguments"] for call in body["input"][3:5]} == {
        "call_0": '{"text": "\\u00e9"}',
        "call_1": '{"n": 2}',
    }
    assert {call["id"] for call in body["input"][3:5]} == {"fc_0", "fc_1"}


async def test_results_and_denials_go_back_in_the_form_of_responses(wire: WireServer) -> None:
    body = await second_body(wire, "openai", STORY)
    assert body["input"][5:] == [
        {"type": "function_call_output", "call_id": "call_0", "output": "Written."},
        {"type": "function_call_output", "call_id": "call_1", "output": "Error: Denied: not today"},
    ]


async def test_a_chat_history_keeps_calls_results_and_reasoning(wire: WireServer) -> None:
    body = await second_body(wire, "openai-chat", STORY)
    assistant, *results = body["messages"][2:]
    assert assistant["content"] == "Let me look."
    assert assistant["reasoning_content"] == "I need both."
    assert assistant["tool_calls"] == [
        {
            "id": f"call_{index}",
            "type": "function",
            "function": {"name": "notes_write", "arguments": tool.arguments_text},
        }
        for index, tool in enumerate(STORY.tools)
    ]
    assert results == [
        {"role": "tool", "tool_call_id": "call_0", "content": "Written."},
        {"role": "tool", "tool_call_id": "call_1", "content": "Error: Denied: not today"},
    ]


async def test_chat_reasoning_without_calls_stays_here(wire: WireServer) -> None:
    story = Answer(reasoning="I need both.", text="Done.")
    body = await second_body(wire, "openai-chat", story)
    assert body["messages"][2] == {"role": "assistant", "content": "Done."}


async def test_what_a_server_adds_to_a_call_goes_back_with_it(wire: WireServer) -> None:
    extra = {"google": {"thought_signature": "c2lnbmVk"}}
    call = {"index": 0, "id": "call_0", "extra_content": extra, "function": {"name": "notes_write"}}
    end = {"choices": [{"delta": {"tool_calls": [call]}, "finish_reason": "tool_calls"}]}
    body = await second_body(
        wire, "openai-chat", Answer(events=(end,), tools=(Tool(name="notes_write"),))
    )
    assert body["messages"][2]["tool_calls"][0]["extra_content"] == extra


@pytest.mark.parametrize("other", ["openai", "openai-chat"])
async def test_a_history_of_another_provider_goes_as_plain_text(
    wire: WireServer, form: str, other: str
) -> None:
    foreign = {"provider": "openai-chat" if form == "openai" else "openai", "data": {"x": "sealed"}}
    said = AssistantMessage(
        parts=(
            SaidReasoning(text="Hm", opaque=foreign),
            SaidText(text="Well", opaque=foreign),
            AskedTool(call_id="c1", name="weather_look.up", arguments="{}", opaque=foreign),
        )
    )
    outcome = ToolOutcome(call_id="c1", name="weather_look.up", text="Sun")
    await said_by(form, a_request((*HELLO, said, outcome)))
    sent = repr(wire.requests[0].body)
    assert "Well" in sent
    assert "c1" in sent
    assert "sealed" not in sent
    assert "Hm" not in sent


async def test_a_sealed_call_goes_back_under_the_id_and_the_name_that_it_has_here(
    wire: WireServer,
) -> None:
    """The model used an id twice, and invented a name that OpenAI refuses to read again."""
    parts = []
    for ours, name in (("call_0", "weather_look.up"), ("call_other", "write a poem")):
        own = {"type": "function_call", "id": f"fc_{ours}", "call_id": "call_0", "name": name}
        sealed = {"provider": "openai", "data": {**own, "arguments": "{}"}}
        parts.append(AskedTool(call_id=ours, name=name, arguments="{}", opaque=sealed))
    outcomes = [ToolOutcome(call_id=each.call_id, name=each.name, text="No") for each in parts]
    await said_by("openai", a_request((*HELLO, AssistantMessage(parts=tuple(parts)), *outcomes)))
    sent = wire.requests[0].body["input"]
    asked = [item for item in sent if item.get("type") == "function_call"]
    answered = [item["call_id"] for item in sent if item.get("type") == "function_call_output"]
    assert [item["call_id"] for item in asked] == answered == ["call_0", "call_other"]
    assert all(re.fullmatch(r"[\w-]{1,64}", item["name"]) for item in asked)
    assert [item["id"] for item in asked] == ["fc_call_0", "fc_call_other"]


async def test_reasoning_that_is_not_carried_along_is_left_out(wire: WireServer) -> None:
    bare = {"type": "reasoning", "id": "rs_9", "summary": []}
    part = SaidReasoning(text="", opaque={"provider": "openai", "data": bare})
    said = AssistantMessage(parts=(part, SaidText(text="Well")))
    await said_by("openai", a_request((*HELLO, said)))
    assert "rs_9" not in repr(wire.requests[0].body)


async def test_reasoning_of_another_account_is_dropped_when_it_is_refused(wire: WireServer) -> None:
    sealed = {"type": "reasoning", "id": "rs_9", "encrypted_content": "other", "summary": []}
    part = SaidReasoning(text="", opaque={"provider": "openai", "data": sealed})
    said = AssistantMessage(parts=(part, SaidText(text="Well")))
    error = {"code": "invalid_encrypted_content", "message": "Could not be verified"}
    wire.play(Answer(status=400, error=error), Answer(text="fine"))
    assert text_of(await said_by("openai", a_request((*HELLO, said)))) == "fine"
    first, second = (request.body["input"] for request in wire.requests)
    assert len(first) == len(second) + 1
    assert "rs_9" not in repr(second)


NO_REASONER = (
    "Unsupported parameter: 'reasoning.effort' is not supported with this model.",
    "Reasoning input items can only be provided to a reasoning or computer use model. Remove "
    "reasoning items from your input and try again.",
)


@pytest.mark.parametrize(
    ("complaints", "is_asked_to_reason"),
    [
        (NO_REASONER, False),
        (NO_REASONER[::-1], False),
        (
            ("Item 'rs_1' of type 'reasoning' was provided without its required following item",),
            True,
        ),
        (("Item 'fc_0' was provided without its required 'reasoning' item: 'rs_0'.",), True),
        (("No reasoning here", "No reasoning here"), False),
    ],
)
async def test_a_model_that_takes_no_reasoning_is_told_none(
    wire: WireServer, complaints: tuple[str, ...], is_asked_to_reason: bool
) -> None:
    wire.play(STORY)
    said = as_history(await said_by("openai"))
    wire.play(*(refusal(400, "unsupported", each) for each in complaints), Answer(text="fine"))
    history = (*HELLO, said, *OUTCOMES)
    assert text_of(await said_by("openai", a_request(history))) == "fine"
    bodies = [request.body for request in wire.requests[1:]]
    assert [item.get("type") for item in bodies[0]["input"]][1] == "reasoning"
    left = [item.get("type") for item in bodies[-1]["input"]]
    assert left == [None, "message", *["function_call"] * 2, *["function_call_output"] * 2]
    # OpenAI keeps no item, but knows by its id what a reasoning led to.
    assert not any("id" in item for item in bodies[-1]["input"])
    assert ("reasoning" in bodies[-1]) is is_asked_to_reason


async def test_a_complaint_about_reasoning_that_nobody_sent_is_heard(wire: WireServer) -> None:
    wire.play(refusal(400, "unsupported", NO_REASONER[1]))
    assert (await failure_of("openai")).kind == "bad_request"
    assert len(wire.requests) == 1


async def test_tools_travel_under_names_that_the_provider_takes(
    wire: WireServer, form: str
) -> None:
    await said_by(form)
    tools = wire.requests[0].body["tools"]
    functions = tools if form == "openai" else [tool["function"] for tool in tools]
    names = [function["name"] for function in functions]
    assert names[1] == "notes_write"
    assert names[0].startswith("weather_look_up_")
    assert functions[0]["parameters"]["properties"] == {"place": {"type": "string"}}
    assert functions[1]["parameters"] == {"type": "object", "properties": {}}

    wire.play(Answer(tools=(Tool(name=names[0], arguments={"place": "Ulm"}),)))
    events = await said_by(form)
    assert calls_of(events) == [(0, "call_0", WEATHER.name, '{"place": "Ulm"}')]
    asked = as_history(events)
    outcome = ToolOutcome(call_id="call_0", name=WEATHER.name, text="Sun")
    await said_by(form, a_request((*HELLO, asked, outcome), tools=()))
    sent = repr(wire.requests[-1].body)
    assert names[0] in sent
    assert WEATHER.name not in sent


async def test_a_name_that_the_model_made_up_comes_back_as_it_is(
    wire: WireServer, form: str
) -> None:
    wire.play(Answer(tools=(Tool(name="no_such_tool"),)))
    assert calls_of(await said_by(form))[0][2] == "no_such_tool"


async def test_without_tools_and_system_neither_is_sent(wire: WireServer, form: str) -> None:
    request = a_request((UserMessage(text="Hi"),), tools=())
    await said_by(form, type(request)(model="m", system="", history=request.history))
    body = wire.requests[0].body
    assert not body.keys() & {"tools", "instructions"}
    assert "system" not in repr(body)
