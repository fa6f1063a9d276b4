"""A conversation as Anthropic reads it: its own thoughts to the byte, everybody else's as words."""

import base64
from typing import Any

import pytest

from chatapp.providers.anthropic.history import build_messages
from chatapp.providers.anthropic.provider import DIALECT
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
from chatapp.providers.tools.toolbox import Toolbox
from tests.chatapp.providers.stories import (
    HELLO,
    NOTES,
    WEATHER,
    a_request,
    as_history,
    calls_of,
    said_by,
)
from tests.wire.script import Answer, Tool
from tests.wire.server import WireServer

BYTES = base64.b64encode("Grüße\n".encode()).decode()
PICTURE = Media(media_type="image/png", base64="iVBORw0KGgo=", name="dot.png")
PDF = Media(media_type="application/pdf", base64="JVBERi0=", name="plan.pdf")
NOTE = Media(media_type="text/markdown", base64=BYTES, name="note.md")
UNSEEN = Media(media_type="image/tiff", base64="SUkqAA==")
PICTURE_BLOCK = {
    "type": "image",
    "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="},
}
PDF_BLOCK = {
    "type": "document",
    "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0="},
    "title": "plan.pdf",
}
NOTE_BLOCK = {
    "type": "document",
    "source": {"type": "text", "media_type": "text/plain", "data": "Grüße\n"},
    "title": "note.md",
}


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def written(*history: HistoryItem) -> list[dict[str, Any]]:
    return build_messages(history, Toolbox(DIALECT, (WEATHER, NOTES)))


def call(call_id: str, arguments: str = "{}") -> AskedTool:
    return AskedTool(call_id=call_id, name=NOTES.name, arguments=arguments)


def outcome(call_id: str, words: str = "Done", **more: Any) -> ToolOutcome:
    return ToolOutcome(call_id=call_id, name=NOTES.name, text=words, **more)


def blocks(*items: dict[str, Any]) -> tuple[Any, ...]:
    """A stream of these blocks, each of which came whole, and the end of an answer."""
    events = []
    for index, block in enumerate(items):
        events.append({"type": "content_block_start", "index": index, "content_block": block})
        events.append({"type": "content_block_stop", "index": index})
    delta = {"stop_reason": "tool_use"}
    end = [{"type": "message_delta", "delta": delta, "usage": {}}, {"type": "message_stop"}]
    return (*events, *end)


async def test_an_answer_goes_back_block_by_block_as_it_came(wire: WireServer) -> None:
    """Thoughts between calls too, though the calls are stored behind all that was said."""
    said = [
        {"type": "thinking", "thinking": "Hm — 你好 \u2028", "signature": "c2lnbmVk=="},
        {"type": "redacted_thinking", "data": "EmwKAhgB"},
        text("Let me look."),
        text("And write."),
        {"type": "tool_use", "id": "toolu_1", "name": NOTES.name, "input": {"a": [1, {"b": "é"}]}},
        {"type": "thinking", "thinking": "", "signature": "omitted"},
        {"type": "tool_use", "id": "toolu_2", "name": NOTES.name, "input": {}},
    ]
    wire.play(Answer(events=blocks(*said)))
    answer = as_history(await said_by("anthropic"))
    await said_by("anthropic", a_request((*HELLO, answer, outcome("toolu_1"), outcome("toolu_2"))))
    sent = wire.requests[-1].body["messages"]
    assert sent[1] == {"role": "assistant", "content": said}
    assert [block["tool_use_id"] for block in sent[2]["content"]] == ["toolu_1", "toolu_2"]


async def test_streamed_thoughts_go_back_to_the_byte(wire: WireServer) -> None:
    story = Answer(reasoning="Ich überlege — 你好 🙂", tools=(Tool(name=NOTES.name),), chunk=3)
    wire.play(story)
    answer = as_history(await said_by("anthropic"))
    await said_by("anthropic", a_request((*HELLO, answer, outcome("call_0"))))
    thought, asked = wire.requests[-1].body["messages"][1]["content"]
    assert thought == {
        "type": "thinking",
        "thinking": story.reasoning,
        "signature": "EqQB-signed",
    }
    assert asked == {"type": "tool_use", "id": "call_0", "name": NOTES.name, "input": {}}


def test_all_results_of_a_step_come_first_in_one_turn() -> None:
    asked = AssistantMessage(parts=(SaidText(text="Both."), call("a"), call("b")))
    results = (outcome("a", "One"), outcome("b", "Denied: not today", is_error=True))
    assert written(*HELLO, asked, *results, UserMessage(text="Stop that."))[2:] == [
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "a", "content": [text("One")]},
                {
                    "type": "tool_result",
                    "tool_use_id": "b",
                    "content": [text("Denied: not today")],
                    "is_error": True,
                },
                text("Stop that."),
            ],
        }
    ]


