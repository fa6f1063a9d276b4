"""How a service does: what counts as its failure, and what is a tool's or a person's affair."""

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.db import OperationalError
from django.utils import timezone

from chatapp.models import Member
from mcpconfig.models import OAuthChallenge, OAuthGrant, Service, ToolDefinition
from mcpconfig.operations.resources import read_resource
from mcpconfig.operations.tools import call_tool, list_tools
from mcpconfig.operations.tools import test_connection as connection_report
from mcpconfig.secrets import credentials, oauth_secrets
from mcpconfig.values.acting import Acting
from mcpconfig.values.errors import OperationError
from tests.peers.hostile import Hostile
from tests.peers.serving import Served
from tests.peers.toolbox import Watch, application, toolbox
from tests.turns.faults import Failing

MakeService = Callable[..., Awaitable[Service]]

pytestmark = pytest.mark.timeout(30)

ACT = ToolDefinition(name="act", input_schema={"type": "object"})
WIDER = b'Bearer error="insufficient_scope", scope="tools admin"'


async def state(service: Service) -> str:
    return str((await Service.objects.aget(pk=service.pk)).state)


async def failure(operation: Awaitable[Any]) -> OperationError:
    with pytest.raises(OperationError) as caught:
        await operation
    return caught.value


def test_each_state_has_its_word() -> None:
    error = {"kind": "refused", "message": "", "hint": "", "at": ""}
    now = timezone.now()
    words = [
        Service().state,
        Service(last_success_at=now).state,
        Service(last_success_at=now, last_error=error | {"kind": "sign_in_needed"}).state,
        Service(last_success_at=now, last_error=error).state,
        Service(last_error=error, is_enabled=False).state,
    ]
    assert words == ["configured", "connected", "sign-in needed", "failing", "off"]


async def test_what_answers_is_connected(modern: Served, service_at: MakeService) -> None:
    service = await service_at(modern.url)
    assert await state(service) == "configured"
    await list_tools(service)
    assert await state(service) == "connected"


@pytest.mark.parametrize("misdeed", ["h500", "hang", "drop_at_once", "h403", "garbage"])
async def test_a_tool_that_comes_to_nothing_does_not_make_the_service_fail(
    hostile: Hostile, service_at: MakeService, settings: Any, misdeed: str
) -> None:
    service = await service_at(hostile.url(misdeed))
    await list_tools(service)  # within the usual time: only what hangs is to run out of it
    settings.MCP_TOTAL_SECONDS, settings.MCP_IDLE_SECONDS = 1.0, 0.5
    await failure(call_tool(service, ACT, {}))
    assert await state(service) == "connected"


@pytest.mark.parametrize(
    ("misdeed", "is_looked_at"), [("h500", True), ("h401", False), ("giant", False)]
)
async def test_after_a_call_that_may_be_the_services_fault_it_is_looked_at(
    hostile: Hostile, service_at: MakeService, misdeed: str, is_looked_at: bool
) -> None:
    service = await service_at(hostile.url(misdeed))
    await failure(call_tool(service, ACT, {}))
    after = await Service.objects.aget(pk=service.pk)
    assert (after.next_retry_at is not None) == is_looked_at


