"""What the Bedrock provider sends: roles that take turns, blocks that a family takes."""

import base64
import json
import re
from dataclasses import replace
from typing import Any

import pytest

from chatapp.providers.request import (
    AskedTool,
    AssistantMessage,
    HistoryItem,
    Media,
    SaidReasoning,
    SaidText,
    ToolOutcome,
    UserMessage,
)
from tests.chatapp.providers.stories import HELLO, a_request, as_history, finish_of, said_by
from tests.wire.bedrock_format import REDACTED
from tests.wire.script import Answer, Tool
from tests.wire.server import WireServer

CLAUDE = "eu.anthropic.claude-sonnet-5-5"
NOVA = "amazon.nova-2-lite-v1:0"
MISTRAL = "mistral.mistral-large-2407-v1:0"
POINT = {"cachePoint": {"type": "default"}}
SILENCE = {"text": "."}
PICTURE = Media(media_type="image/png", base64="iVBORw0KGgo=", name="dot.png")
PDF = Media(media_type="application/pdf", base64="JVBERi0=", name="Q3 – report_v2.pdf")
NOTE = Media(media_type="text/csv", base64=base64.b64encode("ä,b".encode()).decode(), name="n.csv")
IMAGE_BLOCK = {"image": {"format": "png", "source": {"bytes": "iVBORw0KGgo="}}}
STORY = Answer(
    reasoning="I need both.",
    text="Let me look.",
    tools=(Tool(name="notes_write", arguments={"text": "é"}), Tool(name="notes_write")),
)


async def body_of(
    wire: WireServer, *history: HistoryItem, model: str = CLAUDE, **more: Any
) -> dict[str, Any]:
    request = replace(a_request(history or HELLO), model=model, **more)
    assert finish_of(await said_by("bedrock", request)) == "stop"
    body: dict[str, Any] = wire.requests[-1].body
    return body


async def messages_of(
    wire: WireServer, *history: HistoryItem, model: str = MISTRAL, **more: Any
) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = (await body_of(wire, *history, model=model, **more))[
        "messages"
    ]
    return messages


def outcome(number: int, text: str = "Done.", **more: Any) -> ToolOutcome:
    return ToolOutcome(call_id=f"call_{number}", name="notes_write", text=text, **more)


def asked(*call_ids: str, arguments: str = "{}") -> AssistantMessage:
    calls = (AskedTool(call_id=each, name="notes_write", arguments=arguments) for each in call_ids)
    return AssistantMessage(parts=tuple(calls))


def reasoning(provider: str, data: Any) -> AssistantMessage:
    opaque = {"provider": provider, "data": data}
    return AssistantMessage(parts=(SaidReasoning(text="Hm", opaque=opaque), SaidText(text="Well")))


async def test_reasoning_goes_back_exactly_and_results_in_one_turn(wire: WireServer) -> None:
    wire.play(STORY)
    said = as_history(await said_by("bedrock", replace(a_request(), model=CLAUDE)))
    messages = await messages_of(
        wire, *HELLO, said, outcome(0), outcome(1, is_error=True), model=CLAUDE
    )
    thought = {"text": "I need both.", "signature": "EqQB-signed"}
    assert messages[1] == {
        "role": "assistant",
        "content": [
            {"reasoningContent": {"reasoningText": thought}},
            {"text": "Let me look."},
            {"toolUse": {"toolUseId": "call_0", "name": "notes_write", "input": {"text": "é"}}},
            {"toolUse": {"toolUseId": "call_1", "name": "notes_write", "input": {}}},
        ],
    }
    told = [{"text": "Done."}]
    assert messages[2] == {
        "role": "user",
        "content": [
            {"toolResult": {"toolUseId": "call_0", "content": told, "status": "success"}},
            {"toolResult": {"toolUseId": "call_1", "content": told, "status": "error"}},
            POINT,
        ],
    }


async def test_what_was_said_in_secret_goes_back_byte_by_byte(wire: WireServer) -> None:
    wire.play(Answer(text="Well", is_strange=True))
    said = as_history(await said_by("bedrock", replace(a_request(), model=CLAUDE)))
    assert json.loads(json.dumps(said.parts[0].opaque)) == said.parts[0].opaque
    messages = await messages_of(wire, *HELLO, said, *HELLO, model=CLAUDE)
    assert messages[1]["content"][0] == {"reasoningContent": {"redactedContent": REDACTED}}


@pytest.mark.parametrize(
    ("provider", "family", "is_back"),
    [
        ("bedrock", "anthropic", True),
        ("bedrock", "deepseek", False),
        ("anthropic", "anthropic", False),
    ],
)
async def test_only_the_same_maker_gets_its_reasoning_back(
    wire: WireServer, provider: str, family: str, is_back: bool
) -> None:
    block = {"reasoningText": {"text": "Hm", "signature": "sealed"}}
    said = reasoning(provider, {"family": family, "block": block})
    messages = await messages_of(wire, *HELLO, said, *HELLO, model=CLAUDE)
    assert ({"reasoningContent": block} in messages[1]["content"]) is is_back
    assert ("sealed" in repr(messages)) is is_back
    assert {"text": "Well"} in messages[1]["content"]


