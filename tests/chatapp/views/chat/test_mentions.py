"""What `@` offers while somebody types: what they may use, named so that a message means it."""

from typing import Any

import pytest
from django.http import HttpResponse
from django.test import Client

from chatapp.models import Member, PolicyRule
from chatapp.tools.mentions import MAX_SUGGESTIONS, suggest_mentions
from chatapp.tools.selection import Mention, parse_mentions
from mcpconfig.models import Service, ToolDefinition, ToolSetting
from tests.dom_tree import Element, parse

HTMX = {"HX-Request": "true"}


def tool(service: Service, name: str, **fields: Any) -> ToolDefinition:
    made = ToolDefinition.objects.create(
        service=service, hash=f"{service.name}/{name}", name=name, **fields
    )
    ToolSetting.objects.create(service=service, name=name, confirmed_hash=made.hash)
    return made


@pytest.fixture(autouse=True)
def memos(db: Any) -> Service:
    service = Service.objects.create(
        name="memos",
        title="Team memos",
        url="https://memos.example/mcp",
        description="All memos.",
        visibility="everyone",
    )
    tool(service, "search_memos", description="Find memos by their words.")
    tool(service, "delete_memo", title="Delete a memo")
    return service


@pytest.fixture(autouse=True)
def wiki(db: Any) -> Service:
    service = Service.objects.create(
        name="wiki", url="https://wiki.example/mcp", visibility="everyone"
    )
    tool(service, "search")
    return service


def read_suggestions(client: Client, mention: str) -> Element:
    values = {"mention": mention, "text": f"Look at {mention}"}
    answer: HttpResponse = client.post("/attach/typed", values, headers=HTMX)  # type: ignore[assignment]
    return parse(answer.content.decode())


def names(page: Element) -> list[str]:
    return [each["data-fill"].rstrip() for each in page.all("button", data_at="cursor")]


@pytest.mark.parametrize(
    ("typed", "found"),
    [
        ("@", ["@memos", "@wiki"]),
        ("@me", ["@memos", "@memos/delete_memo", "@memos/search_memos"]),
        ("@MEM", ["@memos", "@memos/delete_memo", "@memos/search_memos"]),
        ("@team", ["@memos"]),
        ("@search", ["@wiki/search", "@memos/search_memos"]),
        ("@memos/", ["@memos/delete_memo", "@memos/search_memos"]),
        ("@memos/del", ["@memos/delete_memo"]),
        ("@Memos/memo", ["@memos/delete_memo", "@memos/search_memos"]),
        ("@memos/nothing", []),
        ("@nobody", []),
        ("@nobody/search", []),
        ("@me mo", []),
        ("@me@mo", []),
        ("@<b>", []),
        ("me", []),
        ("@" + "x" * 60_000, []),
        ("@memos/" + "x" * 60_000, []),
        ("@" + "x" * 255, []),
    ],
)
def test_what_fits_is_offered_as_one_types(
    owner_client: Client, typed: str, found: list[str]
) -> None:
    assert names(read_suggestions(owner_client, typed)) == found


def test_a_choice_says_what_it_is_and_what_it_may_do(owner_client: Client) -> None:
    page = read_suggestions(owner_client, "@memos/")
    remove, search = page.all("button", data_at="cursor")
    assert "Delete a memo" in remove.text
    assert (remove.one("span", class_="badge").text, remove.one("span")["data-risk"]) == (
        "High risk",
        "high",
    )
    assert "Low risk Find memos by their words." in search.text


def test_the_page_is_told_for_which_word_these_are(owner_client: Client) -> None:
    assert read_suggestions(owner_client, "@me").all("ul", data_typed="@me") != []


def test_every_choice_is_found_again_in_the_message(owner: Member, wiki: Service) -> None:
    for name in ("get page/v2", "naïve.", "a.b:c", "x y"):
        tool(wiki, name)
    choices = suggest_mentions(owner, "@wiki/").choices
    assert len(choices) == 5
    for choice in choices:
        (mention,) = parse_mentions(f"Ask {choice.text} now")
        assert str(mention) == choice.text
        assert mention.service == "wiki"
    assert parse_mentions(suggest_mentions(owner, "@wi").choices[0].text) == (Mention("wiki"),)


@pytest.mark.parametrize(
    ("field", "value", "state"),
    [
        ("confirmed_hash", "", "Not confirmed yet, so it asks."),
        ("confirmed_hash", "another", "Changed recently, so it asks."),
    ],
)
def test_a_tool_that_will_ask_says_so(
    owner_client: Client, field: str, value: str, state: str
) -> None:
    ToolSetting.objects.filter(name="search").update(**{field: value})
    assert state in read_suggestions(owner_client, "@wiki/").one("button", data_at="cursor").text


