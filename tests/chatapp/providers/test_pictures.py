"""Pictures in the answers of the providers that make them."""

import base64
from typing import Any

import pytest

from chatapp.providers.events import PictureMade, TextDelta
from tests.peers.reading_room import PNG
from tests.wire.script import Answer
from tests.wire.server import WireServer

from .stories import finish_of, said_by, text_of

# With the two letters that differ in addresses.
DATA = base64.b64encode(PNG + b"\xfb\xef\xff").decode()


def gemini(*parts: Any, reason: str = "") -> dict[str, Any]:
    candidate = {"content": {"role": "model", "parts": list(parts)}}
    return {"candidates": [candidate | ({"finishReason": reason} if reason else {})]}


def gemini_events() -> tuple[Any, ...]:
    picture = {"inlineData": {"mimeType": "image/png", "data": DATA}, "thoughtSignature": "c2ln"}
    thought = {"inlineData": {"mimeType": "image/png", "data": DATA}, "thought": True}
    return (
        gemini({"text": "Here"}),
        gemini(thought),
        gemini(picture),
        gemini({"text": " it is."}, reason="STOP"),
    )


def chat_chunk(delta: Any, finish: str | None = None) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return {"id": "c", "object": "chat.completion.chunk", "model": "m", "choices": [choice]}


def chat_events() -> tuple[Any, ...]:
    """OpenRouter's form."""
    url = {"url": f"data:image/png;base64,{DATA}"}
    elsewhere = {"type": "image_url", "image_url": {"url": "https://x.example/a.png"}}
    return (
        chat_chunk({"role": "assistant", "content": "Here"}),
        chat_chunk({"images": [{"type": "image_url", "image_url": url}, elsewhere, None]}),
        chat_chunk({"content": " it is."}),
        chat_chunk({}, "stop"),
        "data: [DONE]\n\n",
    )


def message(number: int, text: str) -> list[Any]:
    item = {"id": f"msg_{number}", "type": "message", "role": "assistant", "status": "completed"}
    part = {"type": "output_text", "text": text, "annotations": []}
    place = {"output_index": number, "item_id": item["id"]}
    return [
        {"type": "response.output_text.delta", **place, "content_index": 0, "delta": text},
        {"type": "response.output_item.done", **place, "item": {**item, "content": [part]}},
    ]


def responses_events() -> tuple[Any, ...]:
    item = {"id": "ig_1", "type": "image_generation_call", "status": "completed"}
    done = {**item, "result": DATA, "revised_prompt": "A red square"}
    kind = "response.image_generation_call"
    return (
        {"type": "response.created", "response": {"id": "r", "status": "in_progress"}},
        *message(0, "Here"),
        {"type": "response.output_item.added", "output_index": 1, "item": item},
        {"type": f"{kind}.partial_image", "output_index": 1, "partial_image_b64": DATA},
        {"type": "response.output_item.done", "output_index": 1, "item": done},
        *message(2, " it is."),
        {"type": "response.completed", "response": {"status": "completed", "output": []}},
    )


@pytest.mark.parametrize(
    ("form", "events", "expected"),
    [
        (
            "google",
            gemini_events(),
            PictureMade(
                base64=DATA,
                opaque={"provider": "google", "data": {"thought_signature": "c2ln"}},
            ),
        ),
        ("openai-chat", chat_events(), PictureMade(base64=DATA)),
        ("openai", responses_events(), PictureMade(base64=DATA, description="A red square")),
    ],
)
async def test_a_picture_comes_between_the_texts(
    wire: WireServer, form: str, events: Any, expected: PictureMade
) -> None:
    wire.play(Answer(events=events))
    said = await said_by(form)
    assert (text_of(said), finish_of(said)) == ("Here it is.", "stop")
    shown = [each for each in said if isinstance(each, TextDelta | PictureMade)]
    assert shown[1:-1] == [expected]
