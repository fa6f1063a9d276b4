"""Which models a person may use, where each is asked, and with whose key."""

from typing import Any

import pytest
from django.contrib.auth.models import Group

from chatapp.conversations import intake
from chatapp.models import ChatModel, Member, ModelProvider, Turn
from chatapp.people.refused import Refused
from chatapp.providers.access.model_choice import (
    choose_model,
    describe_abilities,
    find_default_model,
    format_count,
    list_offered_models,
)
from chatapp.providers.events import ProviderError
from tests.chatapp.providers.accounts import forget_environment
from tests.commands import Ran

pytestmark = pytest.mark.django_db
KeyPlace = ModelProvider.KeyPlace
SECRET = "sk-of-the-row"


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch, settings: Any) -> None:
    forget_environment(monkeypatch)
    settings.DEMO, settings.DEFAULT_MODEL = False, ""


@pytest.fixture
def insider(owner: Member) -> Member:
    """The owner, in the only group that there is."""
    owner.groups.add(Group.objects.create(name="writers"))
    return owner


def a_provider(slug: str = "team", **more: Any) -> ModelProvider:
    fields = {"kind": "openai-chat", "label": "Team", "base_url": "http://127.0.0.1:9/v1"}
    provider = ModelProvider.objects.create(slug=slug, **fields | more)
    if provider.key_place == KeyPlace.STORED:
        provider.set_key(SECRET)
    return provider


def of_environment(slug: str = "openai", kind: str = "openai", **more: Any) -> ModelProvider:
    return a_provider(slug, kind=kind, base_url="", key_place=KeyPlace.ENVIRONMENT, **more)


def a_model(provider: ModelProvider, name: str = "large", **more: Any) -> ChatModel:
    return ChatModel.objects.create(provider=provider, name=name, **more)


def for_writers(model: ChatModel) -> ChatModel:
    ChatModel.objects.filter(pk=model.pk).update(audience=ChatModel.Audience.GROUPS)
    model.groups.add(Group.objects.get(name="writers"))
    return model


def offered(person: Member | None = None) -> list[str]:
    return [model.id for model in list_offered_models(person)]


def kind_of_refusal(model_id: str, person: Member | None = None) -> str:
    with pytest.raises(ProviderError) as raised:
        choose_model(model_id, person)
    return raised.value.kind


# --- rows --------------------------------------------------------------------------------------
def test_a_listed_model_is_asked_with_what_its_row_says(owner: Member) -> None:
    provider = a_provider()
    provider.set_headers({"X-Team": "red"})
    a_model(provider, effort="low", asked_tokens=900, temperature=0.5, system_prompt=" Rhyme. ")
    chosen = choose_model("team:large", owner)
    assert (chosen.kind, chosen.name, chosen.system_prompt) == ("openai-chat", "large", "Rhyme.")
    assert (chosen.account.base_url, chosen.account.key) == ("http://127.0.0.1:9/v1", SECRET)
    assert chosen.account.headers == (("X-Team", "red"),)
    asked = chosen.parameters
    assert (asked.effort, asked.output_tokens, asked.temperature) == ("low", 900, 0.5)


def test_a_model_that_is_not_listed_is_none(owner: Member) -> None:
    a_model(a_provider())
    assert kind_of_refusal("team:other", owner) == "not_found"
    assert kind_of_refusal("team:", owner) == "not_found"


@pytest.mark.parametrize("of", ["provider", "model"])
def test_what_is_switched_off_cannot_be_used(owner: Member, of: str) -> None:
    provider = a_provider(offers_unlisted=True)
    model = a_model(provider)
    assert offered(owner) == ["team:large"]
    type(model if of == "model" else provider).objects.update(is_enabled=False)
    assert kind_of_refusal("team:large", owner) == "not_found"
    assert offered(owner) == []


def test_any_model_may_be_named_where_an_admin_says_so(owner: Member) -> None:
    a_model(a_provider(offers_unlisted=True))
    assert choose_model("team:other", owner).facts is None


def test_rows_come_in_the_order_that_admins_gave_them(owner: Member) -> None:
    later, first = a_provider("a-later", position=20), a_provider("z-first", position=5)
    a_model(later)
    a_model(first, "second", position=9)
    a_model(first, "first", position=1)
    assert offered(owner) == ["z-first:first", "z-first:second", "a-later:large"]


