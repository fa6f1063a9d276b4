"""What the Bedrock provider makes of answers, errors and accounts, and how its threads end."""

import asyncio
import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from pytest_django import Settings

from chatapp.providers.account import Account
from chatapp.providers.bedrock import client as bedrock_client
from chatapp.providers.bedrock import threaded_reader
from chatapp.providers.bedrock.provider import read_family
from chatapp.providers.events import ErrorKind, ProviderError, Usage
from tests.chatapp.providers.accounts import SECRET, find_provider
from tests.chatapp.providers.stories import (
    a_request,
    calls_of,
    failure_of,
    finish_of,
    opaque_of,
    reasoning_of,
    refusal,
    said_by,
    text_of,
)
from tests.wire.script import Answer, Tool
from tests.wire.server import WireServer, wire_server

STOP = {"messageStop": {"stopReason": "end_turn"}}


async def account_of() -> Account:
    return (await find_provider("bedrock:m"))[2]


async def said_to(account: Account) -> str:
    provider, _, _ = await find_provider("bedrock:m")
    return finish_of([event async for event in provider.stream(a_request(), account)])


def delta(**said: Any) -> dict[str, Any]:
    return {"contentBlockDelta": {"contentBlockIndex": 0, "delta": said}}


@pytest.mark.parametrize(
    ("reason", "finish"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("max_tokens", "length"),
        ("guardrail_intervened", "filtered"),
        ("content_filtered", "filtered"),
        ("refusal", "refused"),
        ("something_of_2027", "stop"),
    ],
)
async def test_each_reason_to_stop_has_a_meaning(
    wire: WireServer, reason: str, finish: str
) -> None:
    wire.play(Answer(events=(delta(text="Well"), {"messageStop": {"stopReason": reason}})))
    events = await said_by("bedrock")
    assert (text_of(events), finish_of(events)) == ("Well", finish)


@pytest.mark.parametrize(
    ("reason", "kind"),
    [
        ("malformed_model_output", "server"),
        ("malformed_tool_use", "server"),
        ("model_context_window_exceeded", "too_long"),
    ],
)
async def test_an_answer_that_failed_is_an_error(
    wire: WireServer, reason: str, kind: ErrorKind
) -> None:
    wire.play(Answer(events=(delta(text="Well"), {"messageStop": {"stopReason": reason}})))
    error = await failure_of("bedrock")
    assert (error.kind, error.detail) == (kind, reason)


@pytest.mark.parametrize("is_last", [True, False])
async def test_tokens_are_counted_before_the_end_and_behind_it(
    wire: WireServer, is_last: bool
) -> None:
    counted = {"metadata": {"usage": {"inputTokens": 40, "outputTokens": 30, "totalTokens": 70}}}
    wire.play(Answer(events=(STOP, counted) if is_last else (counted, STOP)))
    assert (await said_by("bedrock"))[-2] == Usage(input_tokens=40, output_tokens=30)


async def test_an_end_without_a_count_is_an_end(wire: WireServer, settings: Settings) -> None:
    settings.MODEL_IDLE_SECONDS = 1.0
    wire.play(Answer(text="Well", cut="hang", cut_after=4), Answer(events=(STOP,), cut="reset"))
    assert [finish_of(await said_by("bedrock")) for _ in range(2)] == ["stop", "stop"]


async def test_a_sloppy_answer_is_read_all_the_same(wire: WireServer) -> None:
    tool = Tool(name="notes_write", arguments={"a": 1})
    wire.play(Answer(reasoning="Hm", text="Well", tools=(tool,), is_sloppy=True))
    events = await said_by("bedrock")
    assert (text_of(events), reasoning_of(events)) == ("Well", "Hm")
    assert calls_of(events) == [(0, "call_0", "notes_write", '{"a": 1}')]
    assert opaque_of(events) == [], "thoughts that are not signed are not wanted back"


