"""Reasoning as servers compatible with OpenAI show it: in tags at the beginning of an answer, or in
details that are sealed and must come back."""

from itertools import combinations
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from chatapp.providers.events import ModelEvent, ReasoningDelta, TextDelta, ToolCallStarted
from chatapp.providers.openai.reasoning import ThoughtTags
from chatapp.providers.request import AssistantMessage, HistoryItem, ToolOutcome
from tests.chatapp.providers.stories import (
    HELLO,
    a_request,
    as_history,
    as_stopped,
    finish_of,
    opaque_of,
    reasoning_of,
    refusal,
    said_by,
    text_of,
)
from tests.wire.script import Answer, Tool
from tests.wire.server import WireServer

FORM = "openai-chat"
# What an answer says, which thoughts are in it, and which words.
TAGGED = [
    ("<think>Hm — 你好 < 3.</think>Well.", "Hm — 你好 < 3.", "Well."),
    ("\n <think>\nHm.\n</think>\n\nWell.", "Hm.\n", "Well."),
    ("<think>\n\n</think>\n\nWell.", "", "Well."),
    ("<think>Hm </thin </think>", "Hm </thin ", ""),
    ("<think>cut off</thi", "cut off</thi", ""),
    ("<think>a</think>Use <think>b</think>.", "a", "Use <think>b</think>."),
    ("  <thinner> is no tag", "", "  <thinner> is no tag"),
    ("Well, <think>", "", "Well, <think>"),
    ("<thin", "", "<thin"),
    ("\n", "", "\n"),
]
DETAILS: list[dict[str, Any]] = [
    {"type": "reasoning.text", "text": "I ne", "format": "anthropic-claude-v1", "index": 0},
    {"type": "reasoning.text", "text": "ed both.", "format": "anthropic-claude-v1", "index": 0},
    {"type": "reasoning.text", "signature": "EqQB-signed", "index": 0},
    {"type": "reasoning.encrypted", "data": "gAAA", "id": "rs_1", "index": 1},
    {"type": "reasoning.encrypted", "data": "gBBB", "id": "rs_2", "index": 1},
]
WHOLE = [
    {**DETAILS[0], "text": "I need both.", "signature": "EqQB-signed"},
    *DETAILS[3:],
]
CALL = {"index": 0, "id": "call_0", "function": {"name": "notes_write", "arguments": "{}"}}
OUTCOME = ToolOutcome(call_id="call_0", name="notes_write", text="Done")


def heard(*pieces: str) -> tuple[str, str]:
    tags = ThoughtTags()
    said: list[ModelEvent] = [event for piece in pieces for event in tags.take(piece)]
    said += tags.flush()
    return reasoning_of(said), text_of(said)


@pytest.mark.parametrize(("answer", "thought", "words"), TAGGED)
def test_tags_may_be_cut_anywhere(answer: str, thought: str, words: str) -> None:
    """In one piece, in two and three that meet at every place, and letter by letter."""
    assert heard(answer) == (thought, words)
    assert heard(*answer) == (thought, words)
    for first, second in combinations(range(len(answer) + 1), 2):
        pieces = answer[:first], answer[first:second], answer[second:]
        assert heard(*pieces) == (thought, words)


@given(
    st.lists(st.sampled_from(["<think>", "</think>", "<", "</thi", "nk>", " ", "a"]), max_size=9)
)
@example(["<think>", "</thi", " ", "nk>"])
def test_nothing_but_tags_and_blanks_is_lost_however_it_is_cut(pieces: list[str]) -> None:
    whole = "".join(pieces)
    assert heard(*pieces) == heard(whole)
    left = "".join(heard(whole)).replace(" ", "")
    tags = ("<think>", "</think>") if whole.lstrip().startswith("<think>") else ()
    for tag in tags:
        whole = whole.replace(tag, "", 1)
    assert left == whole.replace(" ", "")


@pytest.mark.parametrize("chunk", range(1, 12))
async def test_tags_at_the_beginning_hold_thoughts(wire: WireServer, chunk: int) -> None:
    tool = Tool(name="notes_write")
    wire.play(Answer(text="<think>\nHm.</think>\n\nWell.", tools=(tool,), chunk=chunk))
    events = await said_by(FORM)
    assert (reasoning_of(events), text_of(events)) == ("Hm.", "Well.")
    assert finish_of(events) == "tool_calls"
    assert opaque_of(events) == []


async def test_what_is_held_back_comes_before_a_call(wire: WireServer) -> None:
    wire.play(Answer(text="<thi", tools=(Tool(name="notes_write"),)))
    kinds = [type(event) for event in await said_by(FORM)]
    assert kinds.index(TextDelta) < kinds.index(ToolCallStarted)


async def test_thoughts_in_tags_do_not_go_back(wire: WireServer) -> None:
    wire.play(Answer(text="<think>Hm.</think>Well."))
    said = as_history(await said_by(FORM))
    await said_by(FORM, a_request((*HELLO, said, *HELLO)))
    assert wire.requests[-1].body["messages"][2] == {"role": "assistant", "content": "Well."}