def test_a_row_whose_key_is_gone_says_so(owner: Member, settings: Any) -> None:
    a_model(a_provider())
    settings.ENCRYPTION_KEYS = ["Zm9yIHRlc3RzIG9ubHksIG5vdCBhIHNlY3JldCBrZXk="]
    with pytest.raises(ProviderError, match="can’t be decrypted"):
        choose_model("team:large", owner)


def test_a_key_belongs_to_its_row(owner: Member) -> None:
    provider, other = a_provider(), a_provider("other", key_place=KeyPlace.NONE)
    a_model(other)
    ModelProvider.objects.filter(pk=other.pk).update(
        sealed_key=provider.sealed_key, key_place=KeyPlace.STORED
    )
    assert kind_of_refusal("other:large", owner) == "auth"


@pytest.mark.parametrize(
    ("field", "value"), [("base_url", "http://127.0.0.1:10/v1"), ("kind", "anthropic")]
)
def test_another_server_gets_neither_key_nor_headers(owner: Member, field: str, value: str) -> None:
    provider = a_provider()
    provider.set_headers({"X-Team": "red"})
    setattr(provider, field, value)
    provider.save(update_fields=[field])
    provider.refresh_from_db()
    assert (bytes(provider.sealed_key), bytes(provider.sealed_headers)) == (b"", b"")
    a_model(provider)
    assert kind_of_refusal("team:large", owner) == "auth"


# --- the environment ---------------------------------------------------------------------------
def test_the_environment_needs_no_rows(monkeypatch: pytest.MonkeyPatch, owner: Member) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-env")
    assert {model_id.partition(":")[0] for model_id in offered(owner)} == {"anthropic"}
    chosen = choose_model("anthropic:anything", owner)
    assert (chosen.kind, chosen.account.key, chosen.facts) == ("anthropic", "sk-env", None)


@pytest.mark.parametrize("place", [KeyPlace.STORED, KeyPlace.NONE])
def test_a_row_never_gets_the_environments_key(
    monkeypatch: pytest.MonkeyPatch, owner: Member, place: str
) -> None:
    """An admin's own server, or one that a colleague typed in, must not be sent the key of the
    operator's account. The fault to plant: `account.key or os.environ[…]` in `account_of`."""
    for name in ("OPENAI_API_KEY", "OPENAI_ORG_ID"):
        monkeypatch.setenv(name, "operators-own")
    provider = a_provider(key_place=place)
    ModelProvider.objects.update(sealed_key=b"")
    a_model(provider)
    if place == KeyPlace.STORED:
        assert kind_of_refusal("team:large", owner) == "auth"
    else:
        account = choose_model("team:large", owner).account
        assert (account.key, account.headers) == ("", ())