@pytest.mark.parametrize(
    ("model", "turns"),
    [(CLAUDE, 3), (MISTRAL, 5)],
)
async def test_words_after_results_share_a_turn_only_where_they_may(
    wire: WireServer, model: str, turns: int
) -> None:
    messages = await messages_of(wire, *HELLO, asked("call_0"), outcome(0), *HELLO, model=model)
    assert [message["role"] for message in messages] == (["user", "assistant"] * 3)[:turns]
    assert {"text": "Hello"} in messages[-1]["content"]
    assert ("toolResult" in messages[-1]["content"][0]) is (model == CLAUDE)


@pytest.mark.parametrize(
    ("history", "blocks"),
    [
        ((asked("call_0"), outcome(0)), [[SILENCE], 1, 1]),
        ((*HELLO, *HELLO), [2]),
        ((*HELLO, reasoning("openai", {}), asked("call_0"), outcome(0)), [1, 2, 1]),
        ((UserMessage(text=" \n"),), [[SILENCE]]),
        ((*HELLO, AssistantMessage(parts=(SaidText(text=" "),)), *HELLO), [2]),
        ((*HELLO, asked("call_0"), outcome(0, " ")), [1, 1, 1]),
    ],
)
async def test_roles_take_turns_and_nobody_is_silent(
    wire: WireServer, history: tuple[HistoryItem, ...], blocks: list[Any]
) -> None:
    messages = await messages_of(wire, *history)
    assert [message["role"] for message in messages] == (["user", "assistant"] * 2)[: len(messages)]
    for message, expected in zip(messages, blocks, strict=True):
        content = message["content"]
        assert (content if isinstance(expected, list) else len(content)) == expected
    said = re.findall(r"'text': '([^']*)'", repr(messages))
    assert all(text.strip() for text in said)


async def test_files_go_before_the_words_under_names_that_amazon_takes(wire: WireServer) -> None:
    nameless = replace(PDF, name="")
    messages = await messages_of(
        wire, UserMessage(text="What?", media=(PICTURE, PDF, PDF, nameless, NOTE))
    )
    image, first, second, third, note, words = messages[0]["content"]
    assert image == IMAGE_BLOCK
    assert first["document"]["source"] == {"bytes": "JVBERi0="}
    names = [block["document"]["name"] for block in (first, second, third)]
    assert names == ["Q3 report v2 (1)", "Q3 report v2 (2)", "document (3)"]
    assert note == {"text": "The file n.csv:\nä,b"}
    assert words == {"text": "What?"}


async def test_documents_beyond_the_fifth_are_named_as_left_out(wire: WireServer) -> None:
    asked_about = UserMessage(text="Compare", media=(*[PDF] * 6, PICTURE))
    blocks = (await messages_of(wire, asked_about))[0]["content"]
    assert sum("document" in block for block in blocks) == 5
    assert "Q3 – report_v2.pdf was left out" in blocks[5]["text"]
    assert blocks[6:] == [IMAGE_BLOCK, {"text": "Compare"}]


async def test_files_of_a_result_stay_in_it(wire: WireServer) -> None:
    gif = Media(media_type="image/heic", base64="AAAA")
    messages = await messages_of(
        wire, *HELLO, asked("call_0"), outcome(0, media=(PICTURE, gif, PDF))
    )
    text, image, document = messages[2]["content"][0]["toolResult"]["content"]
    assert (text, image) == ({"text": "Done."}, IMAGE_BLOCK)
    assert document["document"]["format"] == "pdf"


async def test_a_writer_is_told_of_an_error_in_words(wire: WireServer) -> None:
    history = (*HELLO, asked("call_0"), outcome(0, "Gone", is_error=True))
    messages = await messages_of(wire, *history, model="us.writer.palmyra-x5-v1:0")
    result = messages[2]["content"][0]["toolResult"]
    assert result == {"toolUseId": "call_0", "content": [{"text": "Error: Gone"}]}


async def test_calls_of_another_provider_get_ids_and_values_that_amazon_takes(
    wire: WireServer,
) -> None:
    ids = ("fc/1|" + "x" * 80, "call_1")
    history: tuple[HistoryItem, ...] = (
        *HELLO,
        asked(*ids, arguments='{"a": NaN, "b": "\\ud83d"}'),
        *(ToolOutcome(call_id=each, name="notes_write", text="Done.") for each in ids),
    )
    messages = await messages_of(wire, *history)
    uses = [block["toolUse"] for block in messages[1]["content"]]
    results = [block["toolResult"]["toolUseId"] for block in messages[2]["content"]]
    assert [use["toolUseId"] for use in uses] == results
    assert all(re.fullmatch(r"[a-zA-Z0-9_.:-]{1,64}", each) for each in results)
    assert results[1] == "call_1"
    assert uses[0]["input"] == {"a": "NaN", "b": "\ufffd"}
