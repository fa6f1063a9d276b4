"""How a call to OpenAI fails in its own ways: its codes, its options, and what does not leak."""

from dataclasses import replace

import pytest

from chatapp.providers.events import ErrorKind
from chatapp.providers.request import Parameters
from tests.chatapp.providers.stories import (
    OPENAI_FORMS,
    a_request,
    failure_of,
    finish_of,
    refusal,
    said_by,
    text_of,
)
from tests.wire.script import Answer
from tests.wire.server import WireServer

CODES: list[tuple[ErrorKind, Answer]] = [
    ("auth", refusal(401, "invalid_api_key", "Incorrect API key provided")),
    ("auth", refusal(403, "", "Country not supported")),
    ("quota", refusal(429, "insufficient_quota", "You exceeded your current quota")),
    ("overloaded", refusal(500, "", "The engine is overloaded")),
    ("too_long", refusal(400, "context_length_exceeded", "Too many words")),
    ("too_long", refusal(400, "", "This model's maximum context length is 10 tokens")),
    ("filtered", refusal(400, "content_filter", "The response was filtered.")),
    ("filtered", refusal(400, "", "It is triggering Azure OpenAI's content management policy.")),
    (
        "filtered",
        refusal(400, "invalid_prompt", "Flagged as potentially violating a policy"),
    ),
    ("filtered", refusal(403, "403", "This model requires moderation. Your input was flagged.")),
    ("bad_request", refusal(400, "", "Invalid schema for function 'content_filter'")),
    ("bad_request", refusal(400, "invalid_value", "Wrong value")),
    ("bad_request", refusal(422, "", "Unprocessable")),
    ("not_found", refusal(404, "model_not_found", "The model does not exist")),
    ("protocol", Answer(events=("data: []\n\n", 'data: "text"\n\n'))),
]


@pytest.fixture(params=OPENAI_FORMS)
def form(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.parametrize(("kind", "answer"), CODES)
async def test_each_code_has_its_kind(
    wire: WireServer, form: str, kind: ErrorKind, answer: Answer
) -> None:
    wire.play(answer)
    error = await failure_of(form)
    assert error.kind == kind
    assert error.message
    assert error.hint
    assert len(wire.requests) == 1, "the engine decides about retries, not the SDK"


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        ("server", "server_error"),
        ("rate_limit", "rate_limit_exceeded"),
        ("quota", "insufficient_quota"),
        ("too_long", "context_length_exceeded"),
        ("bad_request", "invalid_prompt"),
        ("server", "something_new"),
        ("server", "502"),
    ],
)
async def test_an_error_inside_the_stream_has_its_kind(
    wire: WireServer, form: str, kind: ErrorKind, code: str
) -> None:
    wire.play(Answer(text="Half an", in_stream_error={"code": code, "message": "It broke"}))
    error = await failure_of(form)
    assert (error.kind, error.detail) == (kind, "It broke")


async def test_a_model_that_is_not_there_is_asked_for_once(wire: WireServer, form: str) -> None:
    """Its name is no complaint about an option."""
    wire.play(refusal(404, "", "The model reasoning_effort-2 does not exist."), Answer(text="?"))
    request = replace(a_request(), parameters=Parameters(effort="high"))
    assert (await failure_of(form, request)).kind == "not_found"
    assert len(wire.requests) == 1


async def test_what_openrouter_flags_is_no_bad_key(wire: WireServer) -> None:
    flagged = {"reasons": ["harassment"], "flagged_input": "You", "provider_name": "OpenAI"}
    error = {"code": 403, "message": "Forbidden", "metadata": flagged}
    wire.play(Answer(status=403, error=error))
    failure = await failure_of("openai-chat")
    assert failure.kind == "filtered"
    assert "content filter" in failure.message
    assert "Rephrase your message" in failure.hint


