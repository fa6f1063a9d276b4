"""Pictures that a person attached: how they are sent, and what a model without eyes gets."""

from typing import Any

import pytest

from chatapp.providers.request import Media, UserMessage
from tests.chatapp.providers.stories import a_request, failure_of, refusal, said_by, text_of
from tests.wire.script import Answer
from tests.wire.server import WireServer

PICTURE = Media(media_type="image/png", base64="iVBORw0KGgo=")
URL = "data:image/png;base64,iVBORw0KGgo="
ASKED = a_request((UserMessage(text="What is this?", media=(PICTURE,)),), tools=())
PARTS: dict[str, list[dict[str, Any]]] = {
    "openai": [
        {"type": "input_text", "text": "What is this?"},
        {"type": "input_image", "image_url": URL},
    ],
    "openai-chat": [
        {"type": "text", "text": "What is this?"},
        {"type": "image_url", "image_url": {"url": URL}},
    ],
}
COMPLAINTS = [
    "Invalid content type. image_url is only supported by certain models.",
    "This model does not support image inputs.",
]


def said_in(body: dict[str, Any]) -> Any:
    """What the person said in a request."""
    items = body.get("input") or body["messages"]
    return next(item["content"] for item in items if item.get("role") == "user")


@pytest.mark.parametrize("form", PARTS)
async def test_a_picture_goes_beside_the_words(wire: WireServer, form: str) -> None:
    wire.play(Answer(text="A dot."))
    assert text_of(await said_by(form, ASKED)) == "A dot."
    assert said_in(wire.requests[0].body) == PARTS[form]


@pytest.mark.parametrize("form", PARTS)
async def test_words_alone_are_sent_as_before(wire: WireServer, form: str) -> None:
    wire.play(Answer(text="Hi."))
    await said_by(form)
    assert said_in(wire.requests[0].body) == "Hello"


@pytest.mark.parametrize("complaint", COMPLAINTS)
@pytest.mark.parametrize("form", PARTS)
async def test_a_model_that_takes_no_pictures_gets_the_words(
    wire: WireServer, form: str, complaint: str
) -> None:
    wire.play(refusal(400, "", complaint), Answer(text="I cannot see it."))
    assert text_of(await said_by(form, ASKED)) == "I cannot see it."
    assert said_in(wire.requests[1].body) == "What is this?"


@pytest.mark.parametrize("form", PARTS)
async def test_a_complaint_about_pictures_where_there_are_none_ends(
    wire: WireServer, form: str
) -> None:
    wire.play(*[refusal(400, "", COMPLAINTS[0])] * 3)
    assert (await failure_of(form)).kind == "bad_request"
    assert len(wire.requests) == 1
