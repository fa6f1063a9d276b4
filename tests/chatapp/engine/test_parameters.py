"""Temperature and length of answers: chosen for a chat or an assistant, within what admins set."""

import json
from typing import Any

import pytest
from django.test import Client

from chatapp.conversations import assistants, chat_list, forks, intake, versions
from chatapp.conversations.assistants import AssistantChoice
from chatapp.engine.runtime import EngineRuntime
from chatapp.models import Assistant, ChatModel, Conversation, LogEntry, Member, ModelProvider, Turn
from chatapp.rendering.pages.log import build_line
from chatapp.server.database import in_database
from tests import scripted
from tests.conftest import signed_in
from tests.dom_tree import Element, parse
from tests.turns import rows
from tests.turns.acts import wait_for_rest

pytestmark = pytest.mark.django_db(transaction=True)


def send(owner: Member, chat: Conversation | None = None, **more: Any) -> Turn:
    return intake.receive(owner, chat, text="Think.", model=scripted.MODEL, **more)


def a_row(**facts: Any) -> None:
    provider = ModelProvider.objects.create(
        slug="scripted", kind="scripted", label="Scripted", key_place="none"
    )
    ChatModel.objects.create(provider=provider, name="model", **facts)


def read_sent() -> list[tuple[float | None, int | None]]:
    return [
        (request.parameters.temperature, request.parameters.output_tokens)
        for request in scripted.requests
    ]


def an_assistant(owner: Member, **values: Any) -> Assistant:
    return Assistant.objects.create(owner=owner, name="Steady", **values)


def start(owner: Member, assistant: Assistant) -> Turn:
    choice = AssistantChoice(assistant_id=assistant.pk, version=assistant.version)
    return send(owner, assistant=choice)


# --- what is sent --------------------------------------------------------------------------------
async def test_an_assistant_s_parameters_go_with_each_call_until_the_chat_has_others(
    runtime: EngineRuntime, owner: Member
) -> None:
    saved = await in_database(lambda: an_assistant(owner, temperature=0.25, output_tokens=300))
    turn = await in_database(start, owner, saved)
    await wait_for_rest(runtime, turn)
    turn.conversation = await in_database(Conversation.objects.get, pk=turn.conversation_id)
    again = await in_database(lambda: versions.answer_again(owner, turn.question, scripted.MODEL))
    await wait_for_rest(runtime, again)
    await in_database(chat_list.set_parameters, turn.conversation, 0.0, None)
    await wait_for_rest(runtime, await in_database(send, owner, turn.conversation))
    assert read_sent() == [(0.25, 300), (0.25, 300), (0.0, None)]


@pytest.mark.parametrize(
    ("facts", "chosen", "expected"),
    [
        ({}, (None, None), (None, None)),
        ({"temperature": 0.5, "asked_tokens": 900}, (None, None), (0.5, 900)),
        ({"temperature": 0.5, "asked_tokens": 900}, (1.5, 5_000), (0.5, 900)),
        ({"temperature": 0.5, "asked_tokens": 900}, (0.0, 20), (0.0, 20)),
        ({"output_tokens": 4_000}, (1.5, 5_000), (1.5, 4_000)),
    ],
)
async def test_what_an_admin_set_is_the_highest_that_a_chat_can_have(
    runtime: EngineRuntime, owner: Member, facts: Any, chosen: Any, expected: Any
) -> None:
    await in_database(lambda: a_row(**facts))
    values = {"temperature": chosen[0], "output_tokens": chosen[1]}
    turn = await in_database(lambda: start(owner, an_assistant(owner, **values)))
    await wait_for_rest(runtime, turn)
    assert read_sent() == [expected]


# --- what carries them ---------------------------------------------------------------------------
def test_forks_and_duplicates_carry_them_and_the_start_of_a_chat_is_as_shown(
    owner: Member, stranger: Member
) -> None:
    saved = an_assistant(owner, temperature=0.25, output_tokens=300)
    copy = assistants.duplicate(stranger, saved)
    assert (copy.temperature, copy.output_tokens) == (0.25, 300)
    version = saved.version
    saved.temperature = 0.5
    assert saved.version != version
    turn = rows.turn(owner, "done")
    chat_list.set_parameters(turn.conversation, 0.25, 300)
    fork = forks.fork_chat(turn.answer)
    assert (fork.temperature, fork.output_tokens) == (0.25, 300)


def test_an_export_has_them(owner_client: Client, owner: Member) -> None:
    chat = rows.turn(owner, "done").conversation
    Conversation.objects.filter(pk=chat.pk).update(effort="low")
    chat_list.set_parameters(chat, 0.25, 300)
    answer: Any = owner_client.get(f"/c/{chat.pk}/export?format=json&tools=none")
    exported = json.loads(answer.content)
    assert exported["chat"]["parameters"] == {
        "reasoning": "low",
        "temperature": 0.25,
        "output_tokens": 300,
    }


