"""Second opinions where tools are confirmed: asked for, shown beside our reasons, set aside."""

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from django_tasks_db.models import DBTaskResult

from chatapp.models import HousePolicy, Member, PolicyTest, SecondOpinion
from chatapp.simulation import second_opinions
from mcpconfig.models import Service, ToolDefinition
from mcpconfig.services.tool_definitions import confirm_tools, store_tools
from mcpconfig.values.results import Tool
from tests.conftest import signed_in
from tests.dom_tree import Element, parse

pytestmark = pytest.mark.django_db
State = SecondOpinion.State
MODEL = "openai:judge"


@pytest.fixture
def service() -> Service:
    HousePolicy(opinion_model=MODEL).save()
    made = Service.objects.create(
        name="shop", title="Shop", url="https://shop.example/mcp", visibility="everyone"
    )
    tools = [Tool(name=name, input_schema={"type": "object"}) for name in ("get_a", "get_b")]
    store_tools(made, tools)
    return made


def tool(service: Service, name: str = "get_a") -> ToolDefinition:
    return service.definitions.get(name=name)


def give(definition: ToolDefinition, level: str = "high", reason: str = "It sends mail.") -> None:
    SecondOpinion.objects.create(
        definition=definition,
        state=State.GIVEN,
        model=MODEL,
        level=level,
        reasons=[reason],
        asked_at=timezone.now(),
    )
    opinion = {"level": level, "model": MODEL, "reasons": [reason]}
    second_opinions._store_opinion(definition, opinion)


def act(client: Client, service: Service, **fields: Any) -> Any:
    address = reverse("admin:mcpconfig_service_act_on_tools", args=[service.pk])
    return client.post(address, fields, follow=True)


def review(client: Client, service: Service) -> Element:
    address = reverse("admin:mcpconfig_service_review_tools", args=[service.pk])
    return parse(client.get(address).content.decode())


def test_an_opinion_is_asked_for_with_one_button_where_tools_are_confirmed(
    admin_client: Client, admin: Member, service: Service
) -> None:
    (button,) = [
        each
        for each in review(admin_client, service).all("button")
        if each.text == "Second opinion on get_a"
    ]
    answer = act(
        admin_client,
        service,
        **{button["name"]: button["value"], "back": "review"},
        definition=[tool(service, "get_b").hash],
    )
    assert answer.redirect_chain[-1][0] == reverse(
        "admin:mcpconfig_service_review_tools", args=[service.pk]
    )
    row = SecondOpinion.objects.get()
    assert (row.definition, row.asked_by, row.state) == (tool(service), admin, State.ASKED)
    assert DBTaskResult.objects.get().args_kwargs["args"][0] == tool(service).pk
    assert "Waiting for the second opinion of openai:judge" in answer.content.decode()


def test_a_tool_that_waits_for_its_opinion_is_not_ticked_at_first(
    admin_client: Client, service: Service
) -> None:
    """The opinion may raise the level for which the tool was ticked."""

    def list_ticked() -> list[str]:
        boxes = review(admin_client, service).all("input", name="definition")
        ticked = {box["value"] for box in boxes if "checked" in box}
        return [each.name for each in service.definitions.order_by("name") if each.hash in ticked]

    assert list_ticked() == ["get_a", "get_b"]
    SecondOpinion.objects.create(
        definition=tool(service), state=State.ASKED, model=MODEL, asked_at=timezone.now()
    )
    assert list_ticked() == ["get_b"]
    SecondOpinion.objects.all().delete()
    give(tool(service), level="low", reason="It only reads.")
    assert list_ticked() == ["get_a", "get_b"]


def test_opinions_are_asked_for_on_the_selected_tools(
    admin_client: Client, service: Service
) -> None:
    hashes = [each.hash for each in service.definitions.all()]
    answer = act(admin_client, service, act="ask_opinion", definition=hashes)
    assert "Asked openai:judge for an opinion on 2 tools" in answer.content.decode()
    answer = act(admin_client, service, act="ask_opinion", definition=hashes)
    assert "there is an opinion on these tools already" in answer.content.decode()
    assert DBTaskResult.objects.count() == 2


