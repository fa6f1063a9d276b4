"""Finding tools by words: the best first, in a stable order, and only where there are too many."""

import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatapp.permissions.risk import Risk
from chatapp.tools.catalogue import CatalogueTool
from chatapp.tools.core import CORE_TOOLS
from chatapp.tools.tool_id import tool_id
from chatapp.tools.tool_search import choose_sent_tools, search_tools


def tool(service: str, name: str, description: str = "") -> CatalogueTool:
    return CatalogueTool(
        tool_id=tool_id(service, name),
        description=f"[MCP:{service}] {description}",
        input_schema={},
        service_id=1,
        service_name=service,
        tool_name=name,
        definition_id=1,
        definition_hash="h",
        endpoint="e",
        risk=Risk(level="low", reasons=("r",)),
        is_confirmed=True,
        is_safe_to_repeat=False,
    )


def catalogue(*tools: CatalogueTool) -> dict[str, CatalogueTool]:
    return {each.tool_id: each for each in tools}


SHELVES = catalogue(
    tool("forge", "list_pull_requests", "List the pull requests of a repository."),
    tool("forge", "merge_pull_request", "Merge one."),
    tool("forge", "create_issue", "Open an issue in a repository."),
    tool("mail", "sendMessage", "Send a message to people."),
    tool("mail", "search-threads", "Find conversations by words."),
    tool("weather", "get_forecast", "The weather of the days to come."),
)


@pytest.mark.parametrize(
    ("query", "best"),
    [
        ("list pull requests", "forge_list_pull_requests"),
        ("listing the pull request", "forge_list_pull_requests"),
        ("merging", "forge_merge_pull_request"),
        ("send a mail message", "mail_sendMessage"),
        ("search conversations", "mail_search-threads"),
        ("forecast", "weather_get_forecast"),
        ("new issues", "forge_create_issue"),
    ],
)
def test_the_best_tool_for_some_words_comes_first(query: str, best: str) -> None:
    assert search_tools(query, SHELVES)[0] == best


@pytest.mark.parametrize("query", ["", "?!", "xylophone"])
def test_words_that_nothing_has_find_nothing(query: str) -> None:
    assert search_tools(query, SHELVES) == []


@given(query=st.text(max_size=60), order=st.permutations(list(SHELVES)))
def test_the_order_of_the_catalogue_changes_nothing(query: str, order: list[str]) -> None:
    assert search_tools(query, {name: SHELVES[name] for name in order}) == search_tools(
        query, SHELVES
    )


def test_all_tools_are_told_while_there_is_room() -> None:
    tools = list(SHELVES.values())
    weights = dict.fromkeys(SHELVES, 10)
    assert choose_sent_tools(tools, weights, 60, []) == (tools, 0)


def test_beyond_that_only_loaded_ones_are_in_the_order_of_loading() -> None:
    weights = dict.fromkeys(SHELVES, 10)
    loaded = ["weather_get_forecast", "gone_since", "mail_sendMessage"]
    told, saved = choose_sent_tools(list(SHELVES.values()), weights, 59, loaded)
    assert [each.tool_id for each in told] == ["weather_get_forecast", "mail_sendMessage"]
    assert saved == 40


@given(service=st.text(min_size=1, max_size=20), name=st.text(min_size=1, max_size=20))
def test_no_service_can_have_a_tool_under_the_id_of_a_core_tool(service: str, name: str) -> None:
    assert tool_id(service, name) not in CORE_TOOLS
    assert all("_" not in core for core in CORE_TOOLS)


@pytest.mark.long
def test_five_thousand_tools_are_searched_without_a_pause_that_anybody_feels() -> None:
    words = ["invoice", "order", "user", "report", "ticket", "page", "branch", "file"]
    many: dict[str, Any] = catalogue(
        *(
            tool(f"s{n % 200}", f"get_{words[n % 8]}_{n}", f"About {words[n % 7]}.")
            for n in range(5_000)
        )
    )
    began = time.perf_counter()
    assert search_tools("get the invoice of an order", many)
    assert time.perf_counter() - began < 3
