"""`mcp confirm`: what it shows before it confirms, and the yes that a terminal is asked for."""

import sys
from io import StringIO
from typing import Any

import pytest

from mcpconfig.models import Service, ToolSetting
from mcpconfig.services.tool_definitions import confirm_tools, store_tools
from mcpconfig.values.results import Tool
from tests.mcp_command import Ran

pytestmark = pytest.mark.timeout(300)


class Terminal(StringIO):
    """A terminal at which these lines are typed."""

    def isatty(self) -> bool:
        return True


def tool(name: str, description: str = "") -> Tool:
    return Tool(name=name, description=description, input_schema={"type": "object"})


@pytest.fixture
def shop() -> Service:
    """One tool that is confirmed, one that changed since, and two that are new."""
    made = Service.objects.create(name="shop", title="Shop", url="https://shop.example/mcp")
    confirm_tools(store_tools(made, [tool("find_order"), tool("list_orders")]))
    ToolSetting.objects.filter(name="list_orders").update(confirmed_hash="as-it-was")
    late = [tool("find_order"), tool("list_orders"), tool("delete_order"), tool("get_order")]
    store_tools(made, late)
    return made


def confirmed() -> set[str]:
    current = {
        each.name: each.hash for each in Service.objects.get().definitions.filter(is_current=True)
    }
    settings = ToolSetting.objects.values_list("name", "confirmed_hash")
    return {name for name, hash_ in settings if current[name] == hash_}


def shown(lines: str) -> dict[str, tuple[str, str]]:
    """The risk and the state of each tool that was named."""
    words = [line.split() for line in lines.splitlines() if "_order" in line]
    return {name: (risk, state) for name, risk, state, *_ in words}


def typed(monkeypatch: Any, text: str) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal(text))


def test_what_it_confirms_is_printed_with_risk_and_state(shop: Service) -> None:
    ran = Ran("confirm", "shop")
    assert ran.code == 0
    assert shown(ran.out) == {
        "list_orders": ("low", "changed"),
        "delete_order": ("high", "new"),
        "get_order": ("low", "new"),
    }
    assert "  high risk: " in ran.out
    assert ran.out.endswith("Confirmed 3 tools.\n")
    assert confirmed() == {"find_order", "list_orders", "delete_order", "get_order"}
    assert Ran("confirm", "shop").out == "No new or changed tools.\n"


def test_only_the_tools_that_are_named_are_confirmed(shop: Service) -> None:
    ran = Ran("confirm", "shop", "get_order", "list_orders", "get_order")
    assert set(shown(ran.out)) == {"get_order", "list_orders"}
    assert confirmed() == {"find_order", "get_order", "list_orders"}


def test_one_name_that_is_wrong_confirms_nothing(shop: Service) -> None:
    ran = Ran("confirm", "shop", "get_order", "bogus")
    assert (ran.code, confirmed()) == (1, {"find_order"})
    assert "no tool “bogus”" in ran.err


@pytest.mark.parametrize("answer", ["no\n", "\n", "y\n", ""])
def test_at_a_terminal_nothing_but_a_yes_confirms(
    shop: Service, monkeypatch: Any, answer: str
) -> None:
    typed(monkeypatch, answer)
    ran = Ran("confirm", "shop")
    assert ran.code == 1
    assert "Confirm these 3 tools? Type yes: " in ran.out
    assert "Nothing was confirmed." in ran.err
    assert confirmed() == {"find_order"}


def test_at_a_terminal_a_yes_confirms_what_was_shown(shop: Service, monkeypatch: Any) -> None:
    typed(monkeypatch, "yes\n")
    ran = Ran("confirm", "shop", "delete_order")
    assert ran.out.index("delete_order") < ran.out.index("Confirm this tool?")
    assert ran.out.endswith("Confirmed 1 tool.\n")
    assert confirmed() == {"find_order", "delete_order"}


def test_a_terminal_is_not_asked_where_the_yes_was_given(shop: Service, monkeypatch: Any) -> None:
    typed(monkeypatch, "no\n")
    ran = Ran("confirm", "shop", "--yes")
    assert "Write yes" not in ran.out
    assert len(confirmed()) == 4


def test_json_stays_alone_on_its_output(shop: Service, monkeypatch: Any) -> None:
    ran = Ran("confirm", "shop", "get_order", "--json")
    assert (ran.json, ran.err) == ({"confirmed": 1}, "")
    typed(monkeypatch, "yes\n")
    asked = Ran("confirm", "shop", "--json")
    assert asked.json == {"confirmed": 2}
    assert set(shown(asked.err)) == {"list_orders", "delete_order"}


def test_a_terminal_is_not_drawn_over_by_a_tool(shop: Service) -> None:
    store_tools(shop, [tool("get_order", "Gets.\x1b[2K\u202e")])
    assert "Gets.\ufffd[2K\ufffd" in Ran("confirm", "shop").out