def test_the_environments_key_goes_with_the_environments_address(
    monkeypatch: pytest.MonkeyPatch, owner: Member
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-env")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    row = of_environment()
    a_model(row)
    ModelProvider.objects.update(base_url="http://stranger.example/v1")
    account = choose_model("openai:large", owner).account
    assert (account.base_url, account.key) == ("http://127.0.0.1:9/v1", "sk-env")


def test_a_row_describes_a_model_of_the_environment(
    monkeypatch: pytest.MonkeyPatch, owner: Member
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-env")
    a_model(of_environment(offers_unlisted=True), "gpt-6-sol", label="Our Sol")
    models = {model.id: model.label for model in list_offered_models(owner)}
    assert models["openai:gpt-6-sol"] == "Our Sol"
    assert models["openai:gpt-6-luna"] == "GPT-6 Luna"
    assert choose_model("openai:anything", owner).facts is None


@pytest.mark.parametrize("slug", ["openai", "openai-chat", "team"])
def test_an_account_with_a_row_is_used_through_rows_only(
    monkeypatch: pytest.MonkeyPatch, owner: Member, slug: str
) -> None:
    """Otherwise a model for some would be open to all by the account's other name."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-env")
    a_model(of_environment(slug, "openai-chat" if slug == "openai-chat" else "openai"))
    assert offered(owner) == [f"{slug}:large"]
    for other in {"openai", "openai-chat", "team"} - {slug}:
        assert kind_of_refusal(f"{other}:large", owner) == "not_found"


# --- who may use it ----------------------------------------------------------------------------
def test_a_model_for_a_group_does_not_exist_for_others(insider: Member, stranger: Member) -> None:
    for_writers(a_model(a_provider()))
    assert offered(insider) == ["team:large"]
    assert choose_model("team:large", insider).facts is not None
    assert (offered(stranger), offered(None)) == ([], [])
    with pytest.raises(ProviderError) as forbidden:
        choose_model("team:large", stranger)
    with pytest.raises(ProviderError) as unknown:
        choose_model("team:never", stranger)
    assert str(forbidden.value) == str(unknown.value).replace("never", "large")


@pytest.mark.parametrize("model_id", ["openai:large", "openai:LARGE", "openai-chat:large"])
def test_no_other_name_opens_a_model_for_a_group(
    monkeypatch: pytest.MonkeyPatch, insider: Member, stranger: Member, model_id: str
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-env")
    for_writers(a_model(of_environment(offers_unlisted=True)))
    of_environment("openai-chat", "openai-chat", offers_unlisted=True)
    assert choose_model("openai:large", insider)
    assert kind_of_refusal(model_id, stranger) == "not_found"


def test_nor_does_the_environments_own_prefix(
    monkeypatch: pytest.MonkeyPatch, insider: Member, stranger: Member
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-env")
    for_writers(a_model(of_environment("team", offers_unlisted=True), "gpt-6-sol"))
    for model_id in ("openai:gpt-6-sol", "openai-chat:GPT-6-Sol", "team:gpt-6-sol"):
        assert kind_of_refusal(model_id, stranger) == "not_found"
        assert model_id not in offered(stranger)
    assert choose_model("team:gpt-6-sol", insider)
    assert choose_model("openai:gpt-6-luna", stranger)


def test_a_message_to_a_forbidden_model_is_not_accepted(insider: Member, stranger: Member) -> None:
    for_writers(a_model(a_provider()))
    with pytest.raises(Refused, match="no model"):
        intake.receive(stranger, None, text="Hello", model="team:large")
    assert not Turn.objects.exists()
    assert intake.receive(insider, None, text="Hello", model="team:large")


def test_the_command_line_refuses_it_as_well(insider: Member, stranger: Member) -> None:
    for_writers(a_model(a_provider()))
    ran = Ran("chat", "Hello", "--model", "team:large", "--user", "stranger")
    assert ran.code == 1
    assert "There is no model" in ran.err


def test_a_new_chat_begins_with_a_model_that_its_owner_may_use(
    settings: Any, insider: Member, stranger: Member
) -> None:
    provider = a_provider()
    for_writers(a_model(provider, "first", position=1))
    a_model(provider, "second", position=2)
    assert (find_default_model(insider), find_default_model(stranger)) == (
        "team:first",
        "team:second",
    )
    settings.DEFAULT_MODEL = "team:first"
    assert find_default_model(stranger) == "team:second"
    settings.DEFAULT_MODEL = "team:second"
    assert find_default_model(insider) == "team:second"


def test_the_default_model_comes_first_and_once(
    settings: Any, monkeypatch: pytest.MonkeyPatch, owner: Member
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-x")
    settings.DEMO, settings.DEFAULT_MODEL = True, "openai-chat:llama"
    assert find_default_model(owner) == offered(owner)[0] == "openai-chat:llama"
    settings.DEFAULT_MODEL = "demo:assistant"
    assert offered(owner)[0] == "demo:assistant"
    assert offered(owner).count("demo:assistant") == 1


def test_without_anything_there_is_nothing_to_offer(owner: Member, settings: Any) -> None:
    assert (offered(owner), find_default_model(owner)) == ([], "")
    settings.DEMO = True
    assert offered(owner) == ["demo:assistant"]


# --- what it can do ----------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({}, ()),
        ({"takes_pictures": True, "takes_documents": True}, ("reads images", "reads PDF")),
        ({"takes_pictures": False, "takes_tools": False}, ("no images", "no tools")),
        ({"reasons": True, "context_tokens": 200_000}, ("can reason",)),
    ],
)
def test_what_a_model_can_do_is_said_in_words(facts: Any, words: tuple[str, ...]) -> None:
    assert describe_abilities(ChatModel(**facts)) == words


@pytest.mark.parametrize(
    ("tokens", "text"), [(1_048_576, "1.05M"), (200_000, "200k"), (512, "512")]
)
def test_the_size_of_a_context_has_few_characters(tokens: int, text: str) -> None:
    assert format_count(tokens) == text
