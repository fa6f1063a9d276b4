"""Choosing a model: from a short list in the box, or from a long one with a search."""

from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.test import Client

from chatapp.models import ChatModel, Member, ModelProvider
from tests.chatapp.providers.accounts import forget_environment
from tests.conftest import signed_in
from tests.dom_tree import Element, parse
from tests.turns import rows

pytestmark = pytest.mark.django_db
HTMX = {"HX-Request": "true"}
STEPS = ["", "found", "choose"]


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch, settings: Any) -> None:
    forget_environment(monkeypatch)
    settings.DEMO, settings.DEFAULT_MODEL = True, ""


@pytest.fixture
def team() -> ModelProvider:
    """A provider with three models that say what they can do."""
    provider = ModelProvider.objects.create(
        slug="team", kind="openai-chat", label="Team", base_url="http://x/v1", key_place="none"
    )
    known: dict[str, dict[str, Any]] = {
        "eyes": {"takes_pictures": True},
        "blind": {"takes_pictures": False, "takes_tools": False},
        "deep": {"reasons": True, "context_tokens": 200_000},
    }
    for name, facts in known.items():
        ChatModel.objects.create(provider=provider, name=name, label=name.title(), **facts)
    return provider


def post(client: Client, step: str = "", **values: Any) -> Element:
    return parse(client.post(f"/models/{step}", values, headers=HTMX).content.decode())


def list_models(fragment: Element) -> list[str]:
    return [each["value"] for each in fragment.all("button") if each.attributes.get("name")]


def home(client: Client) -> Element:
    return parse(client.get("/").content.decode())


# --- who gets in -------------------------------------------------------------------------------
@pytest.mark.parametrize("step", STEPS)
def test_choosing_is_for_members_and_posts(
    client: Client, owner: Member, owner_client: Client, step: str
) -> None:
    assert client.post(f"/models/{step}")["Location"].startswith("/sign-in/")
    assert owner_client.get(f"/models/{step}").status_code == 405
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(owner)
    assert strict.post(f"/models/{step}").status_code == 403


@pytest.fixture
def for_writers(team: ModelProvider) -> ChatModel:
    """The model with eyes, for a group in which nobody is yet."""
    model = team.chat_models.get(name="eyes")
    model.groups.add(Group.objects.create(name="writers"))
    ChatModel.objects.filter(pk=model.pk).update(audience="groups")
    return model


@pytest.mark.parametrize("step", ["", "found"])
def test_a_stranger_does_not_find_a_model_for_a_group(
    for_writers: ChatModel, owner: Member, stranger: Member, step: str
) -> None:
    owner.groups.add(*for_writers.groups.all())
    for query in ("", "eyes", "team:eyes"):
        assert "team:eyes" not in list_models(post(signed_in(stranger), step, q=query))
        assert "team:eyes" in list_models(post(signed_in(owner), step, q=query))


def test_a_stranger_cannot_choose_it_either(for_writers: ChatModel, stranger: Member) -> None:
    answer = post(signed_in(stranger), "choose", chosen="team:eyes")
    assert answer.one(role="alert").text
    assert not answer.all(id="model-choice")


# --- the message box ---------------------------------------------------------------------------
def test_few_models_are_a_list_in_the_box(owner_client: Client) -> None:
    page = home(owner_client)
    select = page.one("form", id="composer").one("select")
    assert [each["value"] for each in select.all("option")] == ["demo:assistant"]


def test_models_of_which_something_is_known_are_behind_a_button(
    owner_client: Client, team: ModelProvider
) -> None:
    choice = home(owner_client).one(id="model-choice")
    assert choice.one("button").name == "Model: Blind. Choose another"
    assert choice.one("button")["title"] == "Team · no images · no tools"
    field = choice.one("input")
    assert (field["name"], field["value"], field["form"]) == ("model", "team:blind", "composer")


