"""What the Bedrock provider asks of each family of models, and what it leaves out when refused."""

from dataclasses import replace
from typing import Any

import pytest

from chatapp.providers.events import ProviderError
from chatapp.providers.request import Effort, Parameters, UserMessage
from tests.chatapp.providers.stories import HELLO, NOTES, a_request, refusal, said_by, text_of
from tests.wire.script import Answer
from tests.wire.server import WireServer

from .test_requests import (
    CLAUDE,
    MISTRAL,
    NOVA,
    PDF,
    PICTURE,
    POINT,
    asked,
    body_of,
    messages_of,
    outcome,
    reasoning,
)


@pytest.mark.parametrize(
    ("model", "points"),
    [
        (CLAUDE, ["system", "toolConfig", "messages"]),
        ("arn:aws:bedrock:eu-west-1:1:inference-profile/" + CLAUDE, ["system", "toolConfig"]),
        (NOVA, ["system", "messages"]),
        ("us." + NOVA, ["system", "messages"]),
        (MISTRAL, []),
        ("arn:aws:bedrock:eu-west-1:1:application-inference-profile/abc", []),
    ],
)
async def test_cache_points_stand_where_a_family_keeps_them(
    wire: WireServer, model: str, points: list[str]
) -> None:
    body = await body_of(wire, model=model)
    places = {
        "system": body["system"],
        "toolConfig": body["toolConfig"]["tools"],
        "messages": body["messages"][-1]["content"],
    }
    assert {name for name, blocks in places.items() if blocks[-1] == POINT} >= set(points)
    assert repr(body).count("cachePoint") == (3 if "claude" in model else len(points))


async def test_no_cache_point_stands_behind_a_document(wire: WireServer) -> None:
    history = (*HELLO, asked("call_0"), outcome(0, media=(PDF,)))
    assert POINT not in (await messages_of(wire, *history, model=CLAUDE))[-1]["content"]
    beside = UserMessage(text="Read", media=(PDF,))
    assert (await messages_of(wire, beside, model=CLAUDE))[-1]["content"][-2:] == [
        {"text": "Read"},
        POINT,
    ]


async def test_a_history_with_calls_names_their_tools_when_none_is_offered(
    wire: WireServer,
) -> None:
    history = (*HELLO, asked("call_0"), outcome(0))
    body = await body_of(wire, *history, model=MISTRAL, tools=())
    assert [tool["toolSpec"]["name"] for tool in body["toolConfig"]["tools"]] == ["notes_write"]
    assert "toolConfig" not in await body_of(wire, model=MISTRAL, tools=())


async def test_empty_words_are_not_sent(wire: WireServer) -> None:
    bare = replace(NOTES, description="")
    body = await body_of(wire, model=MISTRAL, tools=(bare,), system=" ")
    assert body["toolConfig"]["tools"][0]["toolSpec"]["description"] == "notes_write"
    assert "system" not in body


@pytest.mark.parametrize(
    ("model", "effort", "fields"),
    [
        (CLAUDE, "", None),
        (CLAUDE, "off", {"thinking": {"type": "disabled"}}),
        (
            CLAUDE,
            "high",
            {
                "thinking": {"type": "adaptive", "display": "summarized"},
                "output_config": {"effort": "high"},
            },
        ),
        (NOVA, "high", None),
    ],
)
async def test_claude_is_told_how_much_to_think(
    wire: WireServer, model: str, effort: Effort, fields: Any
) -> None:
    parameters = Parameters(effort=effort, output_tokens=500, temperature=0.5)
    body = await body_of(wire, model=model, parameters=parameters)
    assert body.get("additionalModelRequestFields") == fields
    assert body["inferenceConfig"] == {"maxTokens": 500, "temperature": 0.5}


COMPLAINTS = [
    ("Your request did not allow prompt caching", "cachePoint"),
    ("The maximum tokens you requested exceeds the model limit of 4096", "maxTokens"),
    ("temperature may only be set to 1 when thinking is enabled", "temperature"),
    ("This model doesn't support the image content block that you provided.", "'image'"),
    ("Invalid signature in thinking block", "reasoningContent"),
    ("thinking: adaptive is not supported by this model", "adaptive"),
]


@pytest.mark.parametrize(("complaint", "gone"), COMPLAINTS)
async def test_what_a_model_does_not_take_is_left_out(
    wire: WireServer, complaint: str, gone: str
) -> None:
    block = {"reasoningText": {"text": "Hm", "signature": "sealed"}}
    said = reasoning("bedrock", {"family": "anthropic", "block": block})
    history = (UserMessage(text="Look", media=(PICTURE, PDF)), said, *HELLO)
    parameters = Parameters(effort="low", temperature=0.5, output_tokens=9_000)
    request = replace(a_request(history), model=CLAUDE, parameters=parameters)
    wire.play(refusal(400, "ValidationException", complaint), Answer(text="fine"))
    assert text_of(await said_by("bedrock", request)) == "fine"
    before, after = (repr(each.body) for each in wire.requests)
    assert gone in before
    assert gone not in after
    assert "Look" in after
    assert ("thinking" in after) or gone == "reasoningContent"

    wire.play(*[refusal(400, "ValidationException", complaint)] * 9)
    with pytest.raises(ProviderError) as raised:
        await said_by("bedrock", request)
    assert raised.value.kind == "bad_request"
    assert len(wire.requests) <= 7


ADAPTIVE = {"type": "adaptive", "display": "summarized"}


@pytest.mark.parametrize(
    ("most", "thinking"),
    [
        (None, [ADAPTIVE, {"type": "enabled", "budget_tokens": 8192}, None]),
        (4_000, [ADAPTIVE, {"type": "enabled", "budget_tokens": 3999}, None]),
        (1_000, [ADAPTIVE, None]),
    ],
)
async def test_older_models_think_within_a_budget_and_the_oldest_not_at_all(
    wire: WireServer, most: int | None, thinking: list[dict[str, Any] | None]
) -> None:
    refused = refusal(400, "ValidationException", "thinking is not supported")
    wire.play(*[refused] * (len(thinking) - 1))
    await body_of(wire, parameters=Parameters(effort="medium", output_tokens=most))
    fields = [each.body.get("additionalModelRequestFields") or {} for each in wire.requests]
    assert [each.get("thinking") for each in fields] == thinking


@pytest.mark.parametrize(
    "complaint",
    [
        "messages.1.content.0: The final block in an assistant message cannot be `thinking`.",
        "reasoningContent is not supported",
        "Expected `text`, but found a thought",
    ],
)
async def test_in_the_end_a_model_is_told_none_of_its_thoughts(
    wire: WireServer, complaint: str
) -> None:
    block = {"reasoningText": {"text": "Hm", "signature": "sealed"}}
    said = reasoning("bedrock", {"family": "anthropic", "block": block})
    wire.play(refusal(400, "ValidationException", complaint))
    body = await body_of(wire, *HELLO, said, *HELLO)
    assert "sealed" in repr(wire.requests[0].body)
    assert "sealed" not in repr(body)
    assert {"text": "Well"} in body["messages"][1]["content"]


async def test_half_characters_are_sent_as_whole_ones(wire: WireServer) -> None:
    body = await body_of(wire, model=MISTRAL, system="half \ud83d")
    assert body["system"] == [{"text": "half \ufffd"}]
