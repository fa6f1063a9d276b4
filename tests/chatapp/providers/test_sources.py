"""What answers cite, in each provider's own form."""

from typing import Any

import pytest

from chatapp.providers.events import SourceCited
from tests.wire.script import Answer
from tests.wire.server import WireServer

from .stories import finish_of, said_by, text_of
from .test_pictures import chat_chunk, gemini, message

URL, TITLE = "https://weather.example/today", "Weather today"
NAMED = {"url": URL, "title": TITLE}


def responses_events() -> tuple[Any, ...]:
    delta, done = message(0, "It rains.")
    note = {"type": "url_citation", "start_index": 0, "end_index": 9, **NAMED}
    other = {"type": "file_citation", "file_id": "f", "filename": "x"}
    done["item"]["content"][0]["annotations"] = [note, other]
    added = {"type": "response.output_text.annotation.added", "output_index": 0, "annotation": note}
    end = {"type": "response.completed", "response": {"status": "completed", "output": []}}
    return delta, added, done, end


def chat_events(more: dict[str, Any], delta: dict[str, Any]) -> tuple[Any, ...]:
    said = chat_chunk({"role": "assistant", "content": "It rains."} | delta)
    return said | more, chat_chunk({}, "stop"), "data: [DONE]\n\n"


def anthropic_events() -> tuple[Any, ...]:
    cited = {"type": "web_search_result_location", "cited_text": "Rain", "encrypted_index": "x"}
    block = {"type": "content_block_delta", "index": 0}
    message_start: dict[str, Any] = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {"input_tokens": 1, "output_tokens": 1},
    }
    return (
        {"type": "message_start", "message": message_start},
        {
            "type": "content_block_start",
            "index": 0,
            "content_block": {"type": "text", "text": "", "citations": []},
        },
        {**block, "delta": {"type": "citations_delta", "citation": cited | NAMED}},
        {**block, "delta": {"type": "text_delta", "text": "It rains."}},
        {"type": "content_block_stop", "index": 0},
        {
            "type": "message_delta",
            "delta": {"stop_reason": "end_turn", "stop_sequence": None},
            "usage": {"output_tokens": 3},
        },
        {"type": "message_stop"},
    )


def gemini_events() -> tuple[Any, ...]:
    last = gemini(reason="STOP")
    page = {"web": {"uri": URL, "title": TITLE, "domain": "weather.example"}}
    last["candidates"][0]["groundingMetadata"] = {"groundingChunks": [page, {}]}
    return gemini({"text": "It rains."}), last


@pytest.mark.parametrize(
    ("form", "events"),
    [
        ("openai", responses_events()),
        (
            "openai-chat",
            chat_events({}, {"annotations": [{"type": "url_citation", "url_citation": NAMED}]}),
        ),
        ("openai-chat", chat_events({"search_results": [NAMED], "citations": [URL]}, {})),
        ("anthropic", anthropic_events()),
        ("google", gemini_events()),
    ],
)
async def test_each_provider_names_its_sources(wire: WireServer, form: str, events: Any) -> None:
    wire.play(Answer(events=events))
    said = await said_by(form)
    assert (text_of(said), finish_of(said)) == ("It rains.", "stop")
    found = [each for each in said if isinstance(each, SourceCited) and each.title]
    assert found == [SourceCited(url=URL, title=TITLE)]


async def test_bedrock_names_its_sources(wire: WireServer) -> None:
    cited = {"title": TITLE, "location": {"web": {"url": URL, "domain": "weather.example"}}}
    text, citation = {"text": "It rains."}, {"citation": cited}
    events = [
        {"messageStart": {"role": "assistant"}},
        *({"contentBlockDelta": {"contentBlockIndex": 0, "delta": d}} for d in (text, citation)),
        {"contentBlockStop": {"contentBlockIndex": 0}},
        {"messageStop": {"stopReason": "end_turn"}},
        {"metadata": {"usage": {"inputTokens": 1, "outputTokens": 2, "totalTokens": 3}}},
    ]
    wire.play(Answer(events=tuple(events)))
    said = await said_by("bedrock")
    assert SourceCited(url=URL, title=TITLE) in said
