"""How long a model thought, as the page says it: its own time, and nothing else."""

import asyncio

import pytest

from chatapp.engine.runtime import EngineRuntime
from chatapp.models import Part, Turn
from chatapp.providers.events import Finished, ProviderError, ReasoningDelta, TextDelta
from chatapp.server.database import in_database
from tests import scripted
from tests.scripted import Pause, Scene
from tests.turns.acts import wait_for_rest

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(300)]


async def ended_after(pause: Pause, seconds: float) -> None:
    async with asyncio.timeout(60):
        await pause.reached.wait()
    await asyncio.sleep(seconds)
    pause.ended.set()


@pytest.mark.long
async def test_each_thought_has_its_own_time_without_the_wait_for_a_busy_provider(
    runtime: EngineRuntime, turn: Turn
) -> None:
    silent, thinking, saying, again = Pause(), Pause(), Pause(), Pause()
    busy = ProviderError(kind="overloaded", message="Busy.", retry_after=3)
    first: Scene = [silent, ReasoningDelta(text="Let me "), thinking, ReasoningDelta(text="see.")]
    second: Scene = [again, ReasoningDelta(text="Is that so?"), TextDelta(text=" It is.")]
    between: Scene = [TextDelta(text="It "), saying, TextDelta(text="is.")]
    scripted.scenes += [[busy], [*first, *between, *second, Finished(reason="stop")]]
    runtime.engine.wake(turn.pk)
    for pause, seconds in (silent, 0.5), (thinking, 0.5), (saying, 3), (again, 0.2):
        await ended_after(pause, seconds)
    await wait_for_rest(runtime, turn)
    thoughts = Part.objects.filter(message=turn.answer_id, kind="reasoning").order_by("position")
    took = [part.seconds or 0 for part in await in_database(list, thoughts)]
    assert 1.0 <= took[0] < 3.0
    assert 0.2 <= took[1] < 3.0
