"""Model providers in the admin: keys go in and never out, models are fetched, servers found."""

from collections.abc import Iterator
from typing import Any

import pytest
from bs4 import BeautifulSoup
from django.contrib.auth.models import Group
from django.test import Client

from chatapp.models import ChatModel, ModelProvider
from chatapp.providers.access import local_servers
from mcpconfig.services import secret_rotation
from tests.chatapp.providers.accounts import forget_environment
from tests.flows.model_server import answering
from tests.wire.script import Answer
from tests.wire.server import WireServer

pytestmark = pytest.mark.django_db
LIST = "/admin/chatapp/modelprovider/"
SECRET = "sk-never-seen-again"
FORM = {
    "label": "Team",
    "slug": "team",
    "kind": "openai-chat",
    "is_enabled": "on",
    "position": "10",
    "base_url": "https://llm.example/v1",
    "key_place": "stored",
    "key": SECRET,
    "chat_models-TOTAL_FORMS": "0",
    "chat_models-INITIAL_FORMS": "0",
}
STATED = {
    "audience": "everyone",
    "name": "large",
    "position": "1",
    "currency": "USD",
    "takes_tools": "on",
    "takes_pictures": "unknown",
    "takes_documents": "unknown",
    "reasons": "unknown",
}


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch, settings: Any) -> None:
    forget_environment(monkeypatch)
    settings.DEMO, settings.DEFAULT_MODEL = True, ""


@pytest.fixture
def server() -> Iterator[WireServer]:
    with answering(WireServer()) as served:
        yield served


def page(answer: Any) -> BeautifulSoup:
    assert answer.status_code == 200, answer.content[:300]
    return BeautifulSoup(answer.content, "html.parser")


def words(answer: Any) -> str:
    return " ".join(page(answer).get_text(" ").split())


def errors(answer: Any) -> str:
    return " ".join(each.get_text() for each in page(answer).select(".errorlist"))


def add(client: Client, **changed: str) -> Any:
    return client.post(f"{LIST}add/", FORM | changed)


def at(server: WireServer, **more: Any) -> ModelProvider:
    fields = {"slug": "team", "kind": "openai-chat", "label": "Team", "base_url": server.url}
    provider = ModelProvider.objects.create(**fields | more)
    provider.set_key(SECRET)
    return provider


def inside(provider: ModelProvider) -> str:
    return f"{LIST}{provider.pk}/"


# --- who and where -----------------------------------------------------------------------------
@pytest.mark.parametrize("name", ["look/", "add-server/", "1/test/", "1/fetch/", "1/add-models/"])
def test_buttons_are_for_admins_and_post(
    owner_client: Client, admin_client: Client, name: str
) -> None:
    assert owner_client.post(f"{LIST}{name}").status_code in {302, 403}
    assert admin_client.get(f"{LIST}{name}").status_code == 405


def test_a_provider_that_is_not_there_is_not_found(admin_client: Client) -> None:
    assert admin_client.post(f"{LIST}77/test/").status_code == 404


# --- keys --------------------------------------------------------------------------------------
def test_a_key_goes_in_and_never_out(admin_client: Client) -> None:
    assert add(admin_client, headers="X-Team: red-secret").status_code == 302
    provider = ModelProvider.objects.get()
    assert (provider.stored_key(), provider.stored_headers()) == (SECRET, {"X-Team": "red-secret"})
    for address in (LIST, f"{inside(provider)}change/", f"{inside(provider)}history/"):
        html = admin_client.get(address).content.decode()
        assert SECRET not in html
        assert "red-secret" not in html
    assert "stored here, set on" in words(admin_client.get(LIST))


def test_a_key_is_encrypted_and_found_by_the_rotation(admin_client: Client) -> None:
    add(admin_client)
    (stored,) = secret_rotation.iterate_stored_secrets()
    assert SECRET.encode() not in stored.token
    assert stored.place == f"provider {ModelProvider.objects.get().pk}, sealed key"
    assert stored.is_readable


def test_an_empty_key_keeps_the_stored_one(admin_client: Client) -> None:
    add(admin_client)
    provider = ModelProvider.objects.get()
    changed = FORM | {"key": "", "label": "Renamed"}
    assert admin_client.post(f"{inside(provider)}change/", changed).status_code == 302
    provider.refresh_from_db()
    assert (provider.label, provider.stored_key()) == ("Renamed", SECRET)


@pytest.mark.parametrize(
    ("what", "moved"),
    [
        ("address", {"base_url": "https://elsewhere.example/v1"}),
        ("kind", {"kind": "anthropic"}),
    ],
)
def test_another_server_needs_its_own_key(
    admin_client: Client, what: str, moved: dict[str, str]
) -> None:
    add(admin_client, headers="X-Team: red")
    provider = ModelProvider.objects.get()
    answer = admin_client.post(f"{inside(provider)}change/", FORM | moved | {"key": ""})
    assert "is not reused for a new address or kind" in errors(answer)
    changed = FORM | moved | {"key": "sk-other"}
    answer = admin_client.post(f"{inside(provider)}change/", changed, follow=True)
    assert f"The {what} changed." in words(answer)
    provider.refresh_from_db()
    assert (provider.stored_key(), provider.stored_headers()) == ("sk-other", {})