def test_many_models_are_behind_a_button(
    owner_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.setenv(name, "sk-x")
    assert home(owner_client).one(id="model-choice").one("button").name.startswith("Model: GPT-6")


def test_asking_for_models_does_not_count_as_sending(
    owner_client: Client, team: ModelProvider
) -> None:
    """The script empties the box after each answer to the form or to what is inside of it."""
    button = home(owner_client).one(id="model-choice").one("button")
    assert "composer" not in {each.attributes.get("id") for each in button.ancestors()}
    assert button["form"] == "composer"


# --- the list and its search -------------------------------------------------------------------
def test_the_list_is_by_provider_and_says_what_each_can_do(
    owner_client: Client, team: ModelProvider
) -> None:
    step = post(owner_client, model="team:deep")
    assert [each.text for each in step.all("h3")] == ["Team", "Demo"]
    assert list_models(step) == ["team:blind", "team:deep", "team:eyes", "demo:assistant"]
    deep = next(each for each in step.all("button") if each.attributes.get("value") == "team:deep")
    assert deep.text == "Deep can reason team:deep 200k context"
    assert deep["aria-current"] == "true"


def test_the_default_comes_first_with_the_others_of_its_provider(
    owner_client: Client, team: ModelProvider, settings: Any
) -> None:
    settings.DEFAULT_MODEL = "team:eyes"
    step = post(owner_client)
    assert [each.text for each in step.all("h3")] == ["Team", "Demo"]
    assert list_models(step) == ["team:eyes", "team:blind", "team:deep", "demo:assistant"]
    settings.DEFAULT_MODEL = "demo:assistant"
    assert [each.text for each in post(owner_client).all("h3")] == ["Demo", "Team"]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("", ["team:blind", "team:deep", "team:eyes", "demo:assistant"]),
        ("DEEP", ["team:deep"]),
        ("team images", ["team:blind", "team:eyes"]),
        ("reads images", ["team:eyes"]),
        ("can reason", ["team:deep"]),
        ("200k", ["team:deep"]),
        ("demo", ["demo:assistant"]),
        ("never", []),
        ("team:never", []),
        ("x\0y", []),
    ],
)
def test_a_search_finds_by_name_provider_and_ability(
    owner_client: Client, team: ModelProvider, query: str, found: list[str]
) -> None:
    assert list_models(post(owner_client, "found", q=query)) == found


@pytest.mark.parametrize(
    ("needs", "found"),
    [
        (["tools"], ["team:deep", "team:eyes", "demo:assistant"]),
        (["images"], ["team:deep", "team:eyes"]),
        (["reasoning"], ["team:blind", "team:deep", "team:eyes"]),
        (["context"], ["team:deep"]),
        (["tools", "reasoning"], ["team:deep", "team:eyes"]),
        (["magic"], ["team:blind", "team:deep", "team:eyes", "demo:assistant"]),
    ],
)
def test_the_list_is_cut_to_models_that_meet_every_need(
    owner_client: Client, team: ModelProvider, needs: list[str], found: list[str]
) -> None:
    assert list_models(post(owner_client, "found", need=needs)) == found


def test_a_list_that_a_need_emptied_says_so(owner_client: Client) -> None:
    assert "No model matches." in post(owner_client, "found", need=["context"]).text


@pytest.mark.parametrize(
    ("prices", "currency", "shown"),
    [
        (("3", "15"), "USD", "$3 / $15"),
        (("0.8", "4"), "EUR", "€0.80 / €4"),
        (("0.075", "0.3"), "CHF", "0.075 CHF / 0.30 CHF"),
        (("0", "0"), "USD", "Free"),
        (("3", None), "USD", ""),
    ],
)
def test_a_price_is_for_a_million_tokens_of_input_and_of_output(
    owner_client: Client,
    team: ModelProvider,
    prices: tuple[str, str | None],
    currency: str,
    shown: str,
) -> None:
    team.chat_models.filter(name="deep").update(
        input_price=prices[0], output_price=prices[1], currency=currency
    )
    step = post(owner_client)
    deep = next(each for each in step.all("button") if each.attributes.get("value") == "team:deep")
    assert deep.text == f"Deep can reason team:deep 200k context {shown}".strip()
    assert ("Prices per million tokens" in step.text) == bool(shown)


def test_a_long_list_begins_with_the_models_that_the_person_used_last(
    owner: Member, owner_client: Client, team: ModelProvider, stranger: Member
) -> None:
    for name in ("a", "b", "c"):
        ChatModel.objects.create(provider=team, name=name)
    for person, model in ((owner, "team:c"), (stranger, "team:a"), (owner, "gone:x")):
        conversation = rows.turn(person, "done").conversation
        type(conversation).objects.filter(pk=conversation.pk).update(model=model)
    step = post(owner_client)
    assert [each.text for each in step.all("h3")] == ["Recent", "Team", "Demo"]
    assert list_models(step)[0] == "team:c"
    assert [each.text for each in post(owner_client, "found", q="team").all("h3")] == ["Team"]
    ChatModel.objects.filter(name="c").update(is_enabled=False)
    assert "Recent" not in post(owner_client).text


