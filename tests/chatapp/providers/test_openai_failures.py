"""Every way in which a call to OpenAI fails: its kind, its words, and what does not leak."""

import asyncio
import time
from typing import Any

import pytest
from pytest_django import Settings

from chatapp.providers.events import ErrorKind, ProviderError
from chatapp.providers.failures import SENTENCES, retry_after_seconds
from chatapp.providers.openai_client import account_from_environment
from chatapp.providers.registry import provider_for
from tests.chatapp.providers.stories import a_request, finish_of, said_by, text_of
from tests.wire.openai import WireServer
from tests.wire.script import Answer


async def failure_of(form: str) -> ProviderError:
    async with asyncio.timeout(5):
        with pytest.raises(ProviderError) as raised:
            await said_by(form)
    return raised.value


def refusal(status: int, code: str, message: str, **headers: str) -> Answer:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    error = {"message": message, "type": "error", "param": None, "code": code}
    return Answer(status=status, error=error, headers=named)


BEFORE: list[tuple[ErrorKind, Answer]] = [
    ("auth", refusal(401, "invalid_api_key", "Incorrect API key provided")),
    ("auth", refusal(403, "", "Country not supported")),
    ("quota", refusal(429, "insufficient_quota", "You exceeded your current quota")),
    ("rate_limit", refusal(429, "rate_limit_exceeded", "Slow down")),
    ("overloaded", refusal(503, "", "Busy")),
    ("overloaded", refusal(500, "", "The engine is overloaded")),
    ("too_long", refusal(400, "context_length_exceeded", "Too many words")),
    ("too_long", refusal(400, "", "This model's maximum context length is 10 tokens")),
    ("too_long", refusal(413, "", "Large")),
    ("bad_request", refusal(400, "invalid_value", "Wrong value")),
    ("bad_request", refusal(422, "", "Unprocessable")),
    ("not_found", refusal(404, "model_not_found", "The model does not exist")),
    ("server", refusal(500, "", "Oops")),
    ("timeout", refusal(504, "", "Gateway timed out")),
    ("protocol", Answer(status=302, headers={"location": "http://127.0.0.1:9/"})),
    ("server", Answer(status=502, document="<html>Bad gateway</html>", content_type="text/html")),
    ("protocol", Answer(document="<html>Sign in</html>", content_type="text/html")),
    ("protocol", Answer(document='{"choices": []}', content_type="application/json")),
    ("protocol", Answer(document="just words", content_type="text/plain")),
    ("protocol", Answer(events=("data: {broken\n\n",))),
    ("protocol", Answer(events=("data: []\n\n", 'data: "text"\n\n'))),
    ("network", Answer(cut="reset", cut_after=-1)),
    ("network", Answer(text="broken off", cut="reset", cut_after=2)),
    ("protocol", Answer(text="never finished", cut="end", cut_after=3)),
    ("network", Answer(cut="end", cut_after=-1)),
]


