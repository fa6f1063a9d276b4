"""What Anthropic is sent: options, marks for the cache, and less when a model complains."""

from dataclasses import replace
from typing import Any

import pytest

from chatapp.providers.anthropic import messages
from chatapp.providers.request import (
    AskedTool,
    AssistantMessage,
    Media,
    ModelRequest,
    Parameters,
    SaidReasoning,
    SaidText,
    ToolOutcome,
    UserMessage,
)
from tests.chatapp.providers.accounts import find_provider
from tests.chatapp.providers.stories import (
    HELLO,
    NOTES,
    a_request,
    failure_of,
    refusal,
    said_by,
    text_of,
)
from tests.wire.script import Answer
from tests.wire.server import WireServer

MARK = {"type": "ephemeral"}
ADAPTIVE = {"type": "adaptive", "display": "summarized"}
PICTURE = Media(media_type="image/png", base64="iVBORw0KGgo=")
PDF = Media(media_type="application/pdf", base64="JVBERi0=", name="plan.pdf")
THOUGHT = {"type": "thinking", "thinking": "Hm.", "signature": "signed"}
THOUGHTFUL = (
    *HELLO,
    AssistantMessage(
        parts=(
            SaidReasoning(text="Hm.", opaque={"provider": "anthropic", "data": {"block": THOUGHT}}),
            SaidText(text="Well."),
        )
    ),
    UserMessage(text="And?"),
)
LOOKED = (UserMessage(text="What is this?", media=(PICTURE, PDF)),)