# --- the pages -----------------------------------------------------------------------------------
def read(client: Client, address: str) -> Element:
    answer = client.get(address)
    assert answer.status_code == 200
    return parse(answer.content.decode())


def test_the_page_of_a_chat_saves_logs_and_removes_them(
    owner_client: Client, owner: Member
) -> None:
    chat = rows.turn(owner, "done").conversation
    address = f"/c/{chat.pk}/instructions"
    for given, stored in (("0.25", "300"), (0.25, 300)), (("", ""), (None, None)):
        values = dict(zip(("temperature", "output_tokens"), given, strict=True))
        assert owner_client.post(address, {"text": "", **values}).status_code == 302
        chat.refresh_from_db()
        assert (chat.temperature, chat.output_tokens) == stored
        page = read(owner_client, address)
        for name, value in values.items():
            assert page.one("input", name=name).attributes.get("value", "") == value
        german = owner_client.get(address, headers={"Accept-Language": "de"}).content.decode()
        assert f'value="{values["temperature"]}" min="0"' in german
    entries = LogEntry.objects.filter(kind=LogEntry.Kind.PARAMETERS).order_by("position")
    assert [json.loads(each.data)["changed"]["temperature"] for each in entries] == [
        {"before": None, "after": 0.25},
        {"before": 0.25, "after": None},
    ]
    line = build_line(entries[0])
    assert line.said == "Changed: longest answer (tokens), temperature."
    assert (line.conversation_id, line.by) == (chat.pk, owner.username)
    # What did not change is not logged again.
    owner_client.post(address, {"text": "Be brief."})
    assert entries.count() == 2


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"temperature": "2.1"}, "Ensure this value is less than or equal to 2"),
        ({"temperature": "-1"}, "Ensure this value is greater than or equal to 0."),
        ({"temperature": "nan"}, "Enter a number."),
        ({"output_tokens": "15"}, "Ensure this value is greater than or equal to 16."),
        ({"output_tokens": "1000001"}, "Ensure this value is less than or equal to 1000000."),
        ({"output_tokens": "2.5"}, "Enter a whole number."),
    ],
)
def test_a_refused_value_stays_in_its_box_with_the_reason(
    owner_client: Client, owner: Member, given: dict[str, str], sentence: str
) -> None:
    chat = rows.turn(owner, "done").conversation
    form = {"name": "Steady", "tools": "all", "who": "owner"}
    for address in f"/c/{chat.pk}/instructions", "/assistants/new/":
        answer = owner_client.post(address, {"text": "Changed", **form, **given})
        assert answer.status_code == 422
        page = parse(answer.content.decode()).one("main")
        ((name, value),) = given.items()
        assert page.one("input", name=name)["value"] == value
        assert sentence in page.one("p", id=f"id_{name}-problem").text
        assert page.one("input", name=name)["aria-describedby"].endswith(f"id_{name}-problem")
    chat.refresh_from_db()
    assert (chat.temperature, chat.instructions) == (None, "")
    assert not Assistant.objects.exists()


def test_an_assistant_is_saved_shown_and_logged_with_them(
    owner_client: Client, owner: Member
) -> None:
    form = {"name": "Steady", "tools": "all", "who": "owner", "temperature": "0.3"}
    owner_client.post("/assistants/new/", {**form, "output_tokens": "1500"})
    saved = Assistant.objects.get()
    assert (saved.temperature, saved.output_tokens) == (0.3, 1_500)
    page = read(owner_client, f"/assistants/{saved.pk}/edit/")
    assert page.one("input", name="temperature")["value"] == "0.3"
    began = read(owner_client, f"/?assistant={saved.pk}").one("div", id="assistant-start").text
    assert "Temperature: 0.3." in began
    assert "Answers have at most 1,500 tokens." in began
    entry = LogEntry.objects.get(kind=LogEntry.Kind.PARAMETERS)
    assert json.loads(entry.data)["of"] == "assistant Steady"


NOT_SENT = "The chosen model sets its own temperature, so this value is not sent."


def test_the_forms_say_that_a_model_takes_no_temperature(
    owner: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-none")
    client = signed_in(owner)
    chat = rows.turn(owner, "done").conversation
    saved = an_assistant(owner)
    for model, effort, is_told in (
        ("openai:gpt-6-sol", "", True),
        ("openai:gpt-6-sol", "off", False),
        ("openai:gpt-4.1", "", False),
    ):
        for row in chat, saved:
            type(row)._default_manager.filter(pk=row.pk).update(model=model, effort=effort)
        for address in f"/c/{chat.pk}/instructions", f"/assistants/{saved.pk}/edit/":
            assert (NOT_SENT in read(client, address).text) is is_told