def test_files_go_with_the_words_in_turns_and_in_results() -> None:
    media = (PICTURE, PDF, NOTE, UNSEEN)
    asked = AssistantMessage(parts=(call("a"),))
    first, _, result = written(
        UserMessage(text="Look", media=media), asked, outcome("a", "Shown", media=media)
    )
    seen = [PICTURE_BLOCK, PDF_BLOCK, NOTE_BLOCK]
    assert first["content"] == [*seen, text("Look")]
    assert result["content"][0]["content"] == [text("Shown"), *seen]


def test_what_anthropic_refuses_is_not_written() -> None:
    """Empty text, empty turns and empty results."""
    asked = AssistantMessage(parts=(SaidText(text=" \n"), call("a")))
    empty = Media(media_type="text/plain", base64="")
    assert written(
        UserMessage(text="", media=(empty,)),
        *HELLO,
        AssistantMessage(parts=(SaidText(text=""),)),
        UserMessage(text="And?"),
        asked,
        outcome("a", ""),
    ) == [
        {"role": "user", "content": [text("Hello"), text("And?")]},
        {
            "role": "assistant",
            "content": [{"type": "tool_use", "id": "a", "name": NOTES.name, "input": {}}],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "a", "content": [text("(nothing)")]}
            ],
        },
    ]


def test_a_conversation_begins_with_a_person() -> None:
    said = AssistantMessage(parts=(SaidText(text="Hi."),))
    assert [message["role"] for message in written(said, *HELLO)] == ["user", "assistant", "user"]


def test_thoughts_that_led_to_nothing_stay_here() -> None:
    thought = {"type": "thinking", "thinking": "Hm", "signature": "s"}
    own = {"provider": "anthropic", "data": {"place": 0, "block": thought}}
    thought_of = SaidReasoning(text="Hm", opaque=own)
    for parts in ((thought_of,), (SaidText(text="Well."), thought_of, SaidText(text=""))):
        answer = AssistantMessage(parts=parts)
        assert "Hm" not in repr(written(*HELLO, answer, UserMessage(text="Go on")))


@pytest.mark.parametrize("provider", ["openai", "openai-chat", "google", "bedrock"])
def test_another_providers_answer_goes_as_plain_blocks(provider: str) -> None:
    foreign = {"provider": provider, "data": {"place": 0, "block": {"sealed": "x"}}}
    asked = AskedTool(call_id="c", name=WEATHER.name, arguments='{"a": 1}', opaque=foreign)
    said = AssistantMessage(
        parts=(
            SaidReasoning(text="Hm", opaque=foreign),
            SaidText(text="Well", opaque=foreign),
            asked,
        )
    )
    (answer,) = [each for each in written(*HELLO, said, outcome("c")) if each["role"] != "user"]
    plain, used = answer["content"]
    assert plain == text("Well")
    assert (used["id"], used["input"]) == ("c", {"a": 1})
    assert used["name"].startswith("weather_look_up_")


def test_ids_are_unique_and_in_its_alphabet() -> None:
    """Servers count from 0 in every answer, or write dots and colons."""
    ids = ["call_0", "functions.notes:0", "call_0", "x" * 90, ""]
    history: list[HistoryItem] = [*HELLO]
    for call_id in ids:
        history += [AssistantMessage(parts=(call(call_id),)), outcome(call_id)]
    messages = written(*history)
    asked = [message["content"][0]["id"] for message in messages[1::2]]
    told = [message["content"][0]["tool_use_id"] for message in messages[2::2]]
    assert asked == told
    assert len(set(asked)) == len(ids)
    assert asked[0] == "call_0"
    assert all(set(each) <= set("abcdefghijklmnopqrstuvwxyz0123456789_") for each in asked)
    assert asked == [message["content"][0]["id"] for message in written(*history)[1::2]]


async def test_tools_travel_under_names_that_anthropic_takes(wire: WireServer) -> None:
    await said_by("anthropic")
    weather, notes = wire.requests[0].body["tools"]
    assert notes["name"] == NOTES.name
    assert weather["input_schema"]["properties"] == {"place": {"type": "string"}}
    wire.play(Answer(tools=(Tool(name=weather["name"], arguments={"place": "Ulm"}),)))
    events = await said_by("anthropic")
    assert calls_of(events) == [(0, "call_0", WEATHER.name, '{"place": "Ulm"}')]
    history = (*HELLO, as_history(events), outcome("call_0"))
    await said_by("anthropic", a_request(history, tools=()))
    sent = repr(wire.requests[-1].body)
    assert weather["name"] in sent
    assert WEATHER.name not in sent