@pytest.fixture(autouse=True)
def forgetful(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without what earlier tests learned of the scripted model."""
    monkeypatch.setattr(messages, "_largest_answers", {})


def asked(parameters: Parameters, **more: Any) -> ModelRequest:
    return replace(a_request(**more), parameters=parameters)


async def bodies(wire: WireServer, request: ModelRequest, *answers: Answer) -> list[dict[str, Any]]:
    """What was sent until an answer came."""
    wire.play(*answers, Answer(text="fine"))
    assert text_of(await said_by("anthropic", request)) == "fine"
    return [sent.body for sent in wire.requests]


async def test_a_request_is_marked_for_the_cache_where_it_stays_the_same(wire: WireServer) -> None:
    (body,) = await bodies(wire, a_request())
    assert body["system"] == [{"type": "text", "text": "Be brief.", "cache_control": MARK}]
    assert [tool.get("cache_control") for tool in body["tools"]] == [None, MARK]
    content = [{"type": "text", "text": "Hello", "cache_control": MARK}]
    assert body["messages"] == [{"role": "user", "content": content}]
    assert body["stream"] is True
    assert repr(body).count("cache_control") <= 4


async def test_the_next_request_begins_with_the_same_bytes(wire: WireServer) -> None:
    said = AssistantMessage(parts=(SaidText(text="Hi."),))
    longer = a_request((*HELLO, said, UserMessage(text="More")))
    wire.play(Answer(text="fine"))
    await said_by("anthropic")
    _, second = await bodies(wire, longer)
    first = wire.requests[0].body
    assert (first["tools"], first["system"]) == (second["tools"], second["system"])
    assert first["messages"][0]["content"][0]["text"] == second["messages"][0]["content"][0]["text"]
    assert "cache_control" in second["messages"][-1]["content"][-1]
    assert "cache_control" not in second["messages"][0]["content"][-1]


async def test_without_tools_and_system_neither_is_sent(wire: WireServer) -> None:
    (body,) = await bodies(wire, ModelRequest(model="m", system=" ", history=HELLO))
    assert not body.keys() & {"system", "tools", "tool_choice", "temperature"}


OFF = {"type": "disabled"}


@pytest.mark.parametrize(
    ("parameters", "sent"),
    [
        (Parameters(), {"thinking": ADAPTIVE}),
        (Parameters(effort="low"), {"thinking": ADAPTIVE, "output_config": {"effort": "low"}}),
        (Parameters(effort="high"), {"thinking": ADAPTIVE, "output_config": {"effort": "high"}}),
        (Parameters(effort="off"), {"thinking": OFF}),
        (Parameters(temperature=0.0), {"temperature": 0.0}),
        (Parameters(temperature=0.0, effort="off"), {"temperature": 0.0, "thinking": OFF}),
        (Parameters(output_tokens=500), {"thinking": ADAPTIVE, "max_tokens": 500}),
    ],
)
async def test_what_an_admin_set_is_sent(
    wire: WireServer, parameters: Parameters, sent: dict[str, Any]
) -> None:
    (body,) = await bodies(wire, asked(parameters))
    options = ("thinking", "output_config", "temperature", "max_tokens")
    assert {key: body[key] for key in options if key in body} == {"max_tokens": 32_000, **sent}


LOW = Parameters(effort="low")
OLD = "messages.1.content.0: Invalid `signature` in `thinking` block"
MUST_THINK = "When `thinking` is enabled, the message must start with a thinking block"
RETREATS: dict[str, tuple[ModelRequest, str, dict[str, Any]]] = {
    "temperature": (
        asked(Parameters(temperature=0.5)),
        "`temperature` may only be set to 1 when thinking is enabled",
        {"temperature": None},
    ),
    "no thinking": (
        asked(Parameters()),
        "adaptive thinking is not supported on this model",
        {"thinking": None},
    ),
    "a budget": (
        asked(LOW),
        "thinking.type: Input should be 'enabled' or 'disabled'",
        {
            "thinking": {"type": "enabled", "budget_tokens": 2_048, "display": "summarized"},
            "output_config": None,
        },
    ),
    "no room for a budget": (
        asked(replace(LOW, output_tokens=1_500)),
        "adaptive thinking is not supported on this model",
        {"thinking": None, "output_config": None},
    ),
    "no effort": (asked(LOW), "This model does not support effort", {"output_config": None}),
    "no thinking at any effort": (
        asked(Parameters()),
        "thinking is not supported at this effort level",
        {"thinking": None},
    ),
    "always thinking": (
        asked(Parameters(effort="off")),
        "thinking.type: 'disabled' is not supported",
        {"thinking": None},
    ),
    "calls without thoughts": (
        asked(LOW),
        MUST_THINK,
        {"thinking": None, "output_config": None},
    ),
    "fewer tokens": (
        asked(Parameters(output_tokens=100_000)),
        "max_tokens: 100000 > 64000, which is the maximum allowed number of output tokens",
        {"max_tokens": 64_000},
    ),
    "less room": (
        asked(Parameters()),
        "input length and `max_tokens` exceed context limit: 190000 + 32000 > 200000, decrease",
        {"max_tokens": 10_000},
    ),
}


@pytest.mark.parametrize("name", RETREATS)
async def test_what_a_model_complains_about_is_changed_and_nothing_else(
    wire: WireServer, name: str
) -> None:
    request, complaint, changes = RETREATS[name]
    first, second = await bodies(wire, request, refusal(400, "", complaint))
    expected = {**first, **changes}
    assert second == {key: value for key, value in expected.items() if value is not None}


@pytest.mark.parametrize(
    ("request_", "complaint", "gone"),
    [
        (a_request(THOUGHTFUL), OLD, ("thinking", "signature")),
        (a_request(LOOKED), "This model does not support image inputs", ("image",)),
        (a_request(LOOKED), "messages.0.content.1.document: not supported", ("application/pdf",)),
        (a_request(), "tools.1.cache_control: Extra inputs are not permitted", ("cache_control",)),
    ],
)
async def test_blocks_that_a_model_cannot_take_are_left_out(
    wire: WireServer, request_: ModelRequest, complaint: str, gone: tuple[str, ...]
) -> None:
    first, second = await bodies(wire, request_, refusal(400, "", complaint))
    assert all(f"'{word}" in repr(first) and f"'{word}" not in repr(second) for word in gone)
    texts = [block for message in second["messages"] for block in message["content"]]
    assert [block["text"] for block in texts if block["type"] == "text"]


async def test_complaints_are_met_one_after_another(wire: WireServer) -> None:
    request = asked(Parameters(effort="high", temperature=0.2), history=LOOKED)
    sent = await bodies(
        wire,
        request,
        refusal(400, "", "temperature is not supported with thinking"),
        refusal(400, "", "output_config: Extra inputs are not permitted"),
        refusal(400, "", "thinking is not supported"),
        refusal(400, "", "image input is not supported"),
    )
    assert len(sent) == 5
    assert not sent[-1].keys() & {"temperature", "output_config"}
    assert sent[-1]["thinking"]["type"] == "enabled"


@pytest.mark.parametrize(
    "complaint",
    [
        "temperature, effort, thinking, signature, image, document and cache_control",
        "max_tokens: 5 > 4, which is too many",
        "something else",
    ],
)
async def test_a_complaint_that_does_not_go_away_ends(wire: WireServer, complaint: str) -> None:
    wire.play(*[refusal(400, "", complaint)] * 12)
    request = asked(Parameters(effort="high", temperature=0.2), history=(*THOUGHTFUL, *LOOKED))
    assert (await failure_of("anthropic", request)).kind == "bad_request"
    assert len(wire.requests) <= 9


async def test_no_room_for_an_answer_is_told_as_such(wire: WireServer) -> None:
    complaint = "input length and `max_tokens` exceed context limit: 199900 + 32000 > 200000"
    wire.play(refusal(400, "", complaint))
    assert (await failure_of("anthropic")).kind == "too_long"
    assert len(wire.requests) == 1


async def test_a_limit_is_learned_once(wire: WireServer) -> None:
    complaint = "max_tokens: 32000 > 8192, which is the maximum allowed number of output tokens"
    await bodies(wire, a_request(), refusal(400, "", complaint))
    sent = await bodies(wire, a_request())
    assert [body["max_tokens"] for body in sent] == [32_000, 8_192, 8_192]


async def test_a_listed_limit_is_used(wire: WireServer) -> None:
    provider, _, account = await find_provider("anthropic:scripted")
    await provider.list_models(account)
    (body,) = await bodies(wire, a_request())
    assert body["max_tokens"] == 64_000


async def test_calls_of_the_past_keep_tools_that_nobody_may_call(wire: WireServer) -> None:
    call = AskedTool(call_id="c1", name=NOTES.name, arguments="{}")
    outcome = ToolOutcome(call_id="c1", name=NOTES.name, text="Done")
    history = (*HELLO, AssistantMessage(parts=(call,)), outcome)
    (body,) = await bodies(wire, a_request(history, tools=()))
    assert [tool["name"] for tool in body["tools"]] == [NOTES.name]
    assert body["tool_choice"] == {"type": "none"}