def stream_of(*deltas: dict[str, Any]) -> Answer:
    chunks = [{"choices": [{"delta": delta, "finish_reason": None}]} for delta in deltas]
    return Answer(events=(*chunks, {"choices": [{"delta": {}, "finish_reason": "stop"}]}))


def detailed(*, has_words: bool = True) -> list[dict[str, Any]]:
    """OpenRouter says the words of a detail beside it, too."""
    return [
        {"reasoning_details": [detail]}
        | ({"reasoning": detail["text"]} if has_words and "text" in detail else {})
        for detail in DETAILS
    ]


async def sent_after(wire: WireServer, answer: Answer, *outcomes: HistoryItem) -> dict[str, Any]:
    """What the next request says of an answer."""
    wire.play(answer)
    said = as_history(await said_by(FORM))
    await said_by(FORM, a_request((*HELLO, said, *outcomes, *HELLO)))
    message: dict[str, Any] = wire.requests[-1].body["messages"][2]
    return message


@pytest.mark.parametrize("has_words", [True, False])
async def test_details_are_heard_once_and_go_back_as_they_came(
    wire: WireServer, has_words: bool
) -> None:
    deltas = [*detailed(has_words=has_words), {"tool_calls": [CALL]}]
    wire.play(stream_of(*deltas))
    assert reasoning_of(await said_by(FORM)) == "I need both."
    message = await sent_after(wire, stream_of(*deltas), OUTCOME)
    assert message["reasoning_details"] == WHOLE
    assert message["tool_calls"][0]["id"] == "call_0"
    assert not message.keys() & {"reasoning", "reasoning_content"}


async def test_details_around_words_go_back_as_one_list(wire: WireServer) -> None:
    """The signature may come when the answer has begun, and a seal beside the call."""
    first, second, signature, *sealed = detailed()
    deltas = [first, second, {"content": "Well."}, signature, *sealed[:1]]
    message = await sent_after(
        wire, stream_of(*deltas, {**sealed[1], "tool_calls": [CALL]}), OUTCOME
    )
    assert message["reasoning_details"] == WHOLE
    assert message["content"] == "Well."


async def test_details_go_back_without_calls_too(wire: WireServer) -> None:
    message = await sent_after(wire, stream_of(*detailed(), {"content": "Well."}))
    assert message == {"role": "assistant", "content": "Well.", "reasoning_details": WHOLE}


async def test_two_thoughts_with_one_number_stay_two(wire: WireServer) -> None:
    again = {"reasoning_details": [{**DETAILS[0], "text": "And this."}]}
    message = await sent_after(wire, stream_of(*detailed()[:3], again, {"content": "Well."}))
    assert [detail["text"] for detail in message["reasoning_details"]] == [
        *("I need both.", "And this.")
    ]


async def test_details_of_a_call_that_nobody_ran_stay_here(wire: WireServer) -> None:
    wire.play(stream_of({"content": "Well."}, *detailed(), {"tool_calls": [CALL]}))
    said: AssistantMessage = as_stopped(as_history(await said_by(FORM)))
    await said_by(FORM, a_request((*HELLO, said, *HELLO)))
    assert wire.requests[-1].body["messages"][2] == {"role": "assistant", "content": "Well."}


@pytest.mark.parametrize("other", ["openai", "anthropic", "google", "bedrock"])
async def test_details_go_to_no_other_provider(wire: WireServer, other: str) -> None:
    wire.play(stream_of(*detailed(), {"content": "Well."}))
    said = as_history(await said_by(FORM))
    await said_by(other, a_request((*HELLO, said, *HELLO)))
    sent = repr(wire.requests[-1].body)
    assert "Well." in sent
    assert not any(word in sent for word in ("EqQB-signed", "gAAA", "I need both."))


@pytest.mark.parametrize("field", ["reasoning_details", "reasoning_content"])
async def test_a_server_that_takes_no_reasoning_is_told_none(wire: WireServer, field: str) -> None:
    thought = detailed() if field == "reasoning_details" else [{field: "Hm."}]
    wire.play(stream_of(*thought, {"tool_calls": [CALL]}))
    said = as_history(await said_by(FORM))
    complaint = f"'messages.2' : property '{field}' is unsupported"
    wire.play(refusal(400, "invalid", complaint), Answer(text="fine"))
    assert text_of(await said_by(FORM, a_request((*HELLO, said, OUTCOME)))) == "fine"
    before, after = (request.body["messages"][2] for request in wire.requests[1:])
    assert field in before
    assert after == {name: value for name, value in before.items() if name != field}


def test_a_thought_in_tags_arrives_as_it_is_thought() -> None:
    tags = ThoughtTags()
    assert list(tags.take("<think>Hm")) == [ReasoningDelta(text="Hm")]
    assert list(tags.take(".</")) == [ReasoningDelta(text=".")]
    assert list(tags.take("think>Well")) == [TextDelta(text="Well")]
