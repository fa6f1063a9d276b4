"""Headers with the acting person: filled in for each operation, safe on the wire, or refused."""

from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest
from asgiref.sync import sync_to_async

from mcpconfig.models import Exchange, Service
from mcpconfig.operations.tools import list_tools
from mcpconfig.secrets import credentials
from mcpconfig.secrets.header_templates import (
    PLACEHOLDERS,
    fill_headers,
    find_problem,
    has_placeholder,
)
from mcpconfig.values.acting import Acting
from mcpconfig.values.errors import OperationError
from tests.peers.serving import Served

MakeService = Callable[..., Awaitable[Service]]

pytestmark = pytest.mark.timeout(30)

ADA = Acting(user_id=7, username="ada", email="ada@example.org", conversation_id="c-1")
EVERYTHING = {"X-Who": "{user.id} {user.username} <{user.email}>", "X-Where": "{conversation.id}"}


def test_each_placeholder_is_filled_in() -> None:
    assert fill_headers(EVERYTHING, ADA) == {"X-Who": "7 ada <ada@example.org>", "X-Where": "c-1"}


def test_what_is_filled_in_is_not_filled_in_again() -> None:
    sly = replace(ADA, username="{user.email}")
    assert fill_headers({"X-Who": "{user.username}"}, sly) == {"X-Who": "{user.email}"}


@pytest.mark.parametrize(
    "value",
    [
        *("{user.password}", "{USER.EMAIL}", "{ user.email }", "{user.email.domain}", "{}", "{0}"),
        *("{settings.SECRET_KEY}", "{env.HOME}", "{user.email!r}", "{user.__class__}", "{a{b}"),
    ],
)
def test_a_placeholder_that_does_not_exist_is_refused(value: str) -> None:
    assert "Unknown placeholder" in find_problem({"X-Who": value})


@pytest.mark.parametrize("value", ['{"a": 1}', "a { b", "plain", "100 %", *PLACEHOLDERS])
def test_other_braces_are_left_alone(value: str) -> None:
    assert find_problem({"X-Who": value}) == ""


@pytest.mark.parametrize(
    "value", ["a\r\nX-Admin: 1", "a\nb", "a\rb", "a\x00b", "a\tb", "é", "\x7f"]
)
def test_a_value_that_is_not_safe_in_a_header_is_refused(value: str) -> None:
    assert "printable ASCII" in find_problem({"X-Who": value})


@pytest.mark.parametrize(
    "name", ["", "X Who", "X:Who", "X\r\nY", "Ünd", "x{user.id}", "a" * 70 + " "]
)
def test_a_name_that_is_none_is_refused(name: str) -> None:
    assert "can’t be a header name" in find_problem({name: "1"})


@pytest.mark.parametrize(
    "name", ["Host", "content-length", "Transfer-Encoding", "Mcp-Session-Id", "ACCEPT", "mcp-name"]
)
def test_the_protocols_own_headers_cannot_be_set(name: str) -> None:
    assert "The protocol sets" in find_problem({name: "1"})


@pytest.mark.parametrize("field", ["username", "email"])
@pytest.mark.parametrize("text", ["ada\r\nX-Admin: 1", "ada\n", "ad\u00e9", "\x00", "\u2028"])
def test_a_person_cannot_smuggle_a_header_in_by_name(field: str, text: str) -> None:
    sly = replace(ADA, username=text, email=text)
    with pytest.raises(OperationError, match="can’t carry"):
        fill_headers({"X-Who": f"{{user.{field}}}"}, sly)


@pytest.mark.parametrize("value", ["{user.email}", "{conversation.id}"])
def test_what_is_not_known_of_a_person_is_an_error(value: str) -> None:
    with pytest.raises(OperationError, match=f"needs a value for {value},") as caught:
        fill_headers({"X-Who": value}, replace(ADA, email="", conversation_id=""))
    assert (caught.value.kind, caught.value.was_sent) == ("configuration", False)


def test_without_a_person_a_template_is_an_error_and_plain_headers_are_not() -> None:
    assert fill_headers({"X-Key": "1"}, None) == {"X-Key": "1"}
    with pytest.raises(OperationError, match="no person is named here"):
        fill_headers({"X-Who": "{user.id}"}, None)


def test_only_templates_name_a_person() -> None:
    assert has_placeholder(EVERYTHING)
    assert not has_placeholder({"X-Key": 'a{"b": 1}'})


def test_headers_that_cannot_be_stored_are_not() -> None:
    service = Service.objects.create(name="one", url="https://one.example/mcp")
    with pytest.raises(OperationError, match="Unknown placeholder"):
        credentials.set_headers(service, {"X-Who": "{user.secret}"})
    assert credentials.list_header_names(service) == []


@pytest.mark.parametrize("token", ["a b", "a\r\nX-Admin: 1", "tök"])
def test_a_token_that_would_break_its_header_is_not_stored(token: str) -> None:
    service = Service.objects.create(name="one", url="https://one.example/mcp")
    with pytest.raises(OperationError, match="invalid characters"):
        credentials.set_bearer(service, token)


async def told(served: Served, service: Service, acting: Acting | None) -> list[str]:
    served.arrivals.clear()
    await list_tools(service, acting=acting)
    return [arrival.headers["x-who"] for arrival in served.arrivals.seen]


@pytest.fixture
async def telling(modern: Served, service_at: MakeService) -> Service:
    service = await service_at(modern.url, authentication="headers")
    await sync_to_async(credentials.set_headers)(service, {"X-Who": "{user.username}"})
    return service


async def test_each_person_is_told_to_the_service_as_himself(
    modern: Served, telling: Service
) -> None:
    assert set(await told(modern, telling, ADA)) == {"ada"}
    assert await told(modern, telling, replace(ADA, username="bob")) == ["bob"]


async def test_what_was_filled_in_is_not_in_the_trace(modern: Served, telling: Service) -> None:
    await told(modern, telling, replace(ADA, username="ada-lovelace"))
    kept = [exchange.request_headers async for exchange in Exchange.objects.all()]
    assert kept
    assert "ada-lovelace" not in repr(kept)


async def test_nothing_is_sent_where_nobody_acts(modern: Served, telling: Service) -> None:
    with pytest.raises(OperationError, match="no person is named here"):
        await told(modern, telling, None)
    assert modern.arrivals.seen == []
    assert (await Service.objects.aget(pk=telling.pk)).state == "configured"