@pytest.mark.parametrize(("kind", "answer"), BEFORE)
async def test_each_failure_has_its_kind(
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


async def test_a_failed_response_says_why(wire: WireServer) -> None:
    error = {"code": "rate_limit_exceeded", "message": "Slow down"}
    wire.play(Answer(events=({"type": "response.failed", "response": {"error": error}},)))
    assert (await failure_of("openai")).kind == "rate_limit"


async def test_the_wait_that_was_asked_for_is_kept_and_told(wire: WireServer, form: str) -> None:
    wire.play(refusal(429, "rate_limit_exceeded", "Slow down", retry_after="7"))
    error = await failure_of(form)
    assert error.retry_after == 7
    assert "in 7 seconds" in error.hint
    assert error.is_worth_a_retry


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after-ms": "1500", "retry-after": "9"}, 1.5),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after": "-3"}, 0),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "inf"}, None),
        ({}, None),
    ],
)
def test_a_wait_is_read_in_every_form(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after_seconds(headers) == seconds


def test_every_kind_has_a_sentence_and_says_what_to_do() -> None:
    assert set(SENTENCES) == set(ErrorKind.__args__)  # type: ignore[attr-defined]
    assert all(message.endswith(".") and hint for message, hint in SENTENCES.values())


async def test_a_refused_key_is_named_and_never_shown(
    wire: WireServer, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
    wire.play(refusal(401, "", "Incorrect API key provided: sk-very-secret."))
    error = await failure_of(form)
    assert "OPENAI_API_KEY" in error.hint
    assert "sk-very-secret" not in repr((error, error.detail))


async def test_the_provider_explains_a_bad_request_in_its_own_words(
    wire: WireServer, form: str
) -> None:
    wire.play(refusal(400, "invalid_value", "Wrong value: 'x'"), refusal(400, "", "y" * 5_000))
    assert "Wrong value: 'x'" in (await failure_of(form)).message
    long = await failure_of(form)
    assert "yyy" not in long.message
    assert long.detail.startswith("yyy")


@pytest.mark.parametrize("status", [401, 500])
async def test_other_failures_do_not_quote_the_provider(
    wire: WireServer, form: str, status: int
) -> None:
    wire.play(refusal(status, "", "internal words"))
    error = await failure_of(form)
    assert "internal words" not in f"{error.message} {error.hint}"
    assert error.detail == "internal words"


async def test_a_server_that_never_answers_times_out(
    wire: WireServer, form: str, settings: Settings
) -> None:
    settings.MODEL_FIRST_BYTE_SECONDS = 0.1
    wire.play(Answer(cut="hang", cut_after=-1), Answer(cut="hang", cut_after=0))
    for _ in range(2):
        started = time.monotonic()
        assert (await failure_of(form)).kind == "timeout"
        assert time.monotonic() - started < 2
    await wire.until(lambda: wire.aborted == 2)


async def test_a_server_that_falls_silent_times_out(
    wire: WireServer, form: str, settings: Settings
) -> None:
    settings.MODEL_IDLE_SECONDS = 0.1
    wire.play(Answer(text="abc" * 20, cut="hang", cut_after=6))
    assert (await failure_of(form)).kind == "timeout"
    await wire.until(lambda: wire.aborted == 1)


async def test_the_first_byte_may_take_longer_than_the_next_ones(
    wire: WireServer, form: str, settings: Settings
) -> None:
    settings.MODEL_IDLE_SECONDS = 0.2
    wire.play(Answer(text="late", first_byte_ms=400))
    assert text_of(await said_by(form)) == "late"


async def test_a_page_instead_of_a_stream_is_named_in_the_log(wire: WireServer, form: str) -> None:
    wire.play(Answer(document="<html>Sign in</html>", content_type="text/html"))
    assert "text/html" in (await failure_of(form)).detail


async def test_nobody_listening_is_a_network_failure(
    form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:1/v1")
    assert (await failure_of(form)).kind == "network"


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


async def test_a_redirect_is_not_followed_with_the_key(wire: WireServer, form: str) -> None:
    wire.play(Answer(status=307, headers={"location": f"{wire.url}/elsewhere"}))
    assert (await failure_of(form)).kind == "protocol"
    assert len(wire.requests) == 1


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


@pytest.mark.parametrize(
    ("url", "is_openai"),
    [
        ("", True),
        ("https://eu.api.openai.com/v1", True),
        ("https://api.openai.com.example.net/v1", False),
        ("https://notapi.openai.com/v1", False),
    ],
)
def test_only_openais_own_addresses_count_as_openai(
    monkeypatch: pytest.MonkeyPatch, url: str, is_openai: bool
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-x")
    monkeypatch.setenv("OPENAI_BASE_URL", url)
    assert account_from_environment().is_openai is is_openai


async def test_a_server_of_ones_own_needs_no_key(wire: WireServer, form: str) -> None:
    assert finish_of(await said_by(form)) == "stop"
    assert wire.requests[0].headers["authorization"] == "Bearer none"


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


async def test_a_complaint_that_does_not_go_away_ends(wire: WireServer, form: str) -> None:
    complaint = refusal(400, "", "stream_options, reasoning and include are not welcome")
    wire.play(*([complaint] * 9))
    assert (await failure_of(form)).kind == "bad_request"
    assert len(wire.requests) <= 4


async def test_text_that_is_not_unicode_is_a_bad_request(wire: WireServer, form: str) -> None:
    provider, _ = await provider_for(f"{form}:m")
    request: Any = a_request(history=())
    stream = provider.stream(type(request)(model="m", system="half \ud83d", history=()))
    with pytest.raises(ProviderError) as raised:
        await anext(stream)
    assert raised.value.kind == "bad_request"
