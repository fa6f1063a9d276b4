"""What changes between the card, the click and the execution."""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from functools import partial
from typing import Any

from django.utils import timezone

from chatapp.conversations import intake
from chatapp.models import Approval, HousePolicy, Member, PolicyRule, ToolCall
from chatapp.server.database import in_database
from mcpconfig.models import Service, ToolSetting
from mcpconfig.secrets import credentials
from tests import scripted
from tests.commands import Ran
from tests.peers import turncoat
from tests.turns.acts import wait_for_rest

from . import plants
from .world import DELETE, Abuse, Attack, World, at_home

Change = Callable[[World], Awaitable[None]]
Rows = Callable[[], Any]


def while_it_waits(change: Change) -> Abuse:
    async def abuse(world: World) -> None:
        (call,) = await world.asked(DELETE)
        await change(world)
        await world.press(call)
        await world.rest()

    return abuse


def after_the_click(change: Change) -> Abuse:
    async def abuse(world: World) -> None:
        (call,) = await world.asked(DELETE)
        with world.held():
            await world.press(call)
            await change(world)
        await world.rest()

    return abuse


def rows(change: Rows) -> Change:
    async def changed(world: World) -> None:
        await in_database(change)

    return changed


# --- arguments -----------------------------------------------------------------------------------
def other_arguments() -> None:
    ToolCall.objects.update(arguments='{"name":"house"}')


async def the_version_of_another_card(world: World) -> None:
    lamp, house = await world.asked(DELETE, (DELETE[0], '{"name":"house"}'))
    await world.press(house, version=lamp.approval.binding)
    await world.press(lamp, decision="deny")
    await world.rest()


async def fields_beside_the_card(world: World) -> None:
    """What a browser sends along with *Allow once* is not what runs."""
    (call,) = await world.asked(DELETE)
    world.meant = 1
    await world.press(call, exact='{"name":"house"}', v0="house", name="house")
    await world.rest()
    names = [each["params"]["arguments"]["name"] for each in world.executions]
    world.misrouted = [name for name in names if name != "lamp"]


async def one_name_twice(world: World) -> None:
    (call,) = await world.asked((DELETE[0], '{"name":"lamp","name":"house"}'))
    if call.state == ToolCall.State.AWAITING_APPROVAL:
        await world.press(call)
    await world.rest()


# --- another tool --------------------------------------------------------------------------------
def listed_anew(what: str) -> Change:
    async def change(world: World) -> None:
        world.server.change(what)
        await world.tools_fetched()

    return change


async def changed_unnoticed(world: World) -> None:
    """The list has grown old, and nobody has asked for another one."""
    world.server.change("schema")
    past = timezone.now() - timedelta(seconds=1)
    await in_database(lambda: Service.objects.update(tools_fresh_until=past))


async def changed_within_the_time_that_the_service_named(world: World) -> None:
    """The service said that its list stays valid for hours. It was read a minute ago."""
    world.server.change("schema")
    read = timezone.now() - timedelta(minutes=1)
    valid = timezone.now() + timedelta(hours=5)
    await in_database(lambda: Service.objects.update(tools_listed_at=read, tools_fresh_until=valid))


async def moved(world: World) -> None:
    await in_database(lambda: Service.objects.update(url=f"{world.served.url}?"))


def after_a_lasting_consent(change: Change) -> Abuse:
    """The admin has confirmed what it became; the person has not."""

    async def abuse(world: World) -> None:
        await in_database(lambda: HousePolicy(consents_to_high=True).save())
        (call,) = await world.asked(DELETE)
        world.meant = 1
        await world.press(call, scope="always")
        await world.rest()
        await change(world)
        await in_database(at_home, world.service)
        await world.asked_again(DELETE)

    return abuse


# --- a stale approval ----------------------------------------------------------------------------
def too_late() -> None:
    Approval.objects.update(expires_at=timezone.now() - timedelta(seconds=1))


async def another_message(world: World) -> None:
    chat = world.turn.conversation
    following = partial(intake.receive, world.owner, chat, text="Leave it", model=scripted.MODEL)
    await wait_for_rest(world.runtime, await in_database(following))


async def another_token(world: World) -> None:
    await in_database(credentials.set_bearer, world.service, "another-token")


async def another_way_to_sign_in(world: World) -> None:
    await in_database(Ran, "mcp", "set", "things", "--header", "X-Team=another")


