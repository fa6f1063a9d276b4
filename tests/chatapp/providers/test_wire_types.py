"""What our wire servers send is what the official SDKs say of the real ones, to their own types."""

import functools
import json
from collections.abc import Callable
from typing import Any, get_args

import boto3
import pytest
from anthropic.types import RawMessageStreamEvent
from botocore.validate import ParamValidator
from google.genai.types import GenerateContentResponse
from openai.types.chat import ChatCompletionChunk
from openai.types.responses import ResponseStreamEvent
from pydantic import BaseModel

from tests.wire.formats import FORMATS
from tests.wire.script import Answer

from .stories import STORIES

Event = dict[str, Any]


def by_type(union: Any) -> dict[str, type[BaseModel]]:
    """The members of a union of events, by what their `type` says."""
    members = get_args(get_args(union)[0])
    return {get_args(each.model_fields["type"].annotation)[0]: each for each in members}


RESPONSES = by_type(ResponseStreamEvent)
MESSAGES = by_type(RawMessageStreamEvent)


def check_responses(event: Event) -> None:
    RESPONSES[event["type"]].model_validate(event, strict=True)


def check_anthropic(event: Event) -> None:
    """Its pings keep the line open, and the SDK has no type for them."""
    if event != {"type": "ping"}:
        MESSAGES[event["type"]].model_validate(event, strict=True)


def check_chat(event: Event) -> None:
    ChatCompletionChunk.model_validate(event, strict=True)


def check_google(event: Event) -> None:
    GenerateContentResponse.model_validate_json(json.dumps(event), strict=True)


@functools.cache
def find_bedrock_shape() -> Any:
    """Making a client takes longer than checking all events."""
    client = boto3.Session().client("bedrock-runtime", region_name="eu-central-1")
    return client.meta.service_model.shape_for("ConverseStreamOutput")


def check_bedrock(event: Event) -> None:
    shape = find_bedrock_shape()
    report = ParamValidator().validate(event, shape)
    assert not report.has_errors(), report.generate_report()
    assert event.keys() <= shape.members.keys()


CHECKS: dict[str, Callable[[Event], None]] = {
    "openai": check_responses,
    "openai-chat": check_chat,
    "anthropic": check_anthropic,
    "google": check_google,
    "bedrock": check_bedrock,
}
# One tells on purpose what no type knows yet.
KNOWN = [name for name in STORIES if name != "strange"]


@pytest.mark.parametrize("form", CHECKS)
def test_every_frame_of_every_story_is_of_the_types_of_its_sdk(form: str) -> None:
    for name in KNOWN:
        events = [
            each for each in FORMATS[form].events(STORIES[name], "m") if isinstance(each, dict)
        ]
        assert events
        for event in events:
            CHECKS[form](event)


def test_an_error_inside_a_stream_of_responses_is_of_its_type() -> None:
    failing = Answer(text="Well", in_stream_error={"code": "server_error", "message": "Sorry."})
    events = [each for each in FORMATS["openai"].events(failing, "m") if isinstance(each, dict)]
    assert events[-1]["type"] == "error"
    check_responses(events[-1])


@pytest.mark.parametrize("form", CHECKS)
def test_these_checks_find_a_frame_that_no_provider_sends(form: str) -> None:
    wrong: Event = {"type": "message_start", "candidates": 1, "messageStart": {"role": 1}}
    with pytest.raises((ValueError, KeyError, AssertionError)):
        CHECKS[form](wrong)