async def test_an_error_is_kept_although_the_database_cannot_schedule_a_retry(
    hostile: Hostile, service_at: MakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = await service_at(hostile.url("h500"))
    await list_tools(service)
    failing = Failing(lambda: None, lambda *_, **__: True, OperationalError("gone"))
    monkeypatch.setattr("mcpconfig.services.status.database_sync_to_async", lambda _work: failing)
    assert (await failure(call_tool(service, ACT, {}))).kind == "server_error"


async def test_a_call_that_is_turned_away_shows_that_a_sign_in_is_needed(
    hostile: Hostile, service_at: MakeService
) -> None:
    service = await service_at(hostile.url("h401"))
    error = await failure(call_tool(service, ACT, {}))
    assert (error.was_sent, error.is_definite) == (True, True)
    assert await state(service) == "sign-in needed"


async def test_a_resource_that_is_too_large_does_not_make_the_service_fail(
    hostile: Hostile, service_at: MakeService
) -> None:
    service = await service_at(hostile.url("reading_cycle"))
    await failure(read_resource(service, "x" * 10_000))
    assert await state(service) == "configured"


async def test_a_listing_that_is_too_large_does(hostile: Hostile, service_at: MakeService) -> None:
    service = await service_at(hostile.url("listing_endless"))
    await failure(list_tools(service))
    after = await Service.objects.aget(pk=service.pk)
    assert (after.state, after.next_retry_at) == ("failing", None)


async def test_a_refusal_in_order_is_an_answer(hostile: Hostile, service_at: MakeService) -> None:
    service = await service_at(hostile.url("no_such_tool"))
    error = await failure(call_tool(service, ACT, {}))
    assert error.kind == "rpc_error"
    assert await state(service) == "configured"


async def test_a_failed_test_counts_and_one_that_works_clears_it(
    hostile: Hostile, service_at: MakeService
) -> None:
    service = await service_at(hostile.url("listing_h500"))
    await failure(connection_report(service))
    assert await state(service) == "failing"
    await Service.objects.filter(pk=service.pk).aupdate(url=hostile.url("html"))
    await connection_report(await Service.objects.aget(pk=service.pk))
    assert await state(service) == "connected"


@contextmanager
def turning_away(status: int, challenge: bytes, *tokens: bytes) -> Iterator[Served]:
    """A server that lets these tokens in and turns everybody else away like this."""
    inner = application(toolbox(Watch()))
    accepted = [b"Bearer " + token for token in tokens]

    async def gate(scope: Any, receive: Any, send: Any) -> None:
        headers = dict(scope.get("headers", []))
        if scope["type"] != "http" or headers.get(b"authorization") in accepted:
            return await inner(scope, receive, send)
        said = [(b"www-authenticate", challenge)] if challenge else []
        await send({"type": "http.response.start", "status": status, "headers": said})
        await send({"type": "http.response.body", "body": b"no"})
        return None

    with Served(gate) as served:
        yield served


def signed_in(service: Service, person: Member | None, token: str) -> None:
    """What a finished sign-in leaves."""
    grant = OAuthGrant.objects.create(service=service, person=person, endpoint=service.endpoint)
    oauth_secrets.encrypt_token(grant, "access", token)
    grant.save()


async def test_one_persons_refusal_says_nothing_of_the_service(
    owner: Member, stranger: Member, service_at: MakeService
) -> None:
    with turning_away(401, b'Bearer realm="x"', b"good") as served:
        service = await service_at(served.url, authentication="oauth_user")
        await sync_to_async(signed_in)(service, owner, "good")
        await sync_to_async(signed_in)(service, stranger, "stale")
        await list_tools(service, acting=Acting.of(owner))
        error = await failure(list_tools(service, acting=Acting.of(stranger)))
    assert error.kind == "sign_in_needed"
    assert await state(service) == "connected"


async def test_nobody_else_is_let_in_with_the_grant_of_one(
    owner: Member, stranger: Member, service_at: MakeService
) -> None:
    with turning_away(401, b'Bearer realm="x"', b"good") as served:
        service = await service_at(served.url, authentication="oauth_user")
        await sync_to_async(signed_in)(service, owner, "good")
        error = await failure(list_tools(service, acting=Acting.of(stranger)))
    assert (error.kind, error.was_sent) == ("sign_in_needed", False)
    assert served.arrivals.seen == []
    assert await state(service) == "configured"


async def test_a_shared_sign_in_that_is_turned_away_is_the_services(
    service_at: MakeService,
) -> None:
    with turning_away(401, b'Bearer realm="x"') as served:
        service = await service_at(served.url, authentication="oauth_shared")
        await sync_to_async(signed_in)(service, None, "stale")
        await failure(list_tools(service))
    assert await state(service) == "sign-in needed"


async def test_too_narrow_a_sign_in_is_a_sign_in_with_more_rights(
    owner: Member, service_at: MakeService
) -> None:
    with turning_away(403, WIDER) as served:
        service = await service_at(served.url, authentication="oauth_user")
        await sync_to_async(signed_in)(service, owner, "narrow")
        error = await failure(list_tools(service, acting=Acting.of(owner)))
    assert error.kind == "sign_in_needed"
    assert "more rights" in error.message
    assert (await OAuthChallenge.objects.aget()).scope == "tools admin"


async def test_a_plain_no_is_no_matter_of_signing_in(
    owner: Member, service_at: MakeService
) -> None:
    with turning_away(403, b"") as served:
        service = await service_at(served.url, authentication="oauth_user")
        await sync_to_async(signed_in)(service, owner, "known")
        error = await failure(list_tools(service, acting=Acting.of(owner)))
    assert error.kind == "forbidden"
    assert not await OAuthChallenge.objects.aexists()


async def test_what_a_service_without_oauth_challenges_is_not_kept(service_at: MakeService) -> None:
    with turning_away(401, WIDER) as served:
        service = await service_at(served.url, authentication="bearer")
        await sync_to_async(credentials.set_bearer)(service, "stale")
        error = await failure(list_tools(service))
    assert "stored credentials" in error.message
    assert not await OAuthChallenge.objects.aexists()
    assert await state(service) == "sign-in needed"


async def test_the_operator_alone_cannot_make_a_service_of_persons_fail(
    modern: Served, service_at: MakeService
) -> None:
    service = await service_at(modern.url, authentication="oauth_user")
    error = await failure(list_tools(service))
    assert "--user" in error.hint
    assert await state(service) == "configured"
    assert modern.arrivals.seen == []
