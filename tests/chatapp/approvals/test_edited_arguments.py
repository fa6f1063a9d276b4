"""What a person changes or types before a call runs."""

import json
from functools import partial

import pytest

from chatapp.engine.runtime import EngineRuntime
from chatapp.models import Approval, HousePolicy, ToolCall, Turn
from chatapp.people.refused import Refused
from chatapp.server.database import in_database
from mcpconfig.models import Service
from tests import scripted
from tests.chatapp.policy.test_consents import APPEND, allow, asked, card_of, confirmed, form_of
from tests.conftest import signed_in
from tests.dom_tree import root_of
from tests.turns.acts import DELETE, get_only_call, read_last_outcome, wait_for_rest

__all__ = ["confirmed"]
pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(300)]


# --- changed values ------------------------------------------------------------------------
async def test_changed_values_run_and_the_model_is_told(
    runtime: EngineRuntime, turn: Turn, confirmed: Service
) -> None:
    call, owner = await asked(runtime, turn, APPEND)
    other = '{"title": "Old ideas", "text": "less"}'
    await in_database(lambda: allow(call, owner, arguments=other))
    await wait_for_rest(runtime, turn)
    call = await get_only_call(turn)
    assert call.state == ToolCall.State.SUCCEEDED
    assert json.loads(call.arguments) == json.loads(other)
    assert json.loads(call.asked_arguments) == json.loads(APPEND[1])
    assert read_last_outcome().startswith("[The person changed the values before it ran, to: ")
    asked_of = scripted.requests[-1].history[-2].parts[-1]  # type: ignore[union-attr]
    assert json.loads(asked_of.arguments) == json.loads(APPEND[1])  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [("{", "not valid JSON"), ('{"title": 5, "text": "x"}', "title"), ("{}", "text")],
)
async def test_values_that_do_not_fit_are_refused_and_nothing_runs(
    runtime: EngineRuntime, turn: Turn, confirmed: Service, arguments: str, says: str
) -> None:
    call, owner = await asked(runtime, turn, APPEND)
    with pytest.raises(Refused, match=says):
        await in_database(lambda: allow(call, owner, arguments=arguments))
    approval = await in_database(Approval.objects.get)
    assert approval.state == Approval.State.OPEN


async def test_the_form_changes_values_and_keeps_what_did_not_fit(
    runtime: EngineRuntime, turn: Turn, confirmed: Service
) -> None:
    call, owner = await asked(runtime, turn, APPEND)

    def change() -> None:
        client = signed_in(owner)
        fields = form_of(card_of(client, call))
        by_value = {value: key for key, value in fields.items()}
        sent = {**fields, "shown_at": "", "decision": "change", by_value["Old ideas"]: ""}
        refused = client.post(f"/approvals/{call.pk}/decide", sent, headers={"HX-Request": "true"})
        assert refused.status_code == 422
        again = form_of(root_of(refused.content.decode()))
        assert again[by_value["more"]] == "more"
        sent[by_value["Old ideas"]] = "Old ideas"
        sent[by_value["more"]] = "less"
        assert client.post(f"/approvals/{call.pk}/decide", sent).status_code == 302

    await in_database(change)
    await wait_for_rest(runtime, turn)
    call = await get_only_call(turn)
    assert json.loads(call.arguments)["text"] == "less"
    assert call.state == ToolCall.State.SUCCEEDED


# --- typed confirmation --------------------------------------------------------------------
async def test_what_must_be_typed_must_be_typed(
    runtime: EngineRuntime, turn: Turn, confirmed: Service
) -> None:
    await in_database(lambda: HousePolicy(types_high=True).save())
    call, owner = await asked(runtime, turn, DELETE)
    assert (await in_database(Approval.objects.get)).wants_typing
    for typed in ("", "delete"):
        with pytest.raises(Refused, match="type the tool’s name: delete_note"):
            await in_database(partial(allow, call, owner, typed=typed))
    await in_database(lambda: allow(call, owner, typed=" delete_note "))
    await wait_for_rest(runtime, turn)
    assert (await get_only_call(turn)).state == ToolCall.State.SUCCEEDED
