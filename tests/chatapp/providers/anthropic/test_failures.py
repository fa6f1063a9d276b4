"""How a call to Anthropic fails in its own ways, what its accounts send, and its list of models."""

from dataclasses import replace
from typing import Any

import pytest

from chatapp.providers.account import Account, ListedModel
from chatapp.providers.anthropic.messages import list_models, stream
from chatapp.providers.events import ErrorKind, ProviderError
from tests.chatapp.providers.accounts import SECRET, find_provider
from tests.chatapp.providers.stories import a_request, failure_of, finish_of, refusal, said_by
from tests.wire.script import Answer
from tests.wire.server import WireServer


def limited(status: int, code: str) -> Answer:
    """An error of a broad type with a code that names the cause."""
    details = {"error_code": code}
    error = {"code": "invalid_request_error", "message": "No more", "details": details}
    return Answer(status=status, error=error)


BEFORE: list[tuple[ErrorKind, Answer]] = [
    ("auth", refusal(401, "authentication_error", "invalid x-api-key")),
    ("auth", refusal(403, "permission_error", "Your key may not use this")),
    ("quota", refusal(402, "billing_error", "Payment required")),
    ("quota", refusal(400, "", "Your credit balance is too low to access the Anthropic API.")),
    ("quota", limited(400, "enforced_spend_limit_reached")),
    ("quota", limited(429, "contract_spend_limit_reached")),
    ("rate_limit", refusal(429, "rate_limit_error", "This request would exceed the rate limit")),
    ("overloaded", refusal(529, "overloaded_error", "Overloaded")),
    ("overloaded", refusal(503, "api_error", "Unavailable")),
    ("overloaded", refusal(500, "overloaded_error", "Try later")),
    ("too_long", refusal(413, "request_too_large", "Request exceeds the maximum size")),
    ("too_long", refusal(400, "", "prompt is too long: 215000 tokens > 200000 maximum")),
    ("bad_request", refusal(400, "", "messages.0: something")),
    ("bad_request", refusal(422, "", "Unprocessable")),
    ("bad_request", refusal(409, "conflict_error", "Twice")),
    ("not_found", refusal(404, "not_found_error", "model: claude-none")),
    ("server", refusal(500, "api_error", "Internal server error")),
    ("timeout", refusal(504, "timeout_error", "Timed out")),
    ("protocol", Answer(events=("event: ping\ndata: {}\n\n",))),
    ("protocol", Answer(events=("data: []\n\n", 'data: "text"\n\n', "data: 7\n\n"))),
    ("protocol", Answer(events=(b"data: {\xff}\n\n".decode("latin-1"),))),
    ("server", Answer(events=("event: error\ndata: {}\n\n",))),
    ("protocol", Answer(events=("event: error\ndata: words\n\n",))),
]


@pytest.mark.parametrize(("kind", "answer"), BEFORE)
async def test_each_error_has_its_kind(wire: WireServer, kind: ErrorKind, answer: Answer) -> None:
    wire.play(answer)
    error = await failure_of("anthropic")
    assert error.kind == kind, error.detail
    assert error.message
    assert error.hint


@pytest.mark.parametrize(
    ("kind", "error"),
    [
        ("overloaded", {"code": "overloaded_error"}),
        ("rate_limit", {"code": "rate_limit_error"}),
        ("auth", {"code": "authentication_error"}),
        ("quota", {"code": "billing_error"}),
        ("too_long", {"code": "request_too_large"}),
        ("timeout", {"code": "timeout_error"}),
        ("server", {"code": "api_error"}),
        ("server", {"code": "something_new"}),
        (
            "quota",
            {"code": "x", "details": {"error_code": "linked_organization_spend_limit_reached"}},
        ),
    ],
)
async def test_an_error_inside_the_stream_has_its_kind(
    wire: WireServer, kind: ErrorKind, error: dict[str, Any]
) -> None:
    wire.play(Answer(text="Half an", in_stream_error={"message": "It broke", **error}))
    failure = await failure_of("anthropic")
    assert (failure.kind, failure.detail) == (kind, "It broke")


async def account_of(wire: WireServer, **changes: Any) -> Account:
    _, _, account = await find_provider("anthropic:m")
    return replace(account, **changes)


async def test_without_a_key_nothing_is_asked_of_anthropic(
    wire: WireServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The SDK would look for the operator's."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", SECRET)
    account = await account_of(wire, base_url="", key="")
    for asking in (anext(stream(a_request(), account)), list_models(account)):
        with pytest.raises(ProviderError) as raised:
            await asking
        assert raised.value.kind == "auth"


async def test_a_server_of_ones_own_sees_nothing_of_the_operators(
    wire: WireServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", "env-secret")
    monkeypatch.setenv(
        "ANTHROPIC_CUSTOM_HEADERS", "X-Team: env-secret\nauthorization: env-secret\nx-api-key: env"
    )
    account = await account_of(wire, key="", headers=(("X-Api-Key", "own"),))
    async for _ in stream(a_request(), account):
        pass
    headers = wire.requests[0].headers
    assert "env" not in repr(headers.values())
    assert "authorization" not in headers
    assert headers["x-api-key"] == "own"


async def test_a_server_of_ones_own_needs_no_key(
    wire: WireServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    account = await account_of(wire, key="")
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    assert finish_of([event async for event in stream(a_request(), account)]) == "stop"
    assert "authorization" not in wire.requests[0].headers


async def test_the_key_and_the_version_are_sent_and_little_else(wire: WireServer) -> None:
    assert finish_of(await said_by("anthropic")) == "stop"
    headers = wire.requests[0].headers
    assert headers["authorization"] == f"Bearer {SECRET}"
    assert headers.keys() == {
        *("host", "accept", "accept-encoding", "connection", "content-type", "content-length"),
        *("authorization", "anthropic-version", "user-agent"),
    }


@pytest.mark.parametrize("end", ["", "/", "/v1", "/v1/"])
async def test_the_address_may_be_given_as_people_write_it(wire: WireServer, end: str) -> None:
    account = await account_of(wire, base_url=wire.base_url("anthropic") + end)
    said = [event async for event in stream(a_request(), account)]
    assert finish_of(said) == "stop"


async def test_models_are_listed_page_by_page_with_what_they_can(wire: WireServer) -> None:
    large, small = await list_models(await account_of(wire))
    assert large == ListedModel(
        name="scripted",
        label="Scripted",
        context_tokens=200_000,
        output_tokens=64_000,
        takes_pictures=True,
        takes_documents=True,
        reasons=True,
    )
    assert (small.name, small.output_tokens, small.takes_pictures) == (
        "scripted-small",
        8_000,
        False,
    )
    assert [sent.query.get("after_id") for sent in wire.listed] == [None, "scripted"]


async def test_a_bare_list_of_models_says_what_it_says(wire: WireServer) -> None:
    """As gateways have it: names alone, what is retired, and nonsense."""
    rows = '[{"id": "a"}, {"id": "b", "lifecycle": "retired"}, {"id": 7}, null]'
    wire.play(Answer(document=f'{{"data": {rows}}}', content_type="application/json"))
    assert await list_models(await account_of(wire)) == (ListedModel(name="a"),)


async def test_a_list_that_never_ends_ends(wire: WireServer) -> None:
    page = '{"data": [{"id": "a"}], "has_more": true, "last_id": "a"}'
    wire.play(*[Answer(document=page, content_type="application/json")] * 20)
    assert await list_models(await account_of(wire)) == (ListedModel(name="a"),)
    assert len(wire.listed) == 10
