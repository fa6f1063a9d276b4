"""A service of a person without admin rights: it connects to public addresses only, holds only its
own secrets, and stops with its owner's rights."""

from collections.abc import Awaitable, Callable

import pytest
from asgiref.sync import sync_to_async

from chatapp.models import Member
from mcpconfig.models import Credential, Service, ToolDefinition
from mcpconfig.operations.tools import call_tool, list_tools
from mcpconfig.operations.tools import test_connection as connection_report
from mcpconfig.secrets import credentials
from mcpconfig.values.acting import Acting
from mcpconfig.values.errors import OperationError
from mcpconfig.values.hooks import BuiltinAddress, Hooks, using_hooks
from tests.peers.serving import Served
from tests.peers.toolbox import BEARER

MakeService = Callable[..., Awaitable[Service]]

pytestmark = pytest.mark.timeout(30)


async def refusal(service: Service) -> OperationError:
    with pytest.raises(OperationError) as caught:
        await list_tools(service)
    return caught.value


async def test_it_never_reaches_a_private_address_whatever_is_ticked(
    owner: Member, modern: Served, service_at: MakeService
) -> None:
    service = await service_at(modern.url, owner=owner, allows_private_addresses=True)

    for operation in (list_tools, connection_report):
        with pytest.raises(OperationError) as caught:
            await operation(service)
        assert caught.value.kind in ("configuration", "blocked_address")
    with pytest.raises(OperationError):
        await call_tool(service, ToolDefinition(name="echo", input_schema={}), {"text": "x"})

    assert modern.arrivals.seen == []


async def test_a_name_that_leads_inside_is_blocked(owner: Member, service_at: MakeService) -> None:
    error = await refusal(await service_at("https://localhost/mcp", owner=owner))
    assert error.kind == "blocked_address"


async def test_an_admins_own_service_may_lead_inside(
    admin: Member, modern: Served, service_at: MakeService
) -> None:
    service = await service_at(modern.url, owner=admin)
    assert len(await list_tools(service)) == 7


async def test_the_door_closes_when_the_owner_is_an_admin_no_more(
    admin: Member, modern: Served, service_at: MakeService
) -> None:
    service = await service_at(modern.url, owner=admin)
    await list_tools(service)
    modern.arrivals.clear()
    await Member.objects.filter(pk=admin.pk).aupdate(is_staff=False)

    await refusal(service)  # the value in hand still knows the admin

    assert modern.arrivals.seen == []


async def test_what_this_application_serves_itself_is_not_for_it(
    owner: Member, modern: Served, service_at: MakeService
) -> None:
    async def address() -> BuiltinAddress:
        return BuiltinAddress(url=modern.url, bearer="the-inner-token")

    with using_hooks(Hooks(builtin_addresses={"inner": address})):
        error = await refusal(await service_at("builtin:inner", owner=owner))

    assert error.kind == "configuration"
    assert modern.arrivals.seen == []


async def test_a_secret_moved_from_an_admins_service_opens_nothing(
    owner: Member, guarded: Served, service_at: MakeService
) -> None:
    """A copy in the database itself: each secret is encrypted for its own row."""
    admins = await service_at(guarded.url, authentication="bearer")
    await sync_to_async(credentials.set_bearer)(admins, BEARER)
    persons = await service_at("https://person.example/mcp", authentication="bearer", owner=owner)
    await sync_to_async(credentials.set_bearer)(persons, "the-persons-own")
    stolen = (await Credential.objects.aget(service=admins)).bearer
    await Credential.objects.filter(service=persons).aupdate(bearer=stolen)

    error = await refusal(persons)

    assert (error.kind, "decrypted" in error.message) == ("configuration", True)


async def test_its_headers_can_say_nothing_but_who_acts(
    owner: Member, service_at: MakeService
) -> None:
    service = await service_at("https://person.example/mcp", owner=owner)
    for value in ("{settings.SECRET_KEY}", "{service.bearer}", "{env.OPENAI_API_KEY}"):
        with pytest.raises(OperationError, match="Unknown placeholder"):
            await sync_to_async(credentials.set_headers)(service, {"X-Sly": value})


def test_acting_holds_nothing_but_who_and_where(owner: Member) -> None:
    acting = Acting.of(owner, "c-1")
    assert (acting.user_id, acting.username, acting.conversation_id) == (owner.pk, "owner", "c-1")
    assert "password" not in repr(acting)