def test_a_whole_id_finds_a_model_that_no_list_has(
    owner_client: Client, team: ModelProvider
) -> None:
    assert list_models(post(owner_client, "found", q="team:new")) == []
    ModelProvider.objects.update(offers_unlisted=True)
    assert list_models(post(owner_client, "found", q=" team:new ")) == ["team:new"]


def test_a_model_is_named_as_text(owner_client: Client, team: ModelProvider) -> None:
    ChatModel.objects.create(provider=team, name="b", label="<b hx-get=/>B</b>")
    fragment = post(owner_client, "found", q="team:b")
    assert "<b hx-get=/>B</b>" in fragment.text


# --- the choice --------------------------------------------------------------------------------
def test_a_choice_closes_the_list_and_stands_in_the_box(
    owner_client: Client, team: ModelProvider
) -> None:
    answer = post(owner_client, "choose", chosen="team:eyes", model="team:deep")
    closed, choice = answer.elements
    assert closed["hx-swap-oob"] == "innerHTML:#picker"
    assert (choice["id"], choice["hx-swap-oob"]) == ("model-choice", "true")
    assert choice.one("input")["value"] == "team:eyes"


def test_a_model_is_chosen_for_new_chats_too(
    owner: Member, owner_client: Client, team: ModelProvider, stranger: Member
) -> None:
    post(owner_client, "choose", chosen="team:eyes")
    assert home(owner_client).one(id="model-choice").one("input")["value"] == "team:blind"
    post(owner_client, "choose", chosen="team:eyes", keep="yes")
    assert home(owner_client).one(id="model-choice").one("input")["value"] == "team:eyes"
    assert "team:eyes · for new chats" in post(owner_client).text
    assert home(signed_in(stranger)).one(id="model-choice").one("input")["value"] == "team:blind"


def test_a_model_for_new_chats_that_its_person_may_no_longer_use_is_not_chosen(
    owner: Member, owner_client: Client, for_writers: ChatModel
) -> None:
    owner.groups.add(*for_writers.groups.all())
    post(owner_client, "choose", chosen="team:eyes", keep="yes")
    owner.groups.clear()
    assert home(owner_client).one(id="model-choice").one("input")["value"] == "team:blind"


def test_a_model_that_the_person_may_not_use_is_not_kept(
    owner_client: Client, for_writers: ChatModel
) -> None:
    post(owner_client, "choose", chosen="team:eyes", keep="yes")
    assert not Member.objects.exclude(preferred_model="")


def test_without_javascript_what_was_written_comes_along(
    owner: Member, owner_client: Client, team: ModelProvider
) -> None:
    conversation = rows.turn(owner, "done").conversation
    draft = {"text": "Keep me", "model": "team:deep", "chat": str(conversation.pk)}
    page = parse(owner_client.post("/models/", draft).content.decode())
    assert list_models(page.one(id="models-found")) == list_models(post(owner_client))
    form = next(each for each in page.all("form") if each["action"] == "/models/choose")
    carried = {each["name"]: each.attributes.get("value", "") for each in form.all("input")}
    chosen = owner_client.post("/models/choose", carried | {"chosen": "team:eyes"})
    box = parse(chosen.content.decode())
    assert box.one("form", id="composer").fields()["text"] == "Keep me"
    assert box.one("form", id="composer")["action"] == f"/c/{conversation.pk}/messages"
    assert box.one(id="model-choice").one("input")["value"] == "team:eyes"


def test_a_conversation_keeps_the_model_of_its_last_message(
    owner: Member, owner_client: Client, team: ModelProvider
) -> None:
    conversation = rows.turn(owner, "done").conversation
    address = f"/c/{conversation.pk}/"
    for model in ("team:eyes", "team:deep"):
        conversation.turns.update(state="done")
        owner_client.post(f"{address}messages", {"text": "Hello", "model": model})
        page = parse(owner_client.get(address).content.decode())
        assert page.one(id="model-choice").one("input")["value"] == model