@pytest.mark.parametrize(
    ("place", "kept"), [("none", ["sealed headers"]), ("environment", []), ("stored", None)]
)
def test_a_secret_that_is_not_used_any_more_is_not_kept(
    admin_client: Client, place: str, kept: list[str] | None
) -> None:
    add(admin_client, base_url="", headers="X-Team: red")
    before = [secret.place for secret in secret_rotation.iterate_stored_secrets()]
    provider = ModelProvider.objects.get()
    changed = FORM | {"key_place": place, "key": "", "base_url": ""}
    assert admin_client.post(f"{inside(provider)}change/", changed).status_code == 302
    places = [secret.place for secret in secret_rotation.iterate_stored_secrets()]
    assert places == (before if kept is None else [f"provider {provider.pk}, {n}" for n in kept])


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"slug": "demo"}, "The demo assistant uses this name"),
        ({"slug": "openai"}, "The account from the environment uses this short name"),
        ({"base_url": "https://llm.example/d/?api-version=2024-10-21"}, "Remove it and what"),
        ({"base_url": "http://[x"}, "not an http or https address"),
        ({"key": ""}, "Enter the key"),
        ({"key": "“quoted”"}, "invalid characters"),
        ({"key_place": "none"}, "or choose to store the key"),
        ({"kind": "anthropic", "key_place": "none", "key": ""}, "needs a key"),
        ({"kind": "bedrock"}, "Enter the AWS region"),
        ({"key_place": "environment"}, "The environment sets the key and the address"),
        ({"headers": "no colon"}, "one header per line"),
        ({"headers": "X-Team: “red”"}, "one header per line"),
        (
            {"key_place": "environment", "key": "", "base_url": "", "slug": "google"},
            "another kind of provider",
        ),
    ],
)
def test_what_cannot_work_is_said_beside_its_field(
    admin_client: Client, changed: dict[str, str], sentence: str
) -> None:
    assert sentence in errors(add(admin_client, **changed))
    assert not ModelProvider.objects.exists()


def test_the_environments_account_gets_a_row_of_its_name(admin_client: Client) -> None:
    changed = {"slug": "openai", "kind": "openai", "key_place": "environment"}
    assert add(admin_client, **changed, key="", base_url="").status_code == 302


def test_the_list_shows_the_accounts_of_the_environment(
    admin_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not page(admin_client.get(LIST)).select("#environment-accounts")
    monkeypatch.setenv("ANTHROPIC_API_KEY", SECRET)
    monkeypatch.setenv("OPENAI_BASE_URL", "nonsense")
    shown = page(admin_client.get(LIST)).select_one("#environment-accounts")
    assert shown is not None
    text = " ".join(shown.get_text(" ").split())
    assert "environment: ANTHROPIC_API_KEY" in text
    assert "OPENAI_BASE_URL is not an http or https address" in text
    assert SECRET not in text
    links = {str(link["href"]) for link in shown.select("a")}
    form = page(admin_client.get(next(link for link in links if "anthropic" in link)))
    assert form.select_one("[name=slug]")["value"] == "anthropic"  # type: ignore[index]


# --- test and fetch ----------------------------------------------------------------------------
def test_a_test_lists_the_models_with_the_rows_own_key(
    admin_client: Client, server: WireServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "operators-own")
    monkeypatch.setenv("OPENAI_ORG_ID", "operators-organisation")
    provider = at(server)
    provider.set_headers({"X-Team": "red"})
    answer = admin_client.post(f"{inside(provider)}test/")
    assert "The test passed: 1 model listed" in words(answer)
    (request,) = server.listed
    assert request.headers["authorization"] == f"Bearer {SECRET}"
    assert request.headers["x-team"] == "red"
    assert "operators" not in repr(request.headers)


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (Answer(status=401, error={"message": f"Bad key {SECRET}"}), "refused the key"),
        (Answer(document="<html>Hi</html>", content_type="text/html"), "cut off or unreadable"),
        (Answer(document='{"a": 1}', content_type="application/json"), "cut off or unreadable"),
        (Answer(status=302, headers={"location": "http://127.0.0.1:9/"}), "cut off or unreadable"),
    ],
)
@pytest.mark.parametrize("button", ["test", "fetch", "add-models"])
def test_a_provider_that_fails_is_told_in_a_sentence(
    admin_client: Client, server: WireServer, answer: Answer, sentence: str, button: str
) -> None:
    provider = at(server)
    server.play(answer)
    html = words(admin_client.post(f"{inside(provider)}{button}/"))
    assert sentence in html
    assert SECRET not in html
    assert len(server.listed) == 1


def test_a_server_that_is_not_there_is_told_in_a_sentence(admin_client: Client) -> None:
    provider = ModelProvider.objects.create(
        slug="t", kind="openai-chat", label="Gone", base_url="http://127.0.0.1:1", key_place="none"
    )
    assert "The connection to Gone failed" in words(admin_client.post(f"{inside(provider)}test/"))