BEFORE: list[tuple[ErrorKind, int, str, str]] = [
    ("auth", 403, "AccessDeniedException", "Not authorized"),
    ("auth", 403, "UnrecognizedClientException", "The security token is invalid."),
    ("auth", 403, "ExpiredTokenException", "The security token is expired"),
    ("auth", 403, "InvalidSignatureException", "It does not match"),
    ("not_found", 403, "AccessDeniedException", "You don't have access to the model"),
    ("not_found", 400, "ValidationException", "The provided model identifier is invalid."),
    ("not_found", 404, "ResourceNotFoundException", "No such model"),
    ("quota", 400, "ServiceQuotaExceededException", "Too much"),
    ("rate_limit", 429, "ThrottlingException", "Too many requests"),
    ("overloaded", 503, "ServiceUnavailableException", "Busy"),
    ("overloaded", 429, "ModelNotReadyException", "It warms up"),
    ("too_long", 400, "ValidationException", "Input is too long for requested model."),
    ("bad_request", 400, "ValidationException", "Wrong value"),
    ("timeout", 408, "ModelTimeoutException", "Too slow"),
    ("server", 424, "ModelErrorException", "It failed"),
    ("server", 500, "InternalServerException", "Oops"),
    ("bad_request", 418, "SomethingOf2027Exception", "A teapot"),
]


@pytest.mark.parametrize(("kind", "status", "code", "message"), BEFORE)
async def test_each_error_of_amazon_has_its_kind(
    wire: WireServer, kind: ErrorKind, status: int, code: str, message: str
) -> None:
    wire.play(refusal(status, code, message))
    error = await failure_of("bedrock")
    assert (error.kind, error.detail) == (kind, message)
    assert len(wire.requests) == 1


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        ("rate_limit", "throttlingException"),
        ("overloaded", "serviceUnavailableException"),
        ("server", "internalServerException"),
        ("server", "modelStreamErrorException"),
        ("bad_request", "validationException"),
        ("server", "somethingOf2027Exception"),
    ],
)
async def test_each_exception_inside_the_stream_has_its_kind(
    wire: WireServer, kind: ErrorKind, code: str
) -> None:
    wire.play(Answer(text="Half an", in_stream_error={"code": code, "message": "It broke"}))
    assert (await failure_of("bedrock")).kind == kind


async def test_a_damaged_frame_is_a_protocol_error(wire: WireServer) -> None:
    wire.play(Answer(events=({"damaged": delta(text="Well")}, STOP)))
    assert (await failure_of("bedrock")).kind == "protocol"


async def test_what_the_sdk_does_not_send_is_a_bad_request(wire: WireServer) -> None:
    provider, _, account = await find_provider("bedrock:m")
    with pytest.raises(ProviderError) as raised:
        await anext(provider.stream(replace(a_request(), model=""), account))
    assert raised.value.kind == "bad_request"
    assert not wire.requests


@pytest.mark.parametrize(
    ("model", "family"),
    [
        ("anthropic.claude-sonnet-5-5", "anthropic"),
        ("eu.anthropic.claude-sonnet-5-5", "anthropic"),
        ("us-gov.anthropic.claude-sonnet-5-5", "anthropic"),
        ("arn:aws:bedrock:us-east-1:1:inference-profile/us.amazon.nova-pro-v1:0", "amazon"),
        ("arn:aws:bedrock:us-east-1::foundation-model/mistral.mistral-large-v1:0", "mistral"),
        ("arn:aws:bedrock:us-east-1:1:application-inference-profile/abc123", ""),
        ("scripted", ""),
        ("", ""),
    ],
)
def test_the_maker_is_read_from_the_name(model: str, family: str) -> None:
    assert read_family(model) == family


@pytest.fixture
def operator(wire: WireServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the environment says of an account that is somebody else's, to a fresh process."""
    bedrock_client._get_session.cache_clear()
    monkeypatch.setenv("AWS_BEARER_TOKEN_BEDROCK", "operators-token")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "operators-session")
    monkeypatch.setenv("AWS_PROFILE", "operators-profile")
    monkeypatch.setenv("AWS_REGION", "operators-region")


@pytest.mark.usefixtures("operator")
@pytest.mark.parametrize(
    ("key_id", "marks"),
    [
        ("AKOWN", ("AWS4-HMAC-SHA256 Credential=AKOWN/", "/eu-west-1/bedrock/")),
        ("", ("Bearer own-secret",)),
    ],
)
async def test_a_request_is_signed_for_its_account_alone(
    wire: WireServer, key_id: str, marks: tuple[str, ...]
) -> None:
    account = replace(
        await account_of(),
        key_id=key_id,
        key="own-secret",
        region="eu-west-1",
        headers=(("X-Team", "own"),),
    )
    assert await said_to(account) == "stop"
    sent = wire.requests[0].headers
    assert all(mark in sent["authorization"] for mark in marks)
    assert sent["x-team"] == "own"
    assert "x-amz-security-token" not in sent
    assert "operators" not in repr(wire.requests)
    assert await said_to(replace(account, session_token="own-session")) == "stop"
    session = wire.requests[1].headers.get("x-amz-security-token")
    assert session == ("own-session" if key_id else None)


