"""Approvals of other people, other entrances to the same right, and identities in parallel."""

import asyncio

from django.contrib.sessions.models import Session
from django.test import Client

from chatapp.approvals import decisions
from chatapp.models import Member, ToolCall
from chatapp.server.database import in_database
from mcpconfig.models import Service
from mcpconfig.secrets import credentials
from tests.commands import Ran
from tests.conftest import signed_in
from tests.turns.acts import wait_for_rest

from . import plants
from .world import DELETE, Attack, World, attempt

PASSWORD = "a-long-password"


# --- approval by the wrong person ----------------------------------------------------------------
async def a_stranger_presses(world: World) -> None:
    (call,) = await world.asked(DELETE)
    stranger = await in_database(Member.objects.create_user, "stranger", password=PASSWORD)
    await world.press(call, await in_database(signed_in, stranger))
    await world.rest()


async def an_admin_presses(world: World) -> None:
    (call,) = await world.asked(DELETE)
    admin = await in_database(Member.objects.create_superuser, "admin", password=PASSWORD)
    await world.press(call, await in_database(signed_in, admin))
    await world.rest()


async def a_stranger_runs_the_command(world: World) -> None:
    (call,) = await world.asked(DELETE)
    await in_database(Member.objects.create_user, "stranger")
    await in_database(Ran, "approvals", "approve", str(call.pk), "--user", "stranger")
    await world.rest()


async def nobody_presses(world: World) -> None:
    (call,) = await world.asked(DELETE)
    await world.press(call, Client())
    await world.rest()


async def a_session_that_ended_presses(world: World) -> None:
    (call,) = await world.asked(DELETE)
    client = await in_database(signed_in, world.owner)
    await in_database(Session.objects.all().delete)
    await world.press(call, client)
    await world.rest()


async def a_deactivated_member_presses(world: World) -> None:
    (call,) = await world.asked(DELETE)
    client = await in_database(signed_in, world.owner)
    await in_database(lambda: Member.objects.update(is_active=False))
    await world.press(call, client)
    await world.rest()


# --- the same right by another entrance ----------------------------------------------------------
async def _without_the_right(world: World) -> ToolCall:
    """A call that waits, of a service that its person may not use any more."""
    (call,) = await world.asked(DELETE)
    mine_alone = {"visibility": Service.Visibility.PRIVATE}
    await in_database(lambda: Service.objects.update(**mine_alone))
    return call


async def by_the_card(world: World) -> None:
    await world.press(await _without_the_right(world))
    await world.rest()


async def by_changed_values(world: World) -> None:
    call = await _without_the_right(world)
    await world.press(call, arguments='{"name": "door"}')
    await world.rest()


async def by_a_lasting_consent(world: World) -> None:
    call = await _without_the_right(world)
    await world.press(call, scope="always", decision="run")
    await world.press(call)
    await world.rest()


async def by_the_command(world: World) -> None:
    call = await _without_the_right(world)
    await in_database(Ran, "approvals", "approve", str(call.pk), "--user", "owner")
    await world.rest()


async def by_running_it_again(world: World) -> None:
    call = await _without_the_right(world)
    with world.held():
        await world.press(call)
        lost = {"state": ToolCall.State.UNKNOWN, "attempt": 1}
        await in_database(lambda: ToolCall.objects.filter(pk=call.pk).update(**lost))
    await world.posted(f"/approvals/{call.pk}/resolve", {"verdict": "again"})
    await world.rest()


# --- two people at once --------------------------------------------------------------------------
async def two_people_at_once(world: World) -> None:
    """Each of twelve calls carries the name of its person, in its values and in its header."""
    await in_database(credentials.set_headers, world.service, {"X-Person": "{user.username}"})
    by_headers = {"authentication": Service.Authentication.HEADERS}
    await in_database(lambda: Service.objects.update(**by_headers))
    other = await in_database(Member.objects.create_user, "other")
    with world.held():
        for person in (world.owner, other):
            asked = [(DELETE[0], f'{{"name":"{person.username}","note":"{n}"}}') for n in range(6)]
            for call in await world.asked_by(person, *asked):
                binding = call.approval.binding
                await attempt(decisions.grant, call, by=person, binding=binding, shown_at=None)
    turns = await in_database(lambda: list(ToolCall.objects.values_list("turn", flat=True)))
    await asyncio.gather(*(world.runtime.engine.advance(turn) for turn in set(turns)))
    await wait_for_rest(world.runtime, world.turn)
    world.meant = 12
    arrived = [each for each in world.served.arrivals.seen if each.rpc_method == "tools/call"]
    pairs = zip(arrived, world.executions, strict=True)
    world.misrouted = [
        name
        for arrival, message in pairs
        if arrival.headers["x-person"] != (name := message["params"]["arguments"]["name"])
    ]


ATTACKS = (
    *(
        Attack(
            threat="approval-by-another-person", words=f"{who} presses", abuse=abuse, plant=plant
        )
        for who, abuse, plant in (
            ("a stranger", a_stranger_presses, plants.anybodys_call),
            ("an admin", an_admin_presses, plants.anybodys_call),
            ("a stranger at the command line", a_stranger_runs_the_command, plants.anybodys_call),
            ("nobody", nobody_presses, plants.anybody_is_the_owner),
            ("an ended session", a_session_that_ended_presses, plants.anybody_is_the_owner),
            ("a deactivated member", a_deactivated_member_presses, plants.anybody_is_the_owner),
        )
    ),
    *(
        Attack(
            threat="revoked-right-by-another-entrance",
            words=f"without the right, {how}",
            abuse=abuse,
            plant=plant,
        )
        for how, abuse, plant in (
            ("by the card", by_the_card, plants.nothing_checked_again),
            ("by changed values", by_changed_values, plants.nothing_checked_again),
            ("by a lasting consent", by_a_lasting_consent, plants.nothing_checked_again),
            ("by the command", by_the_command, plants.nothing_checked_again),
            ("by running it again", by_running_it_again, plants.nothing_checked_again),
        )
    ),
    Attack(
        threat="identity-mixed-up-in-parallel",
        words="two people at once",
        abuse=two_people_at_once,
        plant=plants.everybody_acts_as_the_first,
    ),
)
