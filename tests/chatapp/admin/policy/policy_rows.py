"""A service whose tools are known and confirmed, and rows of policy about it."""

from typing import Any

from django.contrib.auth.models import Group

from chatapp.models import Member, PolicyRule, PolicyTest
from mcpconfig.models import Service, ToolDefinition, ToolSetting

TOOLS = {"read_label": "low", "change_label": "medium", "delete_label": "high"}


def shop(**fields: Any) -> Service:
    """Its tools are confirmed and have the levels that their names tell."""
    values = {"title": "Shop", "url": "https://shop.example/mcp", "visibility": "everyone"} | fields
    service = Service.objects.create(name="shop", **values)
    for tool in TOOLS:
        ToolDefinition.objects.create(
            service=service, name=tool, hash=f"hash-{tool}", input_schema={"type": "object"}
        )
        ToolSetting.objects.create(service=service, name=tool, confirmed_hash=f"hash-{tool}")
    return service


def group_of(*members: Member, name: str = "Finance") -> Group:
    group, _is_new = Group.objects.get_or_create(name=name)
    group.user_set.add(*members)
    return group


def rule(effect: str, *groups: Group, name: str = "A rule", **fields: Any) -> PolicyRule:
    row = PolicyRule.objects.create(name=name, effect=effect, **fields)
    row.groups.set(groups)
    return row


def policy_test(
    person: Member, service: Service | None, tool: str, expected: str, **fields: Any
) -> PolicyTest:
    values = {"name": f"{tool} must {expected}"} | fields
    return PolicyTest.objects.create(
        person=person, service=service, tool=tool, expected=expected, **values
    )
