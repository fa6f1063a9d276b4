"""An approval that is used again, and two tabs that disagree."""

import asyncio

from chatapp.approvals import decisions
from chatapp.conversations import intake
from chatapp.models import ToolCall
from chatapp.server.database import in_database
from tests.turns.acts import wait_until

from . import plants
from .world import DELETE, Attack, World, attempt


# --- replay and double submit --------------------------------------------------------------------
async def fifty_presses(world: World) -> None:
    """Ten at once, forty while it runs, ten more when it has run."""
    (call,) = await world.asked(DELETE)
    world.meant = 1
    with world.server.busy():
        await asyncio.gather(*(world.press(call) for _ in range(10)))
        await wait_until(lambda: bool(world.executions))
        await asyncio.gather(*(_granted(world, call) for _ in range(40)))
    await world.rest()
    await asyncio.gather(*(world.press(call) for _ in range(10)))
    await world.rest()


async def _granted(world: World, call: ToolCall) -> None:
    binding = call.approval.binding
    await attempt(decisions.grant, call, by=world.owner, binding=binding, shown_at=None)


async def back_and_once_more(world: World) -> None:
    (call,) = await world.asked(DELETE)
    world.meant = 1
    with world.server.busy():
        await world.press(call)
        await wait_until(lambda: bool(world.executions))
        await world.press(call)
    await world.rest()


async def other_values_while_it_runs(world: World) -> None:
    (call,) = await world.asked(DELETE)
    world.meant = 1
    with world.server.busy():
        await world.press(call)
        await wait_until(lambda: bool(world.executions))
        await world.press(call, arguments='{"name":"house"}')
    await world.rest()


# --- two tabs disagree ---------------------------------------------------------------------------
async def one_denies_then_the_other_runs(world: World) -> None:
    (call,) = await world.asked(DELETE)
    with world.held():
        await world.press(call, decision="deny")
        await world.press(call)
    await world.rest()


async def one_stops_then_the_other_runs(world: World) -> None:
    (call,) = await world.asked(DELETE)
    await in_database(intake.stop, world.turn.conversation)
    await world.press(call)
    await world.rest()


async def stop_withdraws_all_at_once(world: World) -> None:
    several = await world.asked(DELETE, (DELETE[0], '{"name":"door"}'))
    await world.posted(f"/c/{world.turn.conversation_id}/stop", {})
    for call in several:
        await world.press(call)
    await world.rest()


ATTACKS = (
    *(
        Attack(
            threat="approval-replayed",
            words=words,
            abuse=abuse,
            plant=plants.a_decision_without_conditions,
        )
        for words, abuse in (
            ("fifty presses at once, ten afterwards", fifty_presses),
            ("back, and once more", back_and_once_more),
            ("other values while it runs", other_values_while_it_runs),
        )
    ),
    *(
        Attack(
            threat="tabs-disagree",
            words=words,
            abuse=abuse,
            plant=plants.a_decision_without_conditions,
        )
        for words, abuse in (
            ("one denies, then the other runs", one_denies_then_the_other_runs),
            ("one stops, then the other runs", one_stops_then_the_other_runs),
            ("two cards, stopped, then both run", stop_withdraws_all_at_once),
        )
    ),
)
