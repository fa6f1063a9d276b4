"""Who acts in a turn: told to the service with each request, and checked again before each call."""

from collections.abc import Iterator
from functools import partial

import pytest

from chatapp.approvals import decisions
from chatapp.engine.runtime import EngineRuntime
from chatapp.models import ToolCall, Turn
from chatapp.server.database import in_database
from mcpconfig.models import Service, ToolSetting
from mcpconfig.secrets import credentials
from tests import scripted
from tests.peers.serving import Served
from tests.peers.toolbox import Watch, application, toolbox
from tests.scripted import calls, text
from tests.turns.acts import get_only_call, get_owner, grant_and_change, wait_for_rest

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(300)]

ECHO = ("box_echo", '{"text": "hello"}')


@pytest.fixture
def served() -> Iterator[Served]:
    with Served(application(toolbox(Watch()))) as box:
        yield box


@pytest.fixture
def box(transactional_db: None, served: Served) -> Service:
    service = Service.objects.create(
        name="box",
        url=served.url,
        allows_private_addresses=True,
        authentication="headers",
        visibility="everyone",
    )
    credentials.set_headers(service, {"X-Who": "{user.username}", "X-Where": "{conversation.id}"})
    return service


async def test_every_request_of_a_turn_says_who_acts_and_where(
    runtime: EngineRuntime, box: Service, served: Served, turn: Turn
) -> None:
    scripted.scenes += [calls(ECHO), text("Said.")]
    await wait_for_rest(runtime, turn)
    call = await get_only_call(turn)
    if call.state == ToolCall.State.AWAITING_APPROVAL:
        await in_database(
            decisions.grant, call, by=get_owner(turn), binding=call.approval.binding, shown_at=None
        )
        await wait_for_rest(runtime, turn)
    assert (await get_only_call(turn)).state == ToolCall.State.SUCCEEDED
    methods = [arrival.rpc_method for arrival in served.arrivals.seen]
    assert {"tools/list", "tools/call"} <= set(methods)
    assert {arrival.headers["x-who"] for arrival in served.arrivals.seen} == {"owner"}
    assert {arrival.headers["x-where"] for arrival in served.arrivals.seen} == {
        str(turn.conversation_id)
    }


async def test_a_call_is_not_sent_once_the_person_may_not_use_the_service(
    runtime: EngineRuntime, box: Service, served: Served, turn: Turn
) -> None:
    """Approved and then taken away: the right to use a service counts at the moment of sending."""
    scripted.scenes += [calls(ECHO), text("Then not.")]
    await in_database(ToolSetting.objects.create, service=box, name="echo", level="high")
    waiting = await wait_for_rest(runtime, turn)
    assert waiting.state == Turn.State.WAITING
    call = await get_only_call(turn)
    hide = partial(Service.objects.filter(pk=box.pk).update, visibility="private")
    await in_database(grant_and_change, call, hide)

    await wait_for_rest(runtime, turn)

    after = await get_only_call(turn)
    assert after.state == ToolCall.State.WITHDRAWN
    assert after.error is not None
    assert "can no longer use the service" in after.error["message"]
    assert "tools/call" not in [arrival.rpc_method for arrival in served.arrivals.seen]


async def test_a_turn_goes_on_without_a_failing_service_and_the_model_knows(
    runtime: EngineRuntime, box: Service, turn: Turn
) -> None:
    error = {"kind": "refused", "message": "Nothing answers there.", "hint": "", "at": "now"}
    await in_database(Service.objects.filter(pk=box.pk).update, last_error=error)
    scripted.scenes.append(text("I cannot use the box now."))
    done = await wait_for_rest(runtime, turn)
    assert done.state == Turn.State.DONE
    request = scripted.requests[0]
    assert not [tool.name for tool in request.tools if tool.name.startswith("box_")]
    assert "The tools of “box” cannot be used now. Nothing answers there." in request.system