async def not_theirs_any_more(world: World) -> None:
    mine_alone = {"visibility": Service.Visibility.PRIVATE}
    await in_database(lambda: Service.objects.update(**mine_alone))


# --- an admin acts meanwhile ---------------------------------------------------------------------
def service_off() -> None:
    Service.objects.update(is_enabled=False)


def tool_off() -> None:
    ToolSetting.objects.filter(name="delete_thing").update(is_enabled=False)


def person_off() -> None:
    Member.objects.update(is_active=False)


def forbidden() -> None:
    PolicyRule.objects.create(name="Never", effect="deny")


WHEN = {"while it waits": while_it_waits, "after the click": after_the_click}

ATTACKS = (
    *(
        Attack(
            threat="arguments-changed-after-display",
            words=f"other arguments in the rows {when}",
            abuse=at(rows(other_arguments)),
            plant=plants.nothing_checked_again,
        )
        for when, at in WHEN.items()
    ),
    Attack(
        threat="arguments-changed-after-display",
        words="the version of another card",
        abuse=the_version_of_another_card,
        plant=plants.a_decision_without_conditions,
    ),
    Attack(
        threat="arguments-changed-after-display",
        words="fields beside the card",
        abuse=fields_beside_the_card,
        plant=plants.fields_of_the_browser_count,
    ),
    Attack(
        threat="arguments-changed-after-display",
        words="one name twice",
        abuse=one_name_twice,
        plant=plants.the_last_value_counts,
    ),
    *(
        Attack(
            threat="tool-changed-after-approval",
            words=f"another {what} {when}",
            abuse=at(listed_anew(what)),
            plant=plants.nothing_checked_again,
        )
        for what in turncoat.CHANGES
        for when, at in WHEN.items()
    ),
    *(
        Attack(
            threat="tool-changed-after-approval",
            words=f"another schema {when}, which nobody has noticed yet",
            abuse=at(changed_unnoticed),
            plant=plants.old_lists_do,
        )
        for when, at in WHEN.items()
    ),
    *(
        Attack(
            threat="tool-changed-after-approval",
            words=f"another schema {when}, although the list is valid for hours",
            abuse=at(changed_within_the_time_that_the_service_named),
            plant=plants.old_lists_do,
        )
        for when, at in WHEN.items()
    ),
    *(
        Attack(
            threat="tool-changed-after-approval",
            words=f"another endpoint {when}",
            abuse=at(moved),
            plant=plants.nothing_checked_again,
        )
        for when, at in WHEN.items()
    ),
    *(
        Attack(
            threat="tool-changed-after-approval",
            words=f"another {what} after a lasting consent",
            abuse=after_a_lasting_consent(listed_anew(what)),
            plant=plants.any_consent_holds,
        )
        for what in turncoat.CHANGES
    ),
    Attack(
        threat="tool-changed-after-approval",
        words="another endpoint after a lasting consent",
        abuse=after_a_lasting_consent(moved),
        plant=plants.any_consent_holds,
    ),
    Attack(
        threat="stale-approval",
        words="after it expired",
        abuse=while_it_waits(rows(too_late)),
        plant=plants.a_decision_without_conditions,
    ),
    Attack(
        threat="stale-approval",
        words="after another message",
        abuse=while_it_waits(another_message),
        plant=plants.a_decision_without_conditions,
    ),
    *(
        Attack(
            threat="stale-approval",
            words=f"{words} {when}",
            abuse=at(change),
            plant=plants.nothing_checked_again,
        )
        for words, change in {
            "another token": another_token,
            "another way to sign in": another_way_to_sign_in,
            "the right is lost": not_theirs_any_more,
        }.items()
        for when, at in WHEN.items()
    ),
    *(
        Attack(
            threat="policy-changed-before-run",
            words=f"{words} {when}",
            abuse=at(rows(change)),
            plant=plants.nothing_checked_again,
        )
        for words, change in {
            "the service is switched off": service_off,
            "the tool is switched off": tool_off,
            "a rule forbids it": forbidden,
        }.items()
        for when, at in WHEN.items()
    ),
    Attack(
        threat="policy-changed-before-run",
        words="the person is switched off after the click",
        abuse=after_the_click(rows(person_off)),
        plant=plants.nothing_checked_again,
    ),
)
