"""The page *Add a provider*: nothing is saved before a check, the key is never shown, and nobody
may use the models until an admin chooses who."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.test import Client

from chatapp.models import ChatModel, LogEntry, Member, ModelProvider, ProviderDraft
from chatapp.providers.access import provider_drafts
from mcpconfig.models.draft import MOST_OF_A_PERSON
from tests.chatapp.providers.accounts import forget_environment
from tests.conftest import signed_in
from tests.dom_tree import parse
from tests.flows.model_server import answering
from tests.wire.script import Answer
from tests.wire.server import WireServer

# The end of a streamed answer is stored from another thread.
pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.filterwarnings("ignore")]
ADD = "/admin/chatapp/modelprovider/connect/"
SECRET = "sk-typed-once"
LISTED = {
    "data": [
        {
            "id": "maker/priced",
            "context_length": 200_000,
            "supported_parameters": ["tools"],
            "pricing": {
                "prompt": "0.000003",
                "completion": "0.000015",
                "input_cache_read": "0.0000003",
            },
        },
        {"id": "maker/free-of-facts"},
    ]
}
LISTING = Answer(document=json.dumps(LISTED), content_type="application/json")


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch, settings: Any) -> None:
    forget_environment(monkeypatch)
    settings.DEMO, settings.DEFAULT_MODEL = True, ""


@pytest.fixture
def server() -> Iterator[WireServer]:
    with answering(WireServer()) as served:
        yield served


def form(server: WireServer, **changed: Any) -> dict[str, Any]:
    return {
        "label": "Our server",
        "kind": "openai-chat",
        "base_url": server.url,
        "key_place": "stored",
        "key": SECRET,
        "act": "check",
    } | changed


def check(client: Client, server: WireServer, **changed: Any) -> str:
    """Check the account, and return the address of the draft."""
    server.play(LISTING)
    answer: Any = client.post(ADD, form(server, **changed))
    assert answer.status_code == 302, text_of(answer)
    return str(answer.headers["Location"])


def act(client: Client, draft: str, server: WireServer, act: str, **more: Any) -> Any:
    chosen = {"models_shown": "1"} | more
    return client.post(draft, form(server, key="", act=act) | chosen)


def text_of(answer: Any) -> str:
    return " ".join(parse(answer.content.decode()).text.split())


def read(answer: Any) -> str:
    return b"".join(answer).decode()


def test_a_checked_provider_is_added_with_its_models_for_one_group(
    admin_client: Client, server: WireServer
) -> None:
    group = Group.objects.create(name="Engineering")
    draft = check(admin_client, server)
    assert not ModelProvider.objects.exists()
    shown = text_of(admin_client.get(draft))
    assert "2 models listed" in shown
    assert "$3.00 in, $15.00 out" in shown and "Published by the provider" in shown
    assert "No price published" in shown
    answer = act(
        admin_client,
        draft,
        server,
        "save",
        model=["maker/priced", "maker/free-of-facts"],
        access="groups",
        groups=[str(group.pk)],
        currency="eur",
        **{"input_price:maker/free-of-facts": "1.5", "output_price:maker/free-of-facts": "6"},
    )
    assert answer.status_code == 302, text_of(answer)
    provider = ModelProvider.objects.get()
    assert (provider.slug, provider.stored_key()) == ("ourserver", SECRET)
    priced = provider.chat_models.get(name="maker/priced")
    assert (str(priced.input_price), str(priced.cached_price)) == ("3.000000", "0.300000")
    assert (priced.currency, priced.takes_tools, priced.context_tokens) == ("USD", True, 200_000)
    typed = provider.chat_models.get(name="maker/free-of-facts")
    assert (str(typed.output_price), typed.currency) == ("6.000000", "EUR")
    assert {model.audience for model in provider.chat_models.all()} == {"groups"}
    assert list(priced.groups.all()) == [group]
    assert not ProviderDraft.objects.exists()
    assert LogEntry.objects.filter(kind=LogEntry.Kind.MODELS, data__contains="ourserver").exists()


def test_nobody_may_use_the_models_until_an_admin_chooses(
    admin_client: Client, owner: Member, server: WireServer
) -> None:
    draft = check(admin_client, server)
    act(admin_client, draft, server, "save", model=["maker/priced"])
    assert ChatModel.objects.get().is_enabled is False
    assert not ChatModel.objects.for_member(owner).exists()


def test_the_key_goes_in_and_never_out(admin_client: Client, server: WireServer) -> None:
    draft = check(admin_client, server)
    page = admin_client.get(draft).content.decode()
    assert SECRET not in page
    assert "Entered. Leave it empty to keep it." in page
    row = ProviderDraft.objects.get()
    assert SECRET.encode() not in bytes(row.secrets)
    assert SECRET not in json.dumps(row.typed)
    assert server.listed[-1].headers["authorization"] == f"Bearer {SECRET}"


@pytest.mark.parametrize("moved", [{"base_url": "http://127.0.0.1:1/v1"}, {"kind": "anthropic"}])
def test_a_key_is_not_sent_to_another_address_or_kind(
    admin_client: Client, server: WireServer, moved: dict[str, str]
) -> None:
    draft = check(admin_client, server)
    answer = admin_client.post(draft, form(server, key="", **moved))
    assert answer.status_code == 422
    assert "Enter the key." in text_of(answer)
    assert provider_drafts.open_secrets(ProviderDraft.objects.get()) == {}


@pytest.mark.parametrize(
    ("answer", "failed"),
    [
        (Answer(status=401, error={"code": "invalid_api_key", "message": "No such key"}), "key"),
        (Answer(status=404, error={"code": "", "message": "Nothing here"}), "models"),
    ],
)
def test_a_failed_step_says_why_and_how_to_fix_it(
    admin_client: Client, server: WireServer, answer: Answer, failed: str
) -> None:
    server.play(answer)
    draft = admin_client.post(ADD, form(server)).headers["Location"]
    steps = {
        item.all("b")[0].text: item
        for item in parse(admin_client.get(draft).content.decode()).all("li")
        if "data-state" in item
    }
    item = steps[{"key": "Key", "models": "Models"}[failed]]
    assert item["data-state"] == "failed"
    assert "To fix it:" in item.text
    assert steps["Address"]["data-state"] == "passed"


def test_a_provider_that_fails_its_check_is_saved_disabled_only(
    admin_client: Client, server: WireServer
) -> None:
    away = {"base_url": "http://127.0.0.1:1/v1"}
    draft = admin_client.post(ADD, form(server, **away)).headers["Location"]
    assert "It cannot be used yet" in text_of(admin_client.get(draft))
    refused = act(admin_client, draft, server, "save", **away)
    assert refused.status_code == 422
    assert not ModelProvider.objects.exists()
    act(admin_client, draft, server, "save_off", **away)
    assert ModelProvider.objects.get().is_enabled is False


def test_a_changed_account_is_checked_again(admin_client: Client, server: WireServer) -> None:
    draft = check(admin_client, server)
    answer = act(admin_client, draft, server, "save", key_place="none")
    assert answer.status_code == 422
    assert "Check this account" in text_of(answer)
    assert not ModelProvider.objects.exists()


@pytest.mark.parametrize(
    ("posted", "said"),
    [
        ({"access": "groups"}, "Choose a group."),
        ({"access": "aliens"}, "Choose who may use the models."),
        ({"currency": "euros"}, "three-letter currency code"),
        ({"input_price:maker/free-of-facts": "3"}, "Enter both prices"),
        ({"input_price:maker/free-of-facts": "dear"}, "Price of maker/free-of-facts"),
        ({"more_models": "x" * 200}, "is not the name of a model"),
    ],
)
def test_bad_input_gets_a_sentence_and_loses_nothing(
    admin_client: Client, server: WireServer, posted: dict[str, str], said: str
) -> None:
    draft = check(admin_client, server)
    answer = act(admin_client, draft, server, "save", model=["maker/free-of-facts"], **posted)
    assert answer.status_code == 422
    assert said in text_of(answer)
    assert not ModelProvider.objects.exists()
    boxes = parse(answer.content.decode()).all("input")
    ticked = {box["value"] for box in boxes if box.attributes.get("name") == "model"}
    assert "maker/free-of-facts" in ticked
    assert "Entered. Leave it empty to keep it." in answer.content.decode()


def test_models_that_are_not_listed_are_added_by_name(
    admin_client: Client, server: WireServer
) -> None:
    draft = check(admin_client, server)
    act(admin_client, draft, server, "save", more_models="deployment-1\n\n deployment-2 ")
    names = set(ChatModel.objects.values_list("name", flat=True))
    assert names == {"deployment-1", "deployment-2"}


def test_a_short_answer_streams_and_is_kept_with_the_draft(
    admin_client: Client, server: WireServer
) -> None:
    draft = check(admin_client, server)
    server.play(Answer(text="Hello <b>there</b>."))
    answer = act(admin_client, draft, server, "answer", sample_model="maker/priced")
    assert answer.headers["Content-Encoding"] == "identity"
    page = read(answer)
    assert "Hello &lt;b&gt;there&lt;/b&gt;." in page
    assert SECRET not in page
    assert server.requests[-1].body["model"] == "maker/priced"
    assert [tool["function"]["name"] for tool in server.requests[-1].body["tools"]]
    shown = text_of(admin_client.get(draft))
    assert "Hello <b>there</b>." in shown
    assert "Time to the first text" in shown and "accepted" in shown


def test_an_answer_that_fails_says_why(admin_client: Client, server: WireServer) -> None:
    draft = check(admin_client, server)
    server.play(Answer(status=401, error={"code": "invalid_api_key", "message": "No such key"}))
    page = read(act(admin_client, draft, server, "answer", sample_model="maker/priced"))
    assert "No such key" in page
    assert text_of(admin_client.get(draft))


@pytest.mark.parametrize("rights", [["models"], ["credentials"], ["services", "people"]])
def test_a_provider_is_added_with_both_rights_only(server: WireServer, rights: list[str]) -> None:
    clerk = Member.objects.create_user(
        "clerk", password="a-long-password", is_staff=True, rights=rights
    )
    client = signed_in(clerk)
    assert client.get(ADD).status_code == 403
    assert client.post(ADD, form(server)).status_code == 403
    assert not server.listed


def test_another_admin_does_not_find_the_draft(admin_client: Client, server: WireServer) -> None:
    draft = check(admin_client, server)
    other = Member.objects.create_superuser("other", password="a-long-password")
    client = signed_in(other)
    assert client.get(draft).status_code == 404
    assert act(client, draft, server, "save").status_code == 404


def test_a_draft_is_added_once_and_deleted_on_request(
    admin_client: Client, server: WireServer
) -> None:
    draft = check(admin_client, server)
    act(admin_client, draft, server, "save", model=["maker/priced"])
    assert act(admin_client, draft, server, "save").status_code == 404
    assert ModelProvider.objects.count() == 1
    second = check(admin_client, server, label="Second")
    act(admin_client, second, server, "discard")
    assert not ProviderDraft.objects.exists()


def test_drafts_are_bounded(admin_client: Client, server: WireServer) -> None:
    for _ in range(MOST_OF_A_PERSON + 3):
        draft = ProviderDraft(person=Member.objects.get(username="admin"), typed={})
        draft.store()
    assert ProviderDraft.objects.count() == MOST_OF_A_PERSON


def test_an_answer_of_a_draft_is_in_the_log(
    admin_client: Client, admin: Member, server: WireServer
) -> None:
    draft = check(admin_client, server)
    server.play(Answer(text="Hello."))
    read(act(admin_client, draft, server, "answer", sample_model="maker/priced"))
    entry = LogEntry.objects.get(kind=LogEntry.Kind.MODEL_TESTED)
    assert (entry.actor_id, "ourserver:maker/priced" in entry.data) == (admin.pk, True)


def test_an_answer_does_not_bring_the_check_of_another_account_back(
    admin_client: Client, server: WireServer
) -> None:
    draft = check(admin_client, server)
    server.play(Answer(text="Hello."))
    answer = act(admin_client, draft, server, "answer", sample_model="maker/priced")
    # Another window changes the account before the answer is complete.
    act(admin_client, draft, server, "save", base_url="http://127.0.0.1:1/v1", key="sk-other")
    read(answer)
    assert ProviderDraft.objects.get().report is None


@pytest.mark.parametrize("price", ["9e999999", "1e99999999999999999999", "NaN", "-1", "x", "1"])
def test_a_price_that_no_column_can_store_is_left_out(
    admin_client: Client, server: WireServer, price: str
) -> None:
    listed = {"data": [{"id": "odd", "pricing": {"prompt": price, "completion": "0.1"}}]}
    server.play(Answer(document=json.dumps(listed), content_type="application/json"))
    draft = admin_client.post(ADD, form(server)).headers["Location"]
    assert "No price published" in text_of(admin_client.get(draft))


# --- a stored provider -------------------------------------------------------------------------
def test_a_stored_provider_answers_at_any_time_and_the_log_says_so(
    admin_client: Client, admin: Member, server: WireServer
) -> None:
    provider = ModelProvider.objects.create(
        slug="team", kind="openai-chat", label="Team", base_url=server.url, key_place="none"
    )
    server.play(Answer(text="It works."))
    address = f"/admin/chatapp/modelprovider/{provider.pk}/answer/"
    assert "It works." in read(admin_client.post(address, {"sample_model": "scripted"}))
    entry = LogEntry.objects.get(kind=LogEntry.Kind.MODEL_TESTED)
    assert (entry.actor_id, "team:scripted" in entry.data) == (admin.pk, True)
    assert admin_client.post(address, {"sample_model": ""}).status_code == 302
    assert len(server.requests) == 1