async def test_a_size_beside_the_sentence_is_read(wire: WireServer) -> None:
    """As llama.cpp says it."""
    error = {"code": 400, "message": "the request exceeds the available context size"}
    error |= {"type": "exceed_context_size_error", "n_prompt_tokens": 14_429, "n_ctx": 8_192}
    wire.play(Answer(status=400, error=error))
    failure = await failure_of("openai-chat")
    assert (failure.kind, failure.limit_tokens) == ("too_long", 8_192)


async def test_a_failed_response_says_why(wire: WireServer) -> None:
    error = {"code": "rate_limit_exceeded", "message": "Slow down"}
    wire.play(Answer(events=({"type": "response.failed", "response": {"error": error}},)))
    assert (await failure_of("openai")).kind == "rate_limit"


async def test_a_refused_key_is_named_and_never_shown(
    wire: WireServer, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
    wire.play(refusal(401, "", "Incorrect API key provided: sk-very-secret."))
    error = await failure_of(form)
    assert "OPENAI_API_KEY" in error.hint
    assert "sk-very-secret" not in repr((error, error.detail))


@pytest.mark.parametrize("url", ["nonsense", "ftp://x/v1", "http:///v1"])
async def test_an_address_that_is_none_is_told_to_the_admin(
    form: str, monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", url)
    error = await failure_of(form)
    assert error.kind == "bad_request"
    assert "OPENAI_BASE_URL" in error.message


async def test_a_key_that_cannot_be_sent_is_told_to_the_admin(
    wire: WireServer, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-“quoted”")
    assert (await failure_of(form)).kind == "auth"
    assert not wire.requests


async def test_another_host_never_sees_what_is_meant_for_openai(
    wire: WireServer, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", " sk-local\n")
    monkeypatch.setenv("OPENAI_ORG_ID", "org-secret")
    monkeypatch.setenv("OPENAI_PROJECT_ID", "proj-secret")
    lines = "X-Team: team-secret\nauthorization: Bearer env-secret"
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", lines)
    assert finish_of(await said_by(form)) == "stop"
    headers = wire.requests[0].headers
    assert headers["authorization"] == "Bearer sk-local"
    assert "secret" not in repr(headers)
    assert not headers.keys() & {"openai-organization", "openai-project", "x-team"}


async def test_a_server_of_ones_own_needs_no_key(wire: WireServer, form: str) -> None:
    assert finish_of(await said_by(form)) == "stop"
    assert "authorization" not in wire.requests[0].headers


@pytest.mark.parametrize(
    ("form", "option", "complaint"),
    [
        ("openai", "include", "Encrypted content is not supported with this model."),
        ("openai", "reasoning", "Unsupported parameter: 'reasoning.summary'"),
        ("openai", "stream_options", "Unknown parameter: 'stream_options'"),
        ("openai-chat", "stream_options", "Unknown field: stream_options"),
    ],
)
async def test_an_option_that_the_server_does_not_know_is_left_out(
    wire: WireServer, form: str, option: str, complaint: str
) -> None:
    wire.play(refusal(400, "", complaint), Answer(text="fine"))
    assert text_of(await said_by(form)) == "fine"
    first, second = (request.body for request in wire.requests)
    assert option in first
    assert first.keys() - second.keys() == {option}


async def test_without_summaries_a_model_reasons_on(wire: WireServer) -> None:
    complaint = "Your organization must be verified to generate reasoning summaries."
    wire.play(refusal(400, "unsupported_value", complaint), Answer(text="fine"))
    request = replace(a_request(), parameters=Parameters(effort="high"))
    assert text_of(await said_by("openai", request)) == "fine"
    first, second = (each.body.get("reasoning") for each in wire.requests)
    assert (first, second) == ({"effort": "high", "summary": "auto"}, {"effort": "high"})


async def test_a_complaint_that_does_not_go_away_ends(wire: WireServer, form: str) -> None:
    complaint = refusal(400, "", "stream_options, reasoning and include are not welcome")
    wire.play(*([complaint] * 9))
    assert (await failure_of(form)).kind == "bad_request"
    assert len(wire.requests) <= 4
