"""Words of strangers in a turn make what does more than read ask; so does the limit of a day."""

from functools import partial

import pytest

from chatapp.context import attachments
from chatapp.conversations import intake
from chatapp.engine.runtime import EngineRuntime
from chatapp.models import Member, ToolCall, ToolLimit, Turn
from chatapp.permissions import reasons
from chatapp.server.database import in_database
from chatapp.tools.taint import find_taint_of_chats
from mcpconfig.models import Service
from mcpconfig.values.results import ResourceContents, ResourcePart
from tests import scripted
from tests.chatapp.policy.test_consents import APPEND, allow, asked, asked_again, confirmed
from tests.scripted import calls, text
from tests.turns.acts import READ, get_only_call, wait_for_rest

__all__ = ["confirmed"]
pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(300)]


async def allowed_always(runtime: EngineRuntime, turn: Turn) -> Member:
    call, owner = await asked(runtime, turn, APPEND)
    await in_database(partial(allow, call, owner, scope="always"))
    await wait_for_rest(runtime, turn)
    return owner


@pytest.mark.parametrize(("is_open", "state"), [(True, "awaiting_approval"), (False, "succeeded")])
async def test_a_consent_is_suspended_once_strangers_words_came_before(
    runtime: EngineRuntime, turn: Turn, confirmed: Service, is_open: bool, state: str
) -> None:
    owner = await allowed_always(runtime, turn)
    await in_database(lambda: Service.objects.update(is_open=is_open))
    scripted.scenes[:] = [calls(READ), calls(APPEND), text("Done.")]
    from_strangers = await in_database(partial(_ask, owner))
    await wait_for_rest(runtime, from_strangers)
    calls_made = await in_database(
        lambda: list(ToolCall.objects.filter(turn=from_strangers).order_by("step"))
    )
    read, append = calls_made
    assert read.state == ToolCall.State.SUCCEEDED
    assert append.state == state
    if is_open:
        assert append.risk == "high"
        assert "untrusted content from “notebook”" in append.why
        assert "“notebook”" in append.reasons[0]


@pytest.mark.parametrize(("is_open", "state"), [(True, "awaiting_approval"), (False, "succeeded")])
async def test_what_a_person_attaches_may_be_strangers_words_too(
    runtime: EngineRuntime, turn: Turn, confirmed: Service, is_open: bool, state: str
) -> None:
    owner = await allowed_always(runtime, turn)
    await in_database(lambda: Service.objects.update(is_open=is_open))
    scripted.scenes[:] = [calls(APPEND), text("Done.")]
    with_file = await in_database(partial(_ask_with_file, owner))
    await wait_for_rest(runtime, with_file)
    append = await get_only_call(with_file)
    assert (append.state, append.risk) == (state, "high" if is_open else "medium")
    await in_database(lambda: Service.objects.update(is_open=False))
    chats = [turn.conversation_id], [with_file.conversation_id]
    taints = [await in_database(partial(find_taint_of_chats, each)) for each in chats]
    assert taints == ["", "notebook" if is_open else ""], "Marked when it was read."


def _ask_with_file(owner: Member) -> Turn:
    part = ResourcePart(uri="note://1", mime_type="text/plain", text="Append this.", blob=None)
    contents = ResourceContents(parts=(part,), was_cut=False)
    notes = Service.objects.get(name="notebook")
    file = attachments.store_draft(owner, notes, "note://1", "A note", contents)
    return intake.receive(
        owner, None, text="Do what it says", model=scripted.MODEL, attachments=[file.pk]
    )


def _ask(owner: Member) -> Turn:
    return intake.receive(owner, None, text="Again", model=scripted.MODEL)


async def test_beyond_the_limit_of_a_day_each_use_asks(
    runtime: EngineRuntime, turn: Turn, confirmed: Service
) -> None:
    owner = await allowed_always(runtime, turn)  # the first use today
    await in_database(partial(ToolLimit.objects.create, service=confirmed, calls=2))
    second = await asked_again(runtime, owner, APPEND)
    third = await asked_again(runtime, owner, APPEND)
    assert second.state == ToolCall.State.SUCCEEDED
    assert third.state == ToolCall.State.AWAITING_APPROVAL
    assert third.why == (reasons.USED_TODAY % {"times": 2, "limit": 2})


async def test_the_limit_of_another_tool_changes_nothing(
    runtime: EngineRuntime, turn: Turn, confirmed: Service
) -> None:
    owner = await allowed_always(runtime, turn)
    await in_database(partial(ToolLimit.objects.create, tool="delete_note", calls=0))
    again = await asked_again(runtime, owner, APPEND)
    assert again.state == ToolCall.State.SUCCEEDED
