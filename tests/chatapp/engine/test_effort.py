"""How much a model reasons: chosen for a chat, sent with each call of it to each provider."""

from typing import Any

import pytest
from django.test import Client

from chatapp.conversations import intake
from chatapp.engine.runtime import EngineRuntime
from chatapp.models import ChatModel, Conversation, Member, ModelProvider, Turn
from chatapp.people.refused import Refused
from chatapp.providers.request import EFFORTS
from chatapp.server.database import in_database
from tests import scripted
from tests.commands import Ran
from tests.conftest import signed_in
from tests.dom_tree import parse
from tests.turns.acts import wait_for_rest

pytestmark = pytest.mark.django_db(transaction=True)


def send(owner: Member, conversation: Conversation | None = None, effort: str = "") -> Turn:
    return intake.receive(owner, conversation, text="Think.", model=scripted.MODEL, effort=effort)


def a_row(**facts: Any) -> None:
    provider = ModelProvider.objects.create(
        slug="scripted", kind="scripted", label="Scripted", key_place="none"
    )
    ChatModel.objects.create(provider=provider, name="model", **facts)


def efforts() -> list[str]:
    return [request.parameters.effort for request in scripted.requests]


async def test_the_effort_of_a_chat_goes_with_each_call_until_it_is_changed(
    runtime: EngineRuntime, owner: Member
) -> None:
    turn = await in_database(send, owner, None, "high")
    await wait_for_rest(runtime, turn)
    for effort in "", "low", "default":
        turn = await in_database(send, owner, turn.conversation, effort)
        await wait_for_rest(runtime, turn)
    assert efforts() == ["high", "high", "low", ""]


@pytest.mark.parametrize(
    ("facts", "chosen", "expected"),
    [
        ({"effort": "low"}, "medium", "low"),
        ({"effort": "low"}, "off", "off"),
        ({"effort": "high", "reasons": True}, "medium", "medium"),
        ({"effort": "medium"}, "high", "medium"),
        ({"effort": "off"}, "low", "off"),
        ({"effort": ""}, "high", "high"),
        ({"effort": "low", "reasons": False}, "off", "low"),
    ],
)
async def test_a_chat_reasons_as_chosen_but_no_more_than_an_admin_allows(
    runtime: EngineRuntime, owner: Member, facts: Any, chosen: str, expected: str
) -> None:
    await in_database(lambda: a_row(asked_tokens=900, **facts))
    turn = await in_database(send, owner, None, chosen)
    await wait_for_rest(runtime, turn)
    assert efforts() == [expected]
    assert scripted.requests[0].parameters.output_tokens == 900


def test_an_effort_that_does_not_exist_is_refused_with_those_that_do(owner: Member) -> None:
    with pytest.raises(
        Refused, match="Unknown effort “huge”. Choose one of: default, off, low, medium, high"
    ):
        send(owner, None, "huge")
    assert not Conversation.objects.exists()


def test_the_page_offers_the_efforts_and_keeps_the_one_of_the_chat(
    owner: Member, settings: Any
) -> None:
    client = signed_in(owner)
    assert chosen(client, "/") == "default"
    given = {"text": "Hello", "model": scripted.MODEL, "effort": "medium"}
    answer = client.post("/c/new/messages", given)
    assert chosen(client, answer["Location"]) == "medium"
    client.post(f"{answer['Location']}messages", {**given, "effort": ""})
    assert chosen(client, answer["Location"]) == "medium"
    refused = client.post("/c/new/messages", {**given, "effort": "huge"})
    assert (refused.status_code, "Unknown effort “huge”" in refused.content.decode()) == (422, True)


def chosen(client: Client, path: str) -> str:
    page = parse(client.get(path).content.decode())
    (select,) = [each for each in page.all("select") if each.attributes.get("name") == "effort"]
    values = [option["value"] for option in select.all("option")]
    assert values == [effort or "default" for effort in EFFORTS]
    return next(o["value"] for o in select.all("option") if "selected" in o.attributes)


def test_models_that_do_not_reason_have_no_effort_to_choose(
    owner: Member, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.DEMO = True
    monkeypatch.delenv("OPENAI_API_KEY")
    a_row(reasons=False)
    assert 'name="effort"' not in signed_in(owner).get("/").content.decode()


@pytest.mark.parametrize("effort", ["huge", "Low"])
def test_the_command_says_which_efforts_there_are(owner: Member, effort: str) -> None:
    ran = Ran("chat", "Hello", "--model", scripted.MODEL, "--effort", effort)
    assert ran.code
    assert f"Unknown effort “{effort}”" in ran.err