async def test_an_account_without_a_key_does_not_borrow_the_operators(wire: WireServer) -> None:
    account = replace(await account_of(), key="", key_id="")
    with pytest.raises(ProviderError) as raised:
        await said_to(account)
    assert raised.value.kind == "auth"
    assert not wire.requests


async def test_an_account_without_an_address_does_not_go_to_the_operators(
    wire: WireServer, settings: Settings
) -> None:
    settings.MODEL_FIRST_BYTE_SECONDS = 2
    account = replace(await account_of(), base_url="", region="nowhere-1")
    with pytest.raises(ProviderError) as raised:
        await said_to(account)
    assert raised.value.kind in {"network", "timeout"}
    assert not wire.requests


async def test_two_accounts_never_share_a_client(wire: WireServer) -> None:
    async with wire_server() as other:
        account = await account_of()
        elsewhere = replace(account, base_url=other.base_url("bedrock"), key="other-secret")
        assert [await said_to(each) for each in (account, elsewhere)] == ["stop", "stop"]
        assert (len(wire.requests), len(other.requests)) == (1, 1)


async def test_models_and_profiles_are_listed_where_amazon_says_them(wire: WireServer) -> None:
    client = bedrock_client.get_client("bedrock", await account_of())
    profile, model = await asyncio.to_thread(bedrock_client.read_models, client)
    assert (profile.name, profile.label) == (
        "eu.anthropic.claude-sonnet-5-5",
        "EU Claude sonnet-5-5",
    )
    assert (model.name, model.takes_pictures) == ("amazon.nova-2-lite-v1:0", True)
    assert len(wire.listed) == 3


async def test_another_address_cannot_list_and_says_so(wire: WireServer) -> None:
    provider, _, account = await find_provider("bedrock:m")
    with pytest.raises(ProviderError) as raised:
        await provider.list_models(account)
    assert "a different address" in raised.value.message
    assert "by name" in raised.value.hint
    assert not wire.listed


@pytest.fixture
def one_thread(settings: Settings) -> Iterator[None]:
    settings.BEDROCK_STREAMS = 1
    threaded_reader.get_threads.cache_clear()
    yield
    threaded_reader.get_threads().shutdown()
    threaded_reader.get_threads.cache_clear()


@pytest.mark.usefixtures("one_thread")
async def test_streams_beyond_the_number_wait_and_those_given_up_are_not_sent(
    wire: WireServer, settings: Settings
) -> None:
    provider, _, account = await find_provider("bedrock:m")
    wire.play(Answer(text="abc" * 9, cut="hang", cut_after=4))
    first = provider.stream(a_request(), account)
    assert await anext(first)
    settings.MODEL_FIRST_BYTE_SECONDS = 0.1
    assert (await failure_of("bedrock")).kind == "timeout"
    settings.MODEL_FIRST_BYTE_SECONDS = 5
    waiting = asyncio.create_task(said_by("bedrock"))
    await asyncio.sleep(0)
    await first.aclose()
    assert finish_of(await waiting) == "stop"
    assert len(wire.requests) == 2


async def test_a_stopped_stream_frees_its_thread(wire: WireServer) -> None:
    provider, _, account = await find_provider("bedrock:m")
    for _ in range(3):
        wire.play(Answer(text="abc" * 9, cut="hang", cut_after=4))
        stream = provider.stream(a_request(), account)
        assert await anext(stream)
        await stream.aclose()
        await wire.until(lambda: wire.streaming == 0)
    assert wire.aborted == 3
    assert finish_of(await said_by("bedrock")) == "stop"
    busy = [thread for thread in threading.enumerate() if thread.name.startswith("bedrock")]
    assert len(busy) <= 3


async def test_an_ended_stream_leaves_its_connection_to_the_next(wire: WireServer) -> None:
    """An error has an end too: whoever gets its connection must not be cut off."""
    wire.play(refusal(400, "ValidationException", "Wrong value"))
    assert (await failure_of("bedrock")).kind == "bad_request"
    assert finish_of(await said_by("bedrock")) == "stop"
    assert wire.connections == 1


@pytest.mark.usefixtures("wire")
async def test_keys_are_not_in_what_is_said_of_an_account() -> None:
    account = replace(await account_of(), session_token="session-secret")
    assert SECRET not in repr(account)
    assert "session-secret" not in repr(account)
