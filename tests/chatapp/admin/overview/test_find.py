"""The search field of the admin finds things by name and number, each kind only with its right."""

from typing import Any

import pytest
from django.test import Client

from chatapp.models import ChatModel, Member, ModelProvider, PolicyRule, ToolCall
from mcpconfig.models import Exchange, Service, ToolDefinition
from tests.conftest import signed_in
from tests.dom_tree import parse
from tests.turns import rows

pytestmark = pytest.mark.django_db
FIND = "/admin/find/"
MOST_STATEMENTS = 25


@pytest.fixture
def number(owner: Member) -> str:
    """One thing of each kind that is called “harbour”; the number of the call."""
    Member.objects.create_user("harbour")
    service = Service.objects.create(
        name="harbour", url="https://harbour.example/mcp", visibility="everyone"
    )
    ToolDefinition.objects.create(service=service, hash="a" * 64, name="harbour_list")
    PolicyRule.objects.create(name="harbour is closed", effect="deny")
    provider = ModelProvider.objects.create(slug="port", kind="openai-chat", label="Port")
    ChatModel.objects.create(provider=provider, name="harbour-1")
    call = rows.call(rows.turn(owner), service=service)
    Exchange.objects.create(
        service=service, operation="call_tool", operation_id=call.pk, method="POST"
    )
    return str(call.pk)


def find(client: Client, text: str) -> list[str]:
    """Return the kinds of what was found."""
    answer: Any = client.get(FIND, {"q": text})
    assert answer.status_code == 200
    return [each.text for each in parse(answer.content.decode()).all("h2")]


def test_everything_is_found_by_its_name(admin_client: Client, number: str) -> None:
    kinds = ["People", "Services", "Who can…", "Tools", "Rules", "Models"]
    assert find(admin_client, "Harbour") == kinds


def test_calls_rules_and_operations_are_found_by_their_number(
    admin_client: Client, number: str
) -> None:
    assert find(admin_client, number[:8]) == ["Tool calls"]
    assert find(admin_client, number) == ["Tool calls", "Operations"]
    assert "Rules" in find(admin_client, str(PolicyRule.objects.get().pk))


@pytest.mark.parametrize("text", ["nothing-like-it", "%", "\0", "9" * 90, "dead-beef-00", "é" * 50])
def test_what_is_not_there_is_said_to_be_nothing(
    admin_client: Client, number: str, text: str
) -> None:
    answer: Any = admin_client.get(FIND, {"q": text})
    assert answer.status_code == 200
    assert not parse(answer.content.decode()).all("h2")


@pytest.mark.parametrize(
    ("right", "kinds"),
    [
        ("services", ["Services", "Tools"]),
        ("models", ["Services", "Models"]),
        ("people", ["People"]),
        ("policy", ["People", "Services", "Who can…", "Tools", "Rules"]),
        ("system", []),
    ],
)
def test_each_kind_needs_its_right(number: str, right: str, kinds: list[str]) -> None:
    clerk = Member.objects.create_user(
        "clerk", password="a-long-password", is_staff=True, rights=[right]
    )
    assert find(signed_in(clerk), "harbour") == kinds


@pytest.mark.parametrize("right", ["services", "people", "models", "system"])
def test_calls_are_not_found_without_the_right_to_them(number: str, right: str) -> None:
    clerk = Member.objects.create_user(
        "clerk", password="a-long-password", is_staff=True, rights=[right]
    )
    assert find(signed_in(clerk), number) == []


def test_hidden_characters_of_a_name_are_drawn(admin_client: Client, number: str) -> None:
    ToolDefinition.objects.update(name="harbour\u202e_list")
    ToolCall.objects.update(tool_id="harbour\u202e_list")
    for text in ("harbour", number[:8]):
        page = admin_client.get(FIND, {"q": text}).content.decode()
        assert "harbour" in page and "\u202e" not in page


def test_a_search_is_bounded(
    admin_client: Client, number: str, django_assert_max_num_queries: Any
) -> None:
    for each in range(30):
        Member.objects.create_user(f"harbour-{each}")
    with django_assert_max_num_queries(MOST_STATEMENTS):
        page = parse(admin_client.get(FIND, {"q": "harbour"}).content.decode())
    assert len(page.with_class("links")[0].all("li")) == 8
