"""Tools that the provider could not take are named at the top of the answer, once."""

import pytest

from chatapp.engine.runtime import EngineRuntime
from chatapp.models import Member, Turn
from chatapp.providers.events import ToolLeftOut
from chatapp.server.database import in_database
from tests import scripted
from tests.scripted import text
from tests.turns.acts import wait_for_rest

from .test_missing_notices import notes

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(300)]
MANY = "OpenAI accepts at most 128 tools at once."


def left_out(*names: str, reason: str = MANY) -> list[ToolLeftOut]:
    return [ToolLeftOut(name=name, reason=reason) for name in names]


async def test_tools_that_were_left_out_are_named_with_the_reason(
    runtime: EngineRuntime, turn: Turn, owner: Member
) -> None:
    shapes = left_out("files_odd", reason="Its shape is odd.")
    scripted.scenes.append([*left_out("a_1", "a_2"), *shapes, *text("Without them, then.")])
    done = await wait_for_rest(runtime, turn)
    assert done.state == Turn.State.DONE
    (note,) = await in_database(notes, owner, turn)
    assert f"The model did not receive these tools: “a_1”, “a_2”. {MANY}" in note.text
    assert "The model did not receive these tools: “files_odd”. Its shape is odd." in note.text
    assert "A model of another provider may accept them." in note.text


async def test_of_many_tools_a_few_are_named_and_the_rest_counted(
    runtime: EngineRuntime, turn: Turn, owner: Member
) -> None:
    scripted.scenes.append([*left_out(*(f"a_{n}" for n in range(9))), *text("Well.")])
    await wait_for_rest(runtime, turn)
    (note,) = await in_database(notes, owner, turn)
    assert "“a_0”, “a_1”, “a_2”, “a_3”, “a_4” and 4 more" in note.text


async def test_a_second_step_does_not_say_it_again(
    runtime: EngineRuntime, turn: Turn, owner: Member
) -> None:
    scripted.scenes.append([*left_out("a_1"), *scripted.calls(("unheard_of", "{}"))])
    scripted.scenes.append([*left_out("a_1"), *text("Well.")])
    await wait_for_rest(runtime, turn)
    assert len(await in_database(notes, owner, turn)) == 1
