"""Calls that an app asks for: decided like the model's, told to the person, and bounded."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.http import Http404

from chatapp.models import App, AppContents, Approval, Member, Permit, ToolCall, Turn
from chatapp.storage import in_database
from chatapp.tools.catalogue import catalogue_for
from chatapp.turns import answers, apps, intake, reviews
from chatapp.turns.history import history_of
from chatapp.turns.reading import read_conversation
from chatapp.turns.refusals import Refused
from chatapp.turns.workplace import Workplace
from mcpconfig.errors import OperationError
from mcpconfig.ledger import confirm, fetch_tools
from mcpconfig.models import Service, ToolSetting
from tests import scripted
from tests.peers.effects import Effects
from tests.peers.gallery import application
from tests.peers.serving import Served
from tests.scripted import calls, text

from .acts import call_owner, notices, only_call, rest

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]


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
        name="gallery", url=served.url, allows_private_addresses=True, allows_apps=True
    )
    confirm(async_to_sync(fetch_tools)(service))
    return service


async def shown_in(workplace: Workplace, turn: Turn) -> ToolCall:
    """The call that brought an app, in a turn that is over."""
    scripted.scenes += [calls(("gallery_show_plain", '{"words": "hi"}')), text("There it is.")]
    done = await rest(workplace, turn)
    assert done.state == Turn.State.DONE
    call = await only_call(turn)
    return await in_database(apps.call_with_app, call_owner(turn), call.pk)


async def asked(turn: Turn, shown: ToolCall, tool: str, /, **values: object) -> ToolCall:
    return await in_database(apps.receive_from_app, call_owner(turn), shown, tool, values)


async def over(workplace: Workplace, call: ToolCall) -> ToolCall:
    await rest(workplace, call.turn)
    rows = ToolCall.objects.select_related("turn", "review")
    return await in_database(rows.get, pk=call.pk)


async def test_a_low_risk_call_of_an_app_runs_under_a_permit_and_asks_no_model(
    workplace: Workplace, gallery: Service, turn: Turn, effects: Effects
) -> None:
    shown = await shown_in(workplace, turn)
    requests = len(scripted.requests)
    call = await over(workplace, await asked(turn, shown, "read_counter", name="one"))
    assert (call.state, call.turn.state) == (ToolCall.State.SUCCEEDED, Turn.State.DONE)
    assert apps.result_of(call)["content"] == [{"type": "text", "text": "one is 1"}]
    assert effects.lines == ["read_counter one"]
    assert await in_database(Permit.objects.filter(tool_call=call).count) == 1
    assert len(scripted.requests) == requests
    assert await in_database(notices, call.turn) == []


def reviewed(name: str) -> None:
    ToolSetting.objects.filter(name=name).update(wants_review=True)


@pytest.mark.parametrize("verdict", ["give", "hold back"])
async def test_an_app_is_told_no_result_of_its_calls_that_nobody_gave(
    workplace: Workplace, gallery: Service, turn: Turn, verdict: str
) -> None:
    shown = await shown_in(workplace, turn)
    await in_database(reviewed, "read_counter")
    call = await over(workplace, await asked(turn, shown, "read_counter", name="one"))
    assert (call.state, call.turn.state) == (ToolCall.State.SUCCEEDED, Turn.State.WAITING)
    assert "one is 1" not in str(await in_database(apps.result_of, call))
    how: dict[str, Any] = {"by": call_owner(turn), "binding": call.review.binding}
    if verdict == "give":
        await in_database(partial(reviews.give, call, shown_at=None, **how))
    else:
        await in_database(partial(reviews.hold_back, call, reason="Not for apps.", **how))
    told = await in_database(apps.result_of, await over(workplace, call))
    assert ("one is 1" in str(told)) is (verdict == "give")
    assert ("Not for apps." in str(told)) is (verdict == "hold back")


async def test_no_app_is_shown_with_a_result_that_nobody_gave(
    workplace: Workplace, gallery: Service, turn: Turn
) -> None:
    await in_database(reviewed, "show_plain")
    scripted.scenes += [calls(("gallery_show_plain", '{"words": "hi"}')), text("There it is.")]
    await rest(workplace, turn)
    call = await in_database(ToolCall.objects.select_related("review").get, turn=turn)
    with pytest.raises(Http404):
        await in_database(apps.call_with_app, call_owner(turn), call.pk)
    how: dict[str, Any] = {"by": call_owner(turn), "binding": call.review.binding}
    await in_database(partial(reviews.give, call, shown_at=None, **how))
    await rest(workplace, turn)
    assert await in_database(apps.call_with_app, call_owner(turn), call.pk) == call


async def test_a_call_that_an_app_asked_for_shows_no_app_of_its_own(
    workplace: Workplace, gallery: Service, turn: Turn
) -> None:
    shown = await shown_in(workplace, turn)
    call = await over(workplace, await asked(turn, shown, "show_plain", words="again"))
    assert call.state == ToolCall.State.SUCCEEDED
    with pytest.raises(Http404):
        await in_database(apps.call_with_app, call_owner(turn), call.pk)


async def test_a_high_risk_call_of_an_app_waits_for_the_person(
    workplace: Workplace, gallery: Service, turn: Turn, effects: Effects
) -> None:
    shown = await shown_in(workplace, turn)
    call = await over(workplace, await asked(turn, shown, "delete_counter", name="two"))
    assert (call.state, call.turn.state) == (ToolCall.State.AWAITING_APPROVAL, Turn.State.WAITING)
    assert effects.lines == []
    approval = await in_database(Approval.objects.get, tool_call=call)
    await in_database(
        answers.grant, call, by=call_owner(turn), binding=approval.binding, shown_at=None
    )
    call = await over(workplace, call)
    assert call.state == ToolCall.State.SUCCEEDED
    assert effects.lines == ["delete_counter two"]


async def test_a_denied_call_of_an_app_is_a_failure_in_words_to_it(
    workplace: Workplace, gallery: Service, turn: Turn, effects: Effects
) -> None:
    shown = await shown_in(workplace, turn)
    call = await over(workplace, await asked(turn, shown, "delete_counter", name="two"))
    approval = await in_database(Approval.objects.get, tool_call=call)
    await in_database(answers.deny, call, by=call_owner(turn), binding=approval.binding)
    call = await over(workplace, call)
    assert apps.result_of(call) == {
        "content": [{"type": "text", "text": "This was not run: denied."}],
        "isError": True,
    }
    assert (call.turn.state, effects.lines) == (Turn.State.DONE, [])


@pytest.mark.parametrize("name", ["only_model", "read_thing", "delete_note", "", "gallery_x"])
async def test_an_app_gets_only_its_services_tools_that_are_for_apps(
    workplace: Workplace, notebook: Service, gallery: Service, turn: Turn, name: str
) -> None:
    shown = await shown_in(workplace, turn)
    with pytest.raises(Refused) as caught:
        await asked(turn, shown, name)
    assert caught.value.status == 403
    assert await in_database(Turn.objects.filter(app_of=shown).count) == 0


async def test_an_app_gets_no_tool_that_an_admin_switched_off(
    workplace: Workplace, gallery: Service, turn: Turn
) -> None:
    shown = await shown_in(workplace, turn)
    off = ToolSetting.objects.filter(service=gallery, name="read_counter")
    await in_database(off.update, is_enabled=False)
    with pytest.raises(Refused, match="no tool of this name"):
        await asked(turn, shown, "read_counter", name="one")


async def test_arguments_that_do_not_fit_are_told_and_sent_nowhere(
    workplace: Workplace, gallery: Service, turn: Turn, effects: Effects
) -> None:
    shown = await shown_in(workplace, turn)
    call = await over(workplace, await asked(turn, shown, "read_counter", name=7))
    assert apps.result_of(call)["isError"] is True
    assert "name must be a text" in apps.result_of(call)["content"][0]["text"]
    assert effects.lines == []


async def test_an_app_ends_no_question_that_is_open(
    workplace: Workplace, gallery: Service, turn: Turn
) -> None:
    shown = await shown_in(workplace, turn)
    waiting = await over(workplace, await asked(turn, shown, "delete_counter", name="two"))
    with pytest.raises(Refused) as caught:
        await asked(turn, shown, "read_counter", name="one")
    assert caught.value.status == 409
    assert (await over(workplace, waiting)).state == ToolCall.State.AWAITING_APPROVAL


async def test_an_app_may_not_ask_without_end(
    workplace: Workplace, gallery: Service, turn: Turn
) -> None:
    shown = await shown_in(workplace, turn)
    for _ in range(apps.MOST_CALLS_A_MINUTE):
        made = await asked(turn, shown, "read_counter", name="one")
        await in_database(Turn.objects.filter(pk=made.turn_id).update, state=Turn.State.DONE)
    with pytest.raises(Refused) as caught:
        await asked(turn, shown, "read_counter", name="one")
    assert caught.value.status == 429


async def test_the_model_is_told_later_what_an_app_did(
    workplace: Workplace, gallery: Service, turn: Turn, owner: Member
) -> None:
    shown = await shown_in(workplace, turn)
    made = await over(workplace, await asked(turn, shown, "read_counter", name="one"))
    scripted.scenes.append(text("I see."))
    after = await in_database(
        intake.receive, owner, turn.conversation, text="And now?", model=scripted.MODEL
    )
    await rest(workplace, after)
    told = await in_database(history_of, after)
    words = [getattr(item, "text", "") for item in told]
    assert "The app of gallery_show_plain asks for gallery_read_counter." in words
    assert "one is 1" in words
    view = await in_database(read_conversation, turn.conversation)
    assert [message.is_of_program for message in view.messages].count(True) == 1
    assert next(m for m in view.messages if m.is_of_program).id == made.turn.question_id


async def test_the_model_is_not_offered_what_is_only_for_apps(
    gallery: Service, owner: Member
) -> None:
    offered = set(await catalogue_for(owner, ["gallery"]))
    for_apps = set(await catalogue_for(owner, ["gallery"], audience="app"))
    assert "gallery_read_counter" in for_apps - offered
    assert "gallery_only_model" in offered - for_apps
    assert "gallery_delete_counter" in offered & for_apps


async def test_an_app_is_read_once_and_stays_as_it_was_shown(
    workplace: Workplace, gallery: Service, turn: Turn, served: Served
) -> None:
    shown = await shown_in(workplace, turn)
    first = await in_database(apps.read_app, call_owner(turn), shown)
    served.arrivals.clear()
    again = await in_database(apps.read_app, call_owner(turn), shown)
    assert first.contents.html == again.contents.html == "<p>One"
    assert served.arrivals.methods == []
    assert await in_database(AppContents.objects.count) == 1


async def test_an_app_that_cannot_be_read_leaves_nothing_behind(
    workplace: Workplace, gallery: Service, turn: Turn
) -> None:
    shown = await shown_in(workplace, turn)
    assert shown.definition is not None
    shown.definition.meta = {"ui": {"resourceUri": "ui://gallery/gone"}}
    with pytest.raises(OperationError):
        await in_database(apps.read_app, call_owner(turn), shown)
    assert await in_database(App.objects.count) == 0


@pytest.mark.parametrize("loss", ["apps", "service", "visibility"])
async def test_no_app_is_shown_of_a_service_that_may_not_be_used_any_more(
    workplace: Workplace, gallery: Service, turn: Turn, loss: str
) -> None:
    shown = await shown_in(workplace, turn)
    fields: dict[str, dict[str, Any]] = {
        "apps": {"allows_apps": False},
        "service": {"is_enabled": False},
        "visibility": {"visibility": Service.Visibility.PRIVATE},
    }
    await in_database(Service.objects.filter(pk=gallery.pk).update, **fields[loss])
    with pytest.raises(Http404):
        await in_database(apps.call_with_app, call_owner(turn), shown.pk)


async def test_nobody_else_reaches_the_app_of_a_call(
    workplace: Workplace, gallery: Service, turn: Turn
) -> None:
    shown = await shown_in(workplace, turn)
    stranger = await in_database(Member.objects.create_user, "stranger")
    with pytest.raises(Http404):
        await in_database(apps.call_with_app, stranger, shown.pk)
