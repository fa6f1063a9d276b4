"""The ledger: the same content is the same row, and everything that a person consents to counts."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from mcpconfig.models import Service, ToolDefinition, ToolSetting
from mcpconfig.operations.tool_listing import load_fresh_tools
from mcpconfig.services import tool_definitions
from mcpconfig.values.results import Tool, canonical_json, make_storable

TOOL = Tool(name="act", title="Act", description="Acts.", input_schema={"type": "object"})


@pytest.fixture
def service() -> Service:
    return Service.objects.create(name="one", url="https://one.example/mcp")


def test_the_same_content_is_the_same_row(service: Service) -> None:
    first = tool_definitions.store_tools(service, [TOOL])
    second = tool_definitions.store_tools(service, [replace(TOOL)])

    assert [tool.pk for tool in first] == [tool.pk for tool in second]
    assert ToolDefinition.objects.count() == 1


@pytest.mark.parametrize(
    "change",
    [
        {"title": "Act!"},
        {"description": "Acts, and tells a stranger."},
        {"input_schema": {"type": "object", "properties": {"x": {}}}},
        {"output_schema": {"type": "object"}},
        {"annotations": {"readOnlyHint": True}},
    ],
)
def test_any_change_that_a_person_would_see_is_a_new_definition(
    service: Service, change: dict[str, Any]
) -> None:
    (before,) = tool_definitions.store_tools(service, [TOOL])
    (after,) = tool_definitions.store_tools(service, [replace(TOOL, **change)])

    before.refresh_from_db()
    assert before.hash != after.hash
    assert not before.is_current


def test_a_definition_that_comes_back_is_its_old_row(service: Service) -> None:
    (first,) = tool_definitions.store_tools(service, [TOOL])
    tool_definitions.store_tools(service, [])
    assert tool_definitions.list_current_tools(service) == []

    (again,) = tool_definitions.store_tools(service, [TOOL])

    assert again.pk == first.pk


def test_the_same_tool_at_another_endpoint_is_another_definition(service: Service) -> None:
    here = tool_definitions.hash_definition(service, TOOL)
    service.url = "https://two.example/mcp"

    assert tool_definitions.hash_definition(service, TOOL) != here


def test_a_new_url_leaves_no_tool_current(service: Service) -> None:
    tool_definitions.store_tools(service, [TOOL])

    service.url = "https://two.example/mcp"
    service.save()

    assert tool_definitions.list_current_tools(service) == []


def test_a_confirmed_tool_that_changes_is_changed_until_confirmed_again(service: Service) -> None:
    def state() -> str:
        (tool,) = tool_definitions.list_current_tools(service)
        return tool_definitions.describe_tool_state(
            tool, ToolSetting.objects.filter(name="act").first()
        )

    tool_definitions.store_tools(service, [TOOL])
    assert state() == "new"

    tool_definitions.confirm_tools(tool_definitions.list_current_tools(service))
    assert state() == "confirmed"

    tool_definitions.store_tools(service, [replace(TOOL, description="Other.")])
    assert state() == "changed"

    ToolSetting.objects.update(is_enabled=False)
    assert state() == "disabled"


def test_key_order_does_not_change_a_hash() -> None:
    one = replace(TOOL, input_schema={"a": 1, "b": [1.0, 2]})
    two = replace(TOOL, input_schema={"b": [1, 2.0], "a": 1})

    assert one.hash == two.hash


@pytest.mark.parametrize("value", [2**70, -(2**60), {"n": [2**64, "é", "\ud800"]}])
def test_numbers_and_text_beyond_the_standard_still_have_one_canonical_form(value: Any) -> None:
    assert canonical_json(value) == canonical_json(value)
    assert canonical_json([value]) != canonical_json([0])


def test_what_no_database_keeps_is_replaced() -> None:
    odd = {"a\x00": ["\x00", "\ud800", float("nan"), float("inf"), 1.5, None, True]}

    assert make_storable(odd) == {"a\ufffd": ["\ufffd", "?", None, None, 1.5, None, True]}


async def test_a_stale_list_is_asked_for_again(service: Service) -> None:
    """The address is unreachable, so asking fails, which proves that it asked."""
    service.url = "https://127.0.0.1:9/mcp"
    service.tools_fresh_until = timezone.now() + timedelta(seconds=60)
    assert await load_fresh_tools(service) == []

    service.tools_fresh_until = timezone.now() - timedelta(seconds=1)
    with pytest.raises(Exception, match="not allowed"):
        await load_fresh_tools(service)
