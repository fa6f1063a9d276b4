"""Options that a compatible server refuses: left out before the first word, and remembered."""

from dataclasses import replace
from typing import Any

import pytest

from chatapp.providers.account import Account, ProviderNames
from chatapp.providers.events import FilesLeftOut, ProviderError, ToolsLeftOut
from chatapp.providers.openai.client import is_refusal
from chatapp.providers.request import Effort, Media, ModelRequest, Parameters, UserMessage
from tests.chatapp.providers.stories import a_request, refusal, said_by, text_of
from tests.wire.script import Answer
from tests.wire.server import WireServer


def asking(effort: Effort = "", **more: Any) -> ModelRequest:
    return replace(a_request(), parameters=Parameters(effort=effort, **more))


def bodies(wire: WireServer) -> list[Any]:
    return [request.body for request in wire.requests]


# What servers say: vLLM (an older one and its validation), LM Studio, Ollama, Mistral, OpenAI.
@pytest.mark.parametrize(
    ("status", "option", "complaint"),
    [
        (400, "stream_options", "Stream options can only be defined when `stream` is True."),
        (422, "stream_options", "body.stream_options: Extra inputs are not permitted"),
        (400, "stream_options", "Unrecognized key(s) in object: 'stream_options'"),
        (400, "reasoning_effort", '"llama3.2:latest" does not support thinking'),
        (400, "reasoning_effort", "invalid reasoning value: 'low' (must be \"high\")"),
        (400, "temperature", "Unsupported value: 'temperature' does not support 0.5"),
    ],
)
async def test_a_refused_option_is_left_out_and_not_sent_again(
    wire: WireServer, status: int, option: str, complaint: str
) -> None:
    wire.play(refusal(status, "", complaint), Answer(text="one"), Answer(text="two"))
    request = asking("low", temperature=0.5)
    assert text_of(await said_by("openai-chat", request)) == "one"
    assert text_of(await said_by("openai-chat", request)) == "two"
    first, second, third = bodies(wire)
    assert first.keys() - second.keys() == {option}
    assert third.keys() == second.keys()


async def test_another_name_of_the_limit_is_remembered(wire: WireServer) -> None:
    complaint = "'max_tokens' is not supported with this model. Use 'max_completion_tokens'."
    wire.play(refusal(400, "", complaint), Answer(text="one"), Answer(text="two"))
    for _ in range(2):
        await said_by("openai-chat", asking(output_tokens=900))
    assert [body.get("max_tokens") for body in bodies(wire)] == [900, None, None]
    assert [body.get("max_completion_tokens") for body in bodies(wire)] == [None, 900, 900]


async def test_another_value_and_another_model_are_tried_again(wire: WireServer) -> None:
    complaint = "reasoning_effort must be one of low, medium, high"
    wire.play(refusal(400, "", complaint), *[Answer(text="fine")] * 3)
    await said_by("openai-chat", asking("off"))
    await said_by("openai-chat", asking("high"))
    await said_by("openai-chat", replace(asking("off"), model="another"))
    sent = [body.get("reasoning_effort") for body in bodies(wire)]
    assert sent == ["none", None, "high", "none"]


async def test_a_request_that_fails_in_the_end_teaches_nothing(wire: WireServer) -> None:
    wire.play(
        refusal(400, "", "stream_options is unknown"),
        refusal(401, "", "no key"),
        Answer(text="fine"),
    )
    with pytest.raises(Exception, match="key"):
        await said_by("openai-chat", asking())
    await said_by("openai-chat", asking())
    assert ["stream_options" in body for body in bodies(wire)] == [True, False, True]


async def test_responses_remember_too(wire: WireServer) -> None:
    wire.play(refusal(400, "", "Unknown parameter: 'include'"), *[Answer(text="fine")] * 2)
    for _ in range(2):
        await said_by("openai", asking())
    assert ["include" in body for body in bodies(wire)] == [True, False, False]


@pytest.mark.parametrize(
    "complaint",
    [
        "unknown field reasoning_effort",
        "Internal error in stream_options handling",
        "reasoning failed: CUDA out of memory",
    ],
)
async def test_a_failure_of_the_server_changes_nothing(wire: WireServer, complaint: str) -> None:
    wire.play(refusal(500, "", complaint), Answer(text="one"))
    with pytest.raises(ProviderError):
        await said_by("openai-chat", asking("low"))
    assert text_of(await said_by("openai-chat", asking("low"))) == "one"
    first, second = bodies(wire)
    assert first == second


@pytest.mark.parametrize("base_url", ["", "https://api.openai.com/v1", "https://eu.api.openai.com"])
def test_openai_itself_refuses_with_no_500(base_url: str) -> None:
    names = ProviderNames(label="OpenAI", key_variable="K", url_variable="U")
    account = Account(names=names, base_url=base_url, key="x")
    for complaint in "tools param requires --jinja flag", "image input is not supported":
        own = replace(account, base_url="http://127.0.0.1:8080/v1")
        assert is_refusal(500, complaint, own)
        assert not is_refusal(500, complaint, account)
        assert is_refusal(400, complaint, account)


async def test_a_picture_that_llama_cpp_refuses_with_500_is_left_out(wire: WireServer) -> None:
    hint = "hint: if this is unexpected, you may need to provide the mmproj"
    wire.play(refusal(500, "", f"image input is not supported - {hint}"), Answer(text="one"))
    dot = Media(media_type="image/png", base64="eA==", name="dot.png")
    asked = a_request((UserMessage(text="Look", media=(dot,)),), ())
    assert FilesLeftOut() in await said_by("openai-chat", asked)


async def test_tools_that_llama_cpp_needs_an_option_for_are_told_each_time(
    wire: WireServer,
) -> None:
    complaint = refusal(500, "", "tools param requires --jinja flag")
    wire.play(complaint, Answer(text="one"), complaint, Answer(text="two"))
    for _ in range(2):
        assert ToolsLeftOut() in await said_by("openai-chat", asking())
    assert ["tools" in body for body in bodies(wire)] == [True, False, True, False]