def test_chosen_models_are_added_with_what_is_known_of_them(
    admin_client: Client, server: WireServer
) -> None:
    listing = (
        '{"data": [{"id": "large", "context_length": 128000, "name": "The large one",'
        '"architecture": {"input_modalities": ["text", "image"]}}, {"id": "gpt-5"}, {"id": "x"}]}'
    )
    provider = at(server)
    known = ChatModel.objects.create(provider=provider, name="gpt-5", context_tokens=7)
    server.play(*[Answer(document=listing, content_type="application/json")] * 2)
    offered = page(admin_client.post(f"{inside(provider)}fetch/"))
    boxes = {str(box["value"]): "checked" in box.attrs for box in offered.select("[name=model]")}
    assert boxes == {"large": False, "gpt-5": True, "x": False}
    assert "ends 11 Dec 2026" in offered.get_text()
    chosen = {"model": ["large", "gpt-5", "unheard-of"]}
    added = admin_client.post(f"{inside(provider)}add-models/", chosen, follow=True)
    assert "Added 1 model." in words(added)
    large = provider.chat_models.get(name="large")
    assert (large.label, large.context_tokens) == ("The large one", 128_000)
    assert (large.takes_pictures, large.takes_documents) == (True, False)
    known.refresh_from_db()
    assert known.context_tokens == 7
    assert provider.chat_models.count() == 2


# --- servers on this machine -------------------------------------------------------------------
def test_servers_on_this_machine_are_found_and_added_with_one_click(
    admin_client: Client, server: WireServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    ports = {"Ollama": server.port, "LM Studio": 1}
    monkeypatch.setattr(local_servers, "PORTS", ports)
    found = page(admin_client.post(f"{LIST}look/"))
    (form,) = found.select("form[action$='add-server/']")
    address = str(form.select_one("[name=address]")["value"])  # type: ignore[index]
    assert address == server.url
    for _ in range(2):
        added = admin_client.post(f"{LIST}add-server/", {"address": address}, follow=True)
        assert "Added Ollama with 1 model." in words(added)
    provider = ModelProvider.objects.get()
    assert (provider.slug, provider.kind, provider.base_url) == ("ollama", "openai-chat", address)
    assert [model.id_in_chat for model in provider.chat_models.all()] == ["ollama:scripted"]
    assert "authorization" not in server.listed[0].headers


def test_no_server_anywhere_is_said_with_what_to_do(
    admin_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_servers, "PORTS", {"Ollama": 1})
    assert "No model server found on this machine." in words(admin_client.post(f"{LIST}look/"))


def test_only_places_that_are_looked_at_can_be_added(
    admin_client: Client, server: WireServer
) -> None:
    """Otherwise the button would have this server fetch any address."""
    answer = admin_client.post(f"{LIST}add-server/", {"address": server.url}, follow=True)
    assert "no longer responds" in words(answer)
    assert not server.listed


def test_a_name_that_is_taken_gets_a_number(
    admin_client: Client, server: WireServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    at(server, slug="ollama", base_url="http://other.example/v1")
    monkeypatch.setattr(local_servers, "PORTS", {"Ollama": server.port})
    admin_client.post(f"{LIST}add-server/", {"address": server.url})
    assert ModelProvider.objects.filter(slug="ollama-2").exists()


# --- models ------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"audience": "groups"}, "Choose a group"),
        ({"asked_tokens": "900", "output_tokens": "800"}, "more than the model’s maximum answer"),
        ({"temperature": "3"}, "less than or equal to 2"),
        ({"currency": "eur"}, "three-letter currency code"),
        ({"name": "a\u202eb"}, "invisible characters"),
    ],
)
def test_what_cannot_hold_of_a_model_is_said_beside_its_field(
    admin_client: Client, server: WireServer, changed: dict[str, str], sentence: str
) -> None:
    stated = STATED | {"provider": str(at(server).pk)} | changed
    assert sentence in errors(admin_client.post("/admin/chatapp/chatmodel/add/", stated))


def test_a_model_says_for_whom_it_is_and_when_it_ends(
    admin_client: Client, server: WireServer
) -> None:
    group = Group.objects.create(name="writers")
    stated = {"provider": str(at(server).pk), "audience": "groups", "groups": [str(group.pk)]}
    stated |= {"name": "gpt-4o", "takes_pictures": "true", "context_tokens": "128000"}
    admin_client.post("/admin/chatapp/chatmodel/add/", STATED | stated)
    shown = words(admin_client.get("/admin/chatapp/chatmodel/"))
    assert "team:gpt-4o" in shown
    assert "reads images, 128k context" in shown
    assert "Members of certain groups" in shown
    assert "2027-01-14" in shown


@pytest.mark.parametrize("action", ["enable", "disable"])
def test_models_are_switched_together(
    admin_client: Client, server: WireServer, action: str
) -> None:
    is_enabled = action == "enable"
    model = ChatModel.objects.create(provider=at(server), name="m", is_enabled=not is_enabled)
    chosen = {"action": action, "_selected_action": [model.pk]}
    admin_client.post("/admin/chatapp/chatmodel/", chosen)
    model.refresh_from_db()
    assert model.is_enabled is is_enabled