def test_a_service_that_fails_says_so(owner_client: Client) -> None:
    Service.objects.filter(name="wiki").update(last_error={"kind": "refused"})
    texts = [
        each.text
        for each in read_suggestions(owner_client, "@wiki").all("button", data_at="cursor")
    ]
    assert [("Not available now." in text) for text in texts] == [True]


def test_what_an_admin_switched_off_is_not_offered(owner_client: Client) -> None:
    ToolSetting.objects.filter(name="delete_memo").update(is_enabled=False)
    Service.objects.filter(name="wiki").update(is_enabled=False)
    assert names(read_suggestions(owner_client, "@memos/")) == ["@memos/search_memos"]
    assert names(read_suggestions(owner_client, "@wiki")) == []


def test_a_tool_for_apps_alone_is_not_offered(owner_client: Client) -> None:
    ToolDefinition.objects.filter(name="search").update(meta={"ui": {"visibility": ["app"]}})
    assert names(read_suggestions(owner_client, "@wiki/")) == []


def test_a_stranger_is_offered_nothing_of_anothers(
    owner: Member, owner_client: Client, stranger_client: Client, admin_client: Client
) -> None:
    """Neither its name nor the names of its tools, and not to admins either."""
    Service.objects.update(visibility="private", owner=owner)
    for typed in ("@", "@me", "@search", "@memos/", "@team"):
        assert names(read_suggestions(owner_client, typed)) != []
        assert names(read_suggestions(stranger_client, typed)) == []
        assert names(read_suggestions(admin_client, typed)) == []


def test_tools_that_their_owner_keeps_to_himself_are_not_named_to_others(
    admin: Member, admin_client: Client, owner_client: Client
) -> None:
    Service.objects.filter(name="memos").update(shares_tools=False, owner=admin)
    assert names(read_suggestions(owner_client, "@me")) == ["@memos"]
    assert names(read_suggestions(owner_client, "@memos/")) == []
    assert len(names(read_suggestions(admin_client, "@memos/"))) == 2


def test_a_long_list_is_cut_and_says_so(owner_client: Client, wiki: Service) -> None:
    for number in range(30):
        tool(wiki, f"tool{number}")
    page = read_suggestions(owner_client, "@wiki/")
    assert len(names(page)) == MAX_SUGGESTIONS
    assert "Keep typing to narrow the list." in page.text
    assert "Type on" not in read_suggestions(owner_client, "@memos/").text


def test_it_costs_the_same_few_queries_however_many_tools_fit(
    owner_client: Client, wiki: Service, django_assert_max_num_queries: Any
) -> None:
    for number in range(30):
        tool(wiki, f"tool{number}")
    with django_assert_max_num_queries(8):
        read_suggestions(owner_client, "@tool")


def test_markup_and_hidden_characters_of_a_service_stay_harmless(
    owner_client: Client, wiki: Service
) -> None:
    tool(wiki, "odd", title="<img src=x>", description="plain\u202e\U000e0041<b hx-get=/x>")
    page = read_suggestions(owner_client, "@odd")
    assert page.all("img") == [] and page.all("b", hx_get="/x") == []
    button = page.one("button", data_at="cursor")
    assert "hx-ignore" in button
    assert "plain<b" in button.text


def test_how_many_there_are_is_said_aloud(owner_client: Client) -> None:
    page = read_suggestions(owner_client, "@memos/")
    said = page.one("div", hx_swap_oob="innerHTML:[data-announcements]")
    assert said.text.startswith("2 ")


def test_words_without_a_mention_close_the_list(owner_client: Client) -> None:
    answer = owner_client.post("/attach/typed", {"mention": "", "text": "Hello"}, headers=HTMX)
    closed = parse(answer.content.decode())
    assert [each["hx-swap-oob"] for each in closed.elements] == ["innerHTML:#picker"]


def test_what_a_rule_forbids_is_not_offered(
    owner_client: Client, memos: Service, wiki: Service
) -> None:
    PolicyRule.objects.create(name="No deleting", effect="deny", tool="delete_memo")
    PolicyRule.objects.create(name="No wiki", effect="deny", service=wiki)
    assert names(read_suggestions(owner_client, "@me")) == ["@memos", "@memos/search_memos"]
    assert names(read_suggestions(owner_client, "@")) == ["@memos"]