def test_the_reasons_of_the_model_stand_beside_ours(admin_client: Client, service: Service) -> None:
    give(tool(service), reason="It sends\u202e mail.")
    definition = reverse("admin:mcpconfig_tooldefinition_change", args=[tool(service).pk])
    table = reverse("admin:mcpconfig_service_tools", args=[service.pk])
    confirm = reverse("admin:mcpconfig_service_review_tools", args=[service.pk])
    for address in (definition, table, confirm):
        page = admin_client.get(address).content.decode()
        assert page.count("Second opinion of openai:judge:") == 1, address
        assert "U+202E" in page and "\u202e" not in page
        assert "suggests that it only reads" in page
    line = parse(admin_client.get(table).content.decode()).one("tbody").all("tr")[0]
    assert line.one("td", data_label="Risk").text.startswith("high")


def test_a_failure_says_why_and_offers_to_ask_again(admin_client: Client, service: Service) -> None:
    SecondOpinion.objects.create(
        definition=tool(service),
        state=State.FAILED,
        model=MODEL,
        error="provider",
        error_text="The key is wrong.",
        asked_at=timezone.now(),
    )
    text = review(admin_client, service).text
    assert "The model could not be asked. The key is wrong." in text
    assert "Ask again for a second opinion on get_a" in text


def test_an_opinion_is_set_aside_unless_a_policy_test_fails(
    admin_client: Client, owner: Member, service: Service
) -> None:
    confirm_tools(service.definitions.all())
    give(tool(service))
    test = PolicyTest.objects.create(
        name="Asks", person=owner, service=service, tool="get_a", expected="ask"
    )
    refused = act(admin_client, service, act="set_opinion_aside", definition=[tool(service).hash])
    assert "a policy test would fail" in refused.content.decode()
    assert SecondOpinion.objects.get().state == State.GIVEN
    test.delete()
    done = act(admin_client, service, set_opinion_aside_of=tool(service).hash, back="definition")
    assert "1 opinion set aside" in done.content.decode()
    assert tool(service).opinion is None
    again = act(admin_client, service, set_opinion_aside_of=tool(service).hash)
    assert "These tools have no opinion" in again.content.decode()


def test_without_a_model_there_is_no_button_and_nothing_is_asked(
    admin_client: Client, service: Service
) -> None:
    HousePolicy.objects.update(opinion_model="")
    assert "Second opinion on" not in review(admin_client, service).text
    answer = act(admin_client, service, act="ask_opinion", definition=[tool(service).hash])
    assert "No model for second opinions is set" in answer.content.decode()
    assert not SecondOpinion.objects.exists()


@pytest.mark.parametrize("right", ["policy", "audit", "models", "credentials"])
def test_only_an_admin_of_services_asks_and_sets_aside(
    stranger: Member, service: Service, right: str
) -> None:
    stranger.is_staff, stranger.rights = True, [right]
    stranger.save()
    give(tool(service))
    for name in ("ask_opinion", "set_opinion_aside"):
        answer = act(signed_in(stranger), service, act=name, definition=[tool(service).hash])
        assert answer.status_code == 403
    assert SecondOpinion.objects.get().state == State.GIVEN


def test_the_policy_names_a_model_before_it_wants_opinions_on_new_tools(
    admin_client: Client, admin: Member
) -> None:
    address = reverse("admin:chatapp_housepolicy_change", args=[1])
    values = {"runs_up_to": "low", "widest_consent": "service", "consent_days": 90}
    answer = admin_client.post(address, {**values, "opinions_for_new": "on"})
    assert "Choose a model for second opinions first" in answer.content.decode()
    HousePolicy.objects.update(opinion_model=MODEL)
    wanted = {**values, "opinions_for_new": "on", "opinion_model": MODEL}
    assert admin_client.post(address, wanted).status_code == 302
    assert HousePolicy.current().opinions_paid_by == admin


def test_an_admin_of_services_does_not_choose_the_model(stranger: Member, service: Service) -> None:
    stranger.is_staff, stranger.rights = True, ["services"]
    stranger.save()
    address = reverse("admin:chatapp_housepolicy_change", args=[1])
    answer = signed_in(stranger).post(address, {"opinion_model": ""})
    assert answer.status_code == 403 and HousePolicy.current().opinion_model == MODEL
