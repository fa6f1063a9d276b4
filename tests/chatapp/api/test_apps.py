"""Calls that an app asks for: decided like the model's, told to the person, and bounded."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.http import Http404

from chatapp.api import apps
from chatapp.approvals import decisions, reviews
from chatapp.context.history import build_history
from chatapp.conversations import intake
from chatapp.engine.runtime import EngineRuntime
from chatapp.live.page_view import load_conversation_view
from chatapp.models import App, AppContents, Approval, Member, Permit, ToolCall, Turn
from chatapp.people.refused import Refused
from chatapp.server.database import in_database
from chatapp.tools.catalogue import build_catalogue
from mcpconfig.models import Exchange, Service, ToolSetting
from mcpconfig.operations.tool_listing import fetch_tools
from mcpconfig.services.tool_definitions import confirm_tools
from mcpconfig.values.errors import OperationError
from tests import scripted
from tests.peers.effects import Effects
from tests.peers.gallery import application
from tests.peers.serving import Served
from tests.scripted import calls, text
from tests.turns.acts import get_only_call, get_owner, read_notices, wait_for_rest

pytestmark = [pytest.mark.gate, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def effects(tmp_path: Path) -> Effects:
    return Effects(tmp_path / "effects")


@pytest.fixture
def served(effects: Effects) -> Iterator[Served]:
    with Served(application(effects, {"plain": "<p>One"})) as server:
        yield server


@pytest.fixture
def gallery(transactional_db: None, served: Served) -> Service:
    """A service with an app; its tools are known and confirmed."""
    service = Service.objects.create(
        name="gallery",
        url=served.url,
        allows_private_addresses=True,
        allows_apps=True,
        visibility="everyone",
    )
    confirm_tools(async_to_sync(fetch_tools)(service))
    return service


async def shown_in(runtime: EngineRuntime, turn: Turn) -> ToolCall:
    """The call that brought an app, in a turn that is over."""
    scripted.scenes += [calls(("gallery_show_plain", '{"words": "hi"}')), text("There it is.")]
    done = await wait_for_rest(runtime, turn)
    assert done.state == Turn.State.DONE
    call = await get_only_call(turn)
    return await in_database(apps.find_call_with_app, get_owner(turn), call.pk)


async def asked(turn: Turn, shown: ToolCall, tool: str, /, **values: object) -> ToolCall:
    return await in_database(apps.receive_from_app, get_owner(turn), shown, tool, values)


async def over(runtime: EngineRuntime, call: ToolCall) -> ToolCall:
    await wait_for_rest(runtime, call.turn)
    rows = ToolCall.objects.select_related("turn", "review")
    return await in_database(rows.get, pk=call.pk)


async def test_a_low_risk_call_of_an_app_runs_under_a_permit_and_asks_no_model(
    runtime: EngineRuntime, gallery: Service, turn: Turn, effects: Effects
) -> None:
    shown = await shown_in(runtime, turn)
    requests = len(scripted.requests)
    call = await over(runtime, await asked(turn, shown, "read_counter", name="one"))
    assert (call.state, call.turn.state) == (ToolCall.State.SUCCEEDED, Turn.State.DONE)
    assert apps.build_app_result(call)["content"] == [{"type": "text", "text": "one is 1"}]
    assert effects.lines == ["read_counter one"]
    assert await in_database(Permit.objects.filter(tool_call=call).count) == 1
    assert len(scripted.requests) == requests
    assert await in_database(read_notices, call.turn) == []


def reviewed(name: str) -> None:
    ToolSetting.objects.filter(name=name).update(wants_review=True)


@pytest.mark.parametrize("verdict", ["give", "hold back"])
async def test_an_app_is_told_no_result_of_its_calls_that_nobody_gave(
    runtime: EngineRuntime, gallery: Service, turn: Turn, verdict: str
) -> None:
    shown = await shown_in(runtime, turn)
    await in_database(reviewed, "read_counter")
    call = await over(runtime, await asked(turn, shown, "read_counter", name="one"))
    assert (call.state, call.turn.state) == (ToolCall.State.SUCCEEDED, Turn.State.WAITING)
    assert "one is 1" not in str(await in_database(apps.build_app_result, call))
    how: dict[str, Any] = {"by": get_owner(turn), "binding": call.review.binding}
    if verdict == "give":
        await in_database(partial(reviews.give_result, call, shown_at=None, **how))
    else:
        await in_database(partial(reviews.withhold_result, call, reason="Not for apps.", **how))
    told = await in_database(apps.build_app_result, await over(runtime, call))
    assert ("one is 1" in str(told)) is (verdict == "give")
    assert ("Not for apps." in str(told)) is (verdict == "hold back")


async def test_no_app_is_shown_with_a_result_that_nobody_gave(
    runtime: EngineRuntime, gallery: Service, turn: Turn
) -> None:
    await in_database(reviewed, "show_plain")
    scripted.scenes += [calls(("gallery_show_plain", '{"words": "hi"}')), text("There it is.")]
    await wait_for_rest(runtime, turn)
    call = await in_database(ToolCall.objects.select_related("review").get, turn=turn)
    with pytest.raises(Http404):
        await in_database(apps.find_call_with_app, get_owner(turn), call.pk)
    how: dict[str, Any] = {"by": get_owner(turn), "binding": call.review.binding}
    await in_database(partial(reviews.give_result, call, shown_at=None, **how))
    await wait_for_rest(runtime, turn)
    assert await in_database(apps.find_call_with_app, get_owner(turn), call.pk) == call


async def test_a_call_that_an_app_asked_for_shows_no_app_of_its_own(
    runtime: EngineRuntime, gallery: Service, turn: Turn
) -> None:
    shown = await shown_in(runtime, turn)
    call = await over(runtime, await asked(turn, shown, "show_plain", words="again"))
    assert call.state == ToolCall.State.SUCCEEDED
    with pytest.raises(Http404):
        await in_database(apps.find_call_with_app, get_owner(turn), call.pk)


async def test_a_high_risk_call_of_an_app_waits_for_the_person(
    runtime: EngineRuntime, gallery: Service, turn: Turn, effects: Effects
) -> None:
    shown = await shown_in(runtime, turn)
    call = await over(runtime, await asked(turn, shown, "delete_counter", name="two"))
    assert (call.state, call.turn.state) == (ToolCall.State.AWAITING_APPROVAL, Turn.State.WAITING)
    assert effects.lines == []
    approval = await in_database(Approval.objects.get, tool_call=call)
    await in_database(
        decisions.grant, call, by=get_owner(turn), binding=approval.binding, shown_at=None
    )
    call = await over(runtime, call)
    assert call.state == ToolCall.State.SUCCEEDED
    assert effects.lines == ["delete_counter two"]


async def test_a_denied_call_of_an_app_is_a_failure_in_words_to_it(
    runtime: EngineRuntime, gallery: Service, turn: Turn, effects: Effects
) -> None:
    shown = await shown_in(runtime, turn)
    call = await over(runtime, await asked(turn, shown, "delete_counter", name="two"))
    approval = await in_database(Approval.objects.get, tool_call=call)
    await in_database(decisions.deny, call, by=get_owner(turn), binding=approval.binding)
    call = await over(runtime, call)
    assert apps.build_app_result(call) == {
        "content": [{"type": "text", "text": "This was not run: denied."}],
        "isError": True,
    }
    assert (call.turn.state, effects.lines) == (Turn.State.DONE, [])


@pytest.mark.parametrize("name", ["only_model", "read_thing", "delete_note", "", "gallery_x"])
async def test_an_app_gets_only_its_services_tools_that_are_for_apps(
    runtime: EngineRuntime, notebook: Service, gallery: Service, turn: Turn, name: str
) -> None:
    shown = await shown_in(runtime, turn)
    with pytest.raises(Refused) as caught:
        await asked(turn, shown, name)
    assert caught.value.status == 403
    assert await in_database(Turn.objects.filter(app_of=shown).count) == 0


async def test_an_app_gets_no_tool_that_an_admin_switched_off(
    runtime: EngineRuntime, gallery: Service, turn: Turn
) -> None:
    shown = await shown_in(runtime, turn)
    off = ToolSetting.objects.filter(service=gallery, name="read_counter")
    await in_database(off.update, is_enabled=False)
    with pytest.raises(Refused, match="no tool with this name"):
        await asked(turn, shown, "read_counter", name="one")


async def test_arguments_that_do_not_fit_are_told_and_sent_nowhere(
    runtime: EngineRuntime, gallery: Service, turn: Turn, effects: Effects
) -> None:
    shown = await shown_in(runtime, turn)
    call = await over(runtime, await asked(turn, shown, "read_counter", name=7))
    assert apps.build_app_result(call)["isError"] is True
    assert "name must be text" in apps.build_app_result(call)["content"][0]["text"]
    assert effects.lines == []


async def test_an_app_ends_no_question_that_is_open(
    runtime: EngineRuntime, gallery: Service, turn: Turn
) -> None:
    shown = await shown_in(runtime, turn)
    waiting = await over(runtime, await asked(turn, shown, "delete_counter", name="two"))
    with pytest.raises(Refused) as caught:
        await asked(turn, shown, "read_counter", name="one")
    assert caught.value.status == 409
    assert (await over(runtime, waiting)).state == ToolCall.State.AWAITING_APPROVAL


async def test_an_app_may_not_ask_without_end(
    runtime: EngineRuntime, gallery: Service, turn: Turn
) -> None:
    shown = await shown_in(runtime, turn)
    for _ in range(apps.MAX_CALLS_A_MINUTE):
        made = await asked(turn, shown, "read_counter", name="one")
        await in_database(Turn.objects.filter(pk=made.turn_id).update, state=Turn.State.DONE)
    with pytest.raises(Refused) as caught:
        await asked(turn, shown, "read_counter", name="one")
    assert caught.value.status == 429


async def test_the_model_is_told_later_what_an_app_did(
    runtime: EngineRuntime, gallery: Service, turn: Turn, owner: Member
) -> None:
    shown = await shown_in(runtime, turn)
    made = await over(runtime, await asked(turn, shown, "read_counter", name="one"))
    scripted.scenes.append(text("I see."))
    after = await in_database(
        intake.receive, owner, turn.conversation, text="And now?", model=scripted.MODEL
    )
    await wait_for_rest(runtime, after)
    told = await in_database(build_history, after)
    words = [getattr(item, "text", "") for item in told]
    assert "The app of gallery_show_plain asks for gallery_read_counter." in words
    assert "one is 1" in words
    view = await in_database(load_conversation_view, turn.conversation)
    assert [message.is_of_program for message in view.messages].count(True) == 1
    assert next(m for m in view.messages if m.is_of_program).id == made.turn.question_id


async def test_the_model_is_not_offered_what_is_only_for_apps(
    gallery: Service, owner: Member
) -> None:
    offered = set(await build_catalogue(owner, ["gallery"]))
    for_apps = set(await build_catalogue(owner, ["gallery"], audience="app"))
    assert "gallery_read_counter" in for_apps - offered
    assert "gallery_only_model" in offered - for_apps
    assert "gallery_delete_counter" in offered & for_apps


async def test_an_app_is_read_once_and_stays_as_it_was_shown(
    runtime: EngineRuntime, gallery: Service, turn: Turn, served: Served
) -> None:
    shown = await shown_in(runtime, turn)
    first = await in_database(apps.read_app, get_owner(turn), shown)
    read = Exchange.objects.filter(operation="read_resource").values_list("round_id", flat=True)
    assert set(await in_database(list, read)) == {str(shown.pk)}
    served.arrivals.clear()
    again = await in_database(apps.read_app, get_owner(turn), shown)
    assert first.contents.html == again.contents.html == "<p>One"
    assert served.arrivals.methods == []
    assert await in_database(AppContents.objects.count) == 1


async def test_an_app_that_cannot_be_read_leaves_nothing_behind(
    runtime: EngineRuntime, gallery: Service, turn: Turn
) -> None:
    shown = await shown_in(runtime, turn)
    assert shown.definition is not None
    shown.definition.meta = {"ui": {"resourceUri": "ui://gallery/gone"}}
    with pytest.raises(OperationError):
        await in_database(apps.read_app, get_owner(turn), shown)
    assert await in_database(App.objects.count) == 0


@pytest.mark.parametrize("loss", ["apps", "service", "visibility"])
async def test_no_app_is_shown_of_a_service_that_may_not_be_used_any_more(
    runtime: EngineRuntime, gallery: Service, turn: Turn, loss: str
) -> None:
    shown = await shown_in(runtime, turn)
    fields: dict[str, dict[str, Any]] = {
        "apps": {"allows_apps": False},
        "service": {"is_enabled": False},
        "visibility": {"visibility": Service.Visibility.PRIVATE},
    }
    await in_database(Service.objects.filter(pk=gallery.pk).update, **fields[loss])
    with pytest.raises(Http404):
        await in_database(apps.find_call_with_app, get_owner(turn), shown.pk)


async def test_nobody_else_reaches_the_app_of_a_call(
    runtime: EngineRuntime, gallery: Service, turn: Turn
) -> None:
    shown = await shown_in(runtime, turn)
    stranger = await in_database(Member.objects.create_user, "stranger")
    with pytest.raises(Http404):
        await in_database(apps.find_call_with_app, stranger, shown.pk)
