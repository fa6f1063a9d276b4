"""The overview of the admin lists what a new installation still needs."""

from collections.abc import Callable
from typing import Any

import pytest
from bs4 import BeautifulSoup
from django.contrib import admin
from django.test import Client

from chatapp.demo import seed
from chatapp.models import (
    Approval,
    ChatModel,
    EmbeddingSettings,
    HousePolicy,
    Member,
    ModelProvider,
)
from mcpconfig.models import Service, ToolSetting
from tests.turns import rows

STEPS = ["model", "service", "tools", "people", "approval"]


def read_page(client: Client, address: str = "/admin/", **query: str) -> BeautifulSoup:
    answer: Any = client.get(address, query)
    assert answer.status_code == 200
    return BeautifulSoup(answer.content, "html.parser")


def read_steps(client: Client) -> dict[str, bool]:
    steps = read_page(client).select(".setup [data-step]")
    return {str(step["data-step"]): step["data-done"] == "true" for step in steps}


def list_links(client: Client) -> list[str]:
    return [str(link["href"]) for link in read_page(client).select(".setup li a")]


def add_model() -> None:
    provider = ModelProvider.objects.create(slug="ours", kind="openai", label="Ours")
    ChatModel.objects.create(provider=provider, name="m", audience=ChatModel.Audience.GROUPS)


def add_service() -> Service:
    return Service.objects.create(name="shop", url="https://shop.test/mcp", visibility="everyone")


def confirm_tool() -> None:
    ToolSetting.objects.create(service=add_service(), name="list", confirmed_hash="h")


def invite() -> None:
    Member.objects.create(username="guest")


def decide() -> None:
    person = Member.objects.get(is_staff=True)
    call = rows.question(rows.turn(person))
    Approval.objects.filter(pk=call.pk).update(decided_by=person)


def test_the_demo_ticks_no_step(admin_client: Client) -> None:
    seed.seed()
    assert read_steps(admin_client) == dict.fromkeys(STEPS, False)


@pytest.mark.parametrize(
    ("act", "ticked"),
    [
        (add_model, {"model"}),
        (add_service, {"service"}),
        (confirm_tool, {"service", "tools"}),
        (invite, {"people"}),
        (decide, {"approval"}),
    ],
)
def test_a_step_ticks_itself_off(
    admin_client: Client, act: Callable[[], object], ticked: set[str]
) -> None:
    act()
    assert {name for name, is_done in read_steps(admin_client).items() if is_done} == ticked


def test_a_key_in_the_environment_is_a_model(
    admin_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-test")
    assert read_steps(admin_client)["model"]


def test_a_member_who_left_and_a_model_that_is_off_do_not_count(admin_client: Client) -> None:
    invite()
    Member.objects.filter(username="guest").update(is_active=False)
    add_model()
    ChatModel.objects.update(is_enabled=False)
    assert not any(read_steps(admin_client).values())


def test_each_open_step_links_to_its_page(admin_client: Client) -> None:
    links = list_links(admin_client)
    assert len(links) == len(STEPS)
    assert all(admin_client.get(link).status_code == 200 for link in links)
    service = add_service()
    assert f"/admin/mcpconfig/service/{service.pk}/tools/review/" in list_links(admin_client)


def test_the_checklist_goes_away_when_all_is_done(admin_client: Client) -> None:
    for act in (add_model, confirm_tool, invite, decide):
        act()
    page = read_page(admin_client)
    assert page.select(".setup") == []


def test_every_list_of_the_admin_says_what_it_will_hold() -> None:
    pages = admin.site._registry.items()
    silent = {model for model, page in pages if not getattr(page, "empty_list", "")}
    assert silent == {EmbeddingSettings, HousePolicy, Member}, "These are never empty."


def test_an_empty_list_says_so_and_a_search_without_a_match_leads_back(
    admin_client: Client,
) -> None:
    address = "/admin/mcpconfig/service/"
    line = read_page(admin_client, address).select_one(".empty-list")
    assert line is not None and "Add an MCP server" in line.text
    add_service()
    assert read_page(admin_client, address).select(".empty-list") == []
    link = read_page(admin_client, address, q="nothing-like-this").select_one(".empty-list a")
    assert link is not None and link["href"] == "?"
