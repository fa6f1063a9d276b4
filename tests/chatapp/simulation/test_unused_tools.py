"""Tools that nobody has called for 60 days are listed, and switched off and on again."""

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from chatapp.models import LogEntry, Member, PolicyTest, Turn
from chatapp.simulation.unused_tools import UNUSED_DAYS, list_unused
from mcpconfig.models import Service, ToolDefinition, ToolSetting
from mcpconfig.services.tool_definitions import confirm_tools
from tests.conftest import signed_in
from tests.turns import rows

pytestmark = pytest.mark.django_db
QUESTIONS = "/admin/chatapp/policyrule/questions/"
LONG = timedelta(days=UNUSED_DAYS + 1)


@pytest.fixture
def tool() -> ToolDefinition:
    made = rows.definition()
    confirm_tools([made])
    ToolDefinition.objects.update(first_seen_at=timezone.now() - LONG)
    return made


def names() -> list[str]:
    return [each.definition.name for each in list_unused()[0]]


def call(person: Member, tool: ToolDefinition, ago: timedelta) -> None:
    turn = rows.turn(person, Turn.State.DONE)
    rows.call(turn, {}, "succeeded", definition=tool)
    Turn.objects.filter(pk=turn.pk).update(created_at=timezone.now() - ago)


def test_a_tool_that_was_not_called_for_so_long_is_listed(
    owner: Member, tool: ToolDefinition
) -> None:
    assert names() == ["delete_note"]
    call(owner, tool, LONG)
    assert names() == ["delete_note"]
    call(owner, tool, timedelta(days=3))
    assert names() == []


@pytest.mark.parametrize(
    "change",
    [
        lambda: ToolDefinition.objects.update(first_seen_at=timezone.now()),
        lambda: ToolDefinition.objects.update(is_current=False),
        lambda: ToolSetting.objects.update(confirmed_hash="other"),
        lambda: ToolSetting.objects.update(is_enabled=False),
        lambda: Service.objects.update(is_enabled=False),
    ],
    ids=["new", "gone", "not confirmed", "off", "service off"],
)
def test_other_tools_are_not_listed(tool: ToolDefinition, change: Any) -> None:
    change()
    assert names() == []


def switch(client: Client, act: str, *tools: ToolDefinition) -> Any:
    address = reverse("admin:mcpconfig_service_unused")
    return client.post(address, {"act": act, "tool": [each.pk for each in tools]}, follow=True)


def is_on(tool: ToolDefinition) -> bool:
    return ToolSetting.objects.get(name=tool.name).is_enabled


def test_tools_are_switched_off_and_on_again(admin_client: Client, tool: ToolDefinition) -> None:
    html = admin_client.get(QUESTIONS).content.decode()
    assert "Not used in 60 days: switch off?" in html and f'value="{tool.pk}"' in html
    html = switch(admin_client, "off", tool).content.decode()
    assert not is_on(tool) and "Switched 1 tool off" in html and "Switch on again" in html
    html = switch(admin_client, "on", tool).content.decode()
    assert is_on(tool) and "1 tool is on again" in html
    entries = LogEntry.objects.filter(kind=LogEntry.Kind.TOOL, actor_name="admin")
    assert ["is_enabled" in each.data for each in entries] == [True, True]
    assert not any("switched_on_at" in each.data for each in entries)


def test_one_that_was_switched_on_again_is_left_out_for_as_long(
    admin_client: Client, tool: ToolDefinition
) -> None:
    switch(admin_client, "off", tool)
    switch(admin_client, "on", tool)
    assert names() == []
    ToolSetting.objects.update(switched_on_at=timezone.now() - LONG)
    assert names() == ["delete_note"]


@pytest.mark.parametrize("fields", [{}, {"update_fields": ["is_enabled"]}], ids=["all", "one"])
def test_however_it_is_switched_on_again_the_time_is_stored(
    tool: ToolDefinition, fields: Any
) -> None:
    setting = ToolSetting.objects.get(name=tool.name)
    setting.save(**fields)
    assert names() == ["delete_note"]
    setting.is_enabled = False
    setting.save(**fields)
    setting.is_enabled = True
    setting.save(**fields)
    setting.refresh_from_db()
    assert setting.switched_on_at is not None and names() == []


def test_a_tool_that_was_used_meanwhile_stays_on(
    admin_client: Client, owner: Member, tool: ToolDefinition
) -> None:
    call(owner, tool, timedelta(minutes=1))
    html = switch(admin_client, "off", tool).content.decode()
    assert is_on(tool) and "Nothing was changed" in html


def test_a_switch_that_breaks_a_policy_test_is_said(
    admin_client: Client, owner: Member, tool: ToolDefinition
) -> None:
    PolicyTest.objects.create(
        name="Asks", person=owner, service=tool.service, tool=tool.name, expected="ask"
    )
    Service.objects.update(visibility="everyone")
    html = switch(admin_client, "off", tool).content.decode()
    assert not is_on(tool) and "These policy tests now fail" in html


@pytest.mark.parametrize("posted", [[], ["x"], ["9" * 30], ["0"]])
def test_what_is_no_tool_changes_nothing(
    admin_client: Client, tool: ToolDefinition, posted: list[str]
) -> None:
    address = reverse("admin:mcpconfig_service_unused")
    answer = admin_client.post(address, {"act": "off", "tool": posted}, follow=True)
    assert "Select at least one unused tool first" in answer.content.decode()
    assert admin_client.get(QUESTIONS, {"off": posted}).status_code == 200


@pytest.mark.parametrize("right", ["policy", "audit"])
def test_an_admin_without_the_right_to_services_sees_them_and_switches_nothing(
    stranger: Member, tool: ToolDefinition, right: str
) -> None:
    stranger.is_staff, stranger.rights = True, [right]
    stranger.save()
    client = signed_in(stranger)
    html = client.get(QUESTIONS).content.decode()
    assert "Not used in 60 days" in html and 'name="tool"' not in html
    assert switch(client, "off", tool).status_code == 403 and is_on(tool)


def test_the_page_costs_the_same_for_many_tools_and_calls(
    admin_client: Client, owner: Member, tool: ToolDefinition, django_assert_max_num_queries: Any
) -> None:
    for number in range(60):
        made = rows.definition(f"get_{number}")
        confirm_tools([made])
    ToolDefinition.objects.update(first_seen_at=timezone.now() - LONG)
    for number in range(10):
        for _ in range(10):
            made_turn = rows.turn(owner, Turn.State.DONE)
            row = rows.question(made_turn, {"n": number}, risk="high", tool_name=f"get_{number}")
            row.approval.state = "granted"
            row.approval.save()
    with django_assert_max_num_queries(25):
        html = admin_client.get(QUESTIONS).content.decode()
    assert "50 of 61" in html
