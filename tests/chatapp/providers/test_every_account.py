"""An account that an admin typed in, beside an operator's environment full of keys: nothing of the
one reaches the other, in every form.

The SDKs read the environment themselves, so each test plants it whole. What must make them fail: an
SDK client without `OwnHeaders`, or one that is made without the account's own key.
"""

from dataclasses import replace

import pytest

from chatapp.providers.account import Account, ProviderNames
from chatapp.providers.events import ProviderError
from chatapp.providers.registry import load_provider
from tests.wire.http import Request
from tests.wire.script import Answer
from tests.wire.server import WireServer

from .accounts import BASE_URLS, KEYS, PRIVATE
from .stories import a_request, finish_of

OPERATOR = "operators-own-0123456789"
ROW = "row-key-0123456789"
KEY_ID = "AKIDOFTHEROW"
LINES = f"X-Team: {OPERATOR}\nAuthorization: Bearer {OPERATOR}\nX-Api-Key: {OPERATOR}"


@pytest.fixture(autouse=True)
def operator(wire: WireServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything that an SDK may read, with an address of the operator's own."""
    own = {name for keys in KEYS.values() for name in keys}
    for name in {*PRIVATE, *own, "OPENAI_ADMIN_KEY"} - {"GOOGLE_GENAI_USE_VERTEXAI", "AWS_PROFILE"}:
        monkeypatch.setenv(name, LINES if name.endswith("CUSTOM_HEADERS") else OPERATOR)
    monkeypatch.delenv("ANTHROPIC_PROFILE")
    for name in set(BASE_URLS.values()):
        monkeypatch.setenv(name, "http://127.0.0.1:1/operators-own")


def of_row(wire: WireServer, form: str) -> Account:
    names = ProviderNames(label="Row", key_variable="K", url_variable="U")
    is_amazon = form == "bedrock"
    return Account(
        names=names,
        base_url=wire.base_url(form),
        key=ROW,
        headers=(("x-row", "yes"),),
        key_id=KEY_ID if is_amazon else "",
        region="eu-central-1" if is_amazon else "",
    )


def shows_row(request: Request) -> bool:
    """Whether the request came with the row's key: Amazon's is signed with, and named by its id."""
    return any(mark in value for value in request.headers.values() for mark in (ROW, KEY_ID))


async def test_a_row_is_asked_with_its_own_key_and_nothing_of_the_operators(
    wire: WireServer, form: str
) -> None:
    provider = await load_provider(form)
    events = [event async for event in provider.stream(a_request(), of_row(wire, form))]
    assert finish_of(events) == "stop"
    (request,) = wire.requests
    assert shows_row(request)
    assert request.headers["x-row"] == "yes"
    assert "operators-own" not in repr(request)


async def test_a_row_is_listed_with_its_own_key_and_nothing_of_the_operators(
    wire: WireServer, form: str
) -> None:
    provider = await load_provider(form)
    try:
        assert await provider.list_models(of_row(wire, form))
    except ProviderError as error:
        # Bedrock has its list at another address than its models.
        assert (form, error.kind) == ("bedrock", "not_found")
    for request in wire.listed:
        assert shows_row(request)
        assert "operators-own" not in repr(request)


async def test_a_bearer_token_of_a_row_is_not_signed_with(wire: WireServer) -> None:
    account = replace(of_row(wire, "bedrock"), key_id="")
    provider = await load_provider("bedrock")
    assert [event async for event in provider.stream(a_request(), account)]
    assert wire.requests[0].headers["authorization"] == f"Bearer {ROW}"


async def test_a_row_without_a_key_borrows_none(wire: WireServer, form: str) -> None:
    provider = await load_provider(form)
    account = replace(of_row(wire, form), key="", key_id="")
    try:
        _ = [event async for event in provider.stream(a_request(), account)]
    except ProviderError as error:
        assert error.kind == "auth"
    assert "operators-own" not in repr(wire.requests)


async def test_a_redirect_takes_a_rows_key_nowhere(wire: WireServer, form: str) -> None:
    elsewhere = f"{wire.base_url(form)}/elsewhere"
    wire.play(Answer(status=307, headers={"location": elsewhere}))
    provider = await load_provider(form)
    with pytest.raises(ProviderError):
        _ = [event async for event in provider.stream(a_request(), of_row(wire, form))]
    assert len(wire.requests) == 1
