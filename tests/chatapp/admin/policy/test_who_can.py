"""The pages of who can use what, for the admins who may look that up, and for no other admin."""

from typing import Any
from urllib.parse import urlencode

import pytest
from bs4 import BeautifulSoup
from django.contrib.auth.models import Group, Permission
from django.test import Client

from chatapp.admin.policy.who_can import GROUPS_MAX
from chatapp.models import Member, PolicyRule
from mcpconfig.models import Service, ToolDefinition, ToolSetting
from tests.conftest import signed_in

pytestmark = pytest.mark.django_db
ROOT = "/admin/chatapp/policyrule"


@pytest.fixture
def shop(owner: Member) -> Service:
    service = Service.objects.create(
        name="shop", title="Shop", url="https://shop.example/mcp", visibility="everyone"
    )
    for name in ("find_note", "delete_note"):
        ToolDefinition.objects.create(
            service=service, hash=name, name=name, input_schema={"type": "object"}
        )
        ToolSetting.objects.create(service=service, name=name, confirmed_hash=name)
    group = Group.objects.create(name="Support")
    owner.groups.add(group)
    PolicyRule.objects.create(name="Support reads", effect="deny", tool="delete_note").groups.add(
        group
    )
    return service


def open_page(client: Client, address: str) -> BeautifulSoup:
    answer: Any = client.get(address)
    assert answer.status_code == 200
    return BeautifulSoup(answer.content, "html.parser")


def test_who_can_delete_in_a_service_is_three_clicks_away(
    admin_client: Client, shop: Service
) -> None:
    menu = open_page(admin_client, "/admin/")  # 1: the section Policy
    (link,) = [each for each in menu.select(".menu a") if each.text.strip() == "Who can…"]
    page = open_page(admin_client, str(link["href"]))  # 2
    (link,) = [each for each in page.select("a") if each.text == "Who can delete in Shop?"]
    page = open_page(admin_client, f"{ROOT}/who-can/{link['href']}")  # 3
    shown = {
        row.select_one("th").contents[0].text: row.select_one("td").text.strip()  # type: ignore[union-attr]
        for row in page.select(".matrix tbody tr")
    }
    assert [each.text for each in page.select(".matrix thead code")] == ["delete_note"]
    assert shown["Support"] == shown["owner"] == "Refused"
    assert shown["admin"] == shown["In no group"] == "Asks"
    assert "2 members" not in shown
    rule = page.select_one(".matrix .reason a")
    assert rule is not None and rule.text == "Support reads"
    assert admin_client.get(str(rule["href"])).status_code == 200


def test_the_tools_of_a_member_say_what_would_happen_and_why(
    admin_client: Client, owner: Member, shop: Service
) -> None:
    form = open_page(admin_client, f"/admin/chatapp/member/{owner.pk}/change/")
    (link,) = [each for each in form.select("a") if each.text == "Tools of this member"]
    page = open_page(admin_client, str(link["href"]))
    rows = {
        row.select_one("code").text: [cell.text.strip() for cell in row.select("td")][2:]  # type: ignore[union-attr]
        for row in page.select(".catalogue tbody tr")
    }
    assert rows["find_note"][0] == "Runs"
    assert rows["delete_note"] == [
        "Refused",
        "Refused because an admin rule forbids it. Support reads",
    ]


def read_catalogue(page: BeautifulSoup) -> dict[str, list[str]]:
    return {
        row.select_one("code").text: [cell.text.strip() for cell in row.select("td")]  # type: ignore[union-attr]
        for row in page.select(".catalogue tbody tr")
    }


def test_the_tools_of_a_member_begin_with_the_built_in_ones(
    admin_client: Client, owner: Member, shop: Service
) -> None:
    rule = PolicyRule.objects.create(name="No files", effect="deny", is_core=True)
    PolicyRule.objects.filter(pk=rule.pk).update(tool="search-conversations")
    page = open_page(admin_client, f"{ROOT}/as-member/?person={owner.pk}")
    found = read_catalogue(page)
    assert list(found)[-2:] == ["delete_note", "find_note"]
    assert found["search-files"][0] == "Built-in tools"
    assert found["search-files"][2] == "Runs"
    assert "Only in chats of a project with files." in found["search-files"][3]
    assert found["search-conversations"][2] == "Refused"
    assert "No files" in found["search-conversations"][3]
    assert found["add-service"][2:] == [
        "No access",
        "Only admins who manage services may use it.",
    ]
    plan = open_page(admin_client, f"{ROOT}/as-member/?person={owner.pk}&mode=plan")
    assert read_catalogue(plan)["forget"][2] == "Refused"


def test_who_can_asks_about_the_built_in_tools_too(
    admin_client: Client, owner: Member, shop: Service
) -> None:
    page = open_page(admin_client, f"{ROOT}/who-can/")
    (link,) = [each for each in page.select("a") if each.text == "Who can use the built-in tools?"]
    page = open_page(admin_client, f"{ROOT}/who-can/{link['href']}")
    assert page.select_one("option[value=built-in][selected]") is not None
    assert "add-service" in [each.text for each in page.select(".matrix thead code")]
    page = open_page(admin_client, f"{ROOT}/who-can/?service=built-in&tool=add-service")
    shown = {
        row.select_one("th").contents[0].text: row.select_one("td").text.strip()  # type: ignore[union-attr]
        for row in page.select(".matrix tbody tr")
    }
    assert (shown["owner"], shown["admin"], shown["Support"]) == ("No access", "Asks", "No access")
    assert "1 of 2 members can use at least one of these built-in tools." in page.text
    none = open_page(admin_client, f"{ROOT}/who-can/?service=built-in&tool=nothing")
    assert none.select_one("a[href*='service=built-in&kind=all']") is not None


# --- the form ------------------------------------------------------------------------------------
def read_form(page: BeautifulSoup) -> dict[str, str]:
    """Return what a browser would send without a change."""
    chosen = {
        str(field["name"]): str(option["value"])
        for field in page.select(".ask select")
        for option in (field.select_one("option[selected]") or field.select_one("option"),)
        if option is not None
    }
    typed = {str(field["name"]): str(field["value"]) for field in page.select(".ask input")}
    return chosen | typed


def list_titles(page: BeautifulSoup) -> list[str]:
    """Return the groups and the members of the matrix."""
    rows = page.select(".matrix tbody tr th")
    return [str(row.contents[0].text) for row in rows]


def list_tools(page: BeautifulSoup) -> list[str]:
    return [each.text for each in page.select(".matrix thead code")]


def test_one_tool_of_the_service_is_chosen_in_the_form(admin_client: Client, shop: Service) -> None:
    page = open_page(admin_client, f"{ROOT}/who-can/?service={shop.pk}&kind=changes")
    offered = [each.text for each in page.select("select[name=tool] option")]
    assert offered == ["All tools", "delete_note", "find_note"]
    sent = read_form(page) | {"tool": "find_note"}
    page = open_page(admin_client, f"{ROOT}/who-can/?{urlencode(sent)}")
    assert list_tools(page) == ["find_note"]
    shown = read_form(page)
    assert (shown["kind"], shown["tool"]) == ("all", "find_note")
    page = open_page(admin_client, f"{ROOT}/who-can/?{urlencode(shown | {'tool': ''})}")
    assert list_tools(page) == ["delete_note", "find_note"]


def test_a_tool_is_left_out_when_another_service_is_chosen(
    admin_client: Client, shop: Service
) -> None:
    page = open_page(admin_client, f"{ROOT}/who-can/?service={shop.pk}&tool=find_note")
    sent = read_form(page) | {"service": "built-in", "kind": "all"}
    page = open_page(admin_client, f"{ROOT}/who-can/?{urlencode(sent)}")
    assert "add-service" in list_tools(page)
    assert read_form(page)["tool"] == ""


def test_hidden_characters_of_a_tool_are_written_out(admin_client: Client, shop: Service) -> None:
    ToolDefinition.objects.create(
        service=shop, hash="odd", name="odd\u202e", input_schema={"type": "object"}
    )
    page = open_page(admin_client, f"{ROOT}/who-can/?service={shop.pk}&kind=all")
    assert "odd⟨U+202E⟩" in [each.text for each in page.select("select[name=tool] option")]


@pytest.mark.parametrize("query", ["ada", "LOVE", "ada lovelace", "a.l@navy", "countess"])
def test_a_member_is_found_in_the_matrix_by_name_and_address(
    admin_client: Client, shop: Service, query: str
) -> None:
    Member.objects.create_user(
        "countess", first_name="Ada", last_name="Lovelace", email="a.l@navy.example"
    )
    address = f"{ROOT}/who-can/?{urlencode({'service': shop.pk, 'kind': 'all', 'q': query})}"
    page = open_page(admin_client, address)
    assert list_titles(page) == ["Ada Lovelace"]
    assert "1 of 1 member can use" in page.text
    assert "This counts the members that match the search." in page.text
    assert read_form(page)["q"] == query


def test_a_search_finds_groups_and_says_when_nobody_matches(
    admin_client: Client, shop: Service
) -> None:
    page = open_page(admin_client, f"{ROOT}/who-can/?service={shop.pk}&q=upp")
    assert list_titles(page) == ["Support"]
    assert "No active member matches the search." in page.text
    page = open_page(admin_client, f"{ROOT}/who-can/?service={shop.pk}&mode=plan&q=zzz&page=3")
    assert "No active member and no group matches the search." in page.text
    assert page.select(".matrix") == []
    (link,) = [each for each in page.select("a") if each.text == "Show all members and groups"]
    page = open_page(admin_client, f"{ROOT}/who-can/{link['href']}")
    assert list_titles(page) == ["Support", "In no group", "admin", "owner"]
    assert read_form(page)["mode"] == "plan"


def test_groups_that_are_not_shown_are_counted_and_found(
    admin_client: Client, shop: Service
) -> None:
    for number in range(GROUPS_MAX - 1):
        Group.objects.create(name=f"A group {number:02}")
    address = f"{ROOT}/who-can/?service={shop.pk}"
    page = open_page(admin_client, address)
    assert "Support" in list_titles(page) and "not shown" not in page.text
    Group.objects.create(name="A new group")
    page = open_page(admin_client, address)
    assert "Support" not in list_titles(page)
    assert len(list_titles(page)) == GROUPS_MAX + len(["In no group", "admin", "owner"])
    assert "1 more group is not shown. Search for its name to see it." in page.text
    Group.objects.create(name="A newer group")
    assert "2 more groups are not shown." in open_page(admin_client, address).text
    page = open_page(admin_client, f"{address}&q=support")
    assert list_titles(page) == ["Support"] and "not shown" not in page.text


# --- one member ----------------------------------------------------------------------------------
def test_members_are_found_by_their_names(admin_client: Client, owner: Member) -> None:
    page = open_page(admin_client, f"{ROOT}/as-member/?q=own")
    assert [each.text for each in page.select(".choose b")] == ["owner"]
    assert "Nobody matches" in open_page(admin_client, f"{ROOT}/as-member/?q=zzz").text


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("?service=999", 404),
        ("?service=x", 404),
        (f"?service={'1' * 5000}", 404),
        ("?service={pk}&kind=what&mode=what&columns=x&page=x", 200),
        ("?service={pk}&tool=gone", 200),
        ("?service={pk}&tools_of=x&q=o%00wner", 200),
        ("?service={pk}&q=" + "a+" * 2000, 200),
    ],
)
def test_a_wrong_address_gets_a_page_or_404(
    admin_client: Client, shop: Service, query: str, status: int
) -> None:
    address = f"{ROOT}/who-can/{query.format(pk=shop.pk)}"
    assert admin_client.get(address).status_code == status


@pytest.mark.parametrize(
    ("query", "status"),
    [("?person=x", 404), (f"?person={'1' * 5000}", 404), ("?q=%00", 200), ("?q=o%00w%00n", 200)],
)
def test_a_wrong_member_gets_404_and_a_wrong_search_a_page(
    admin_client: Client, query: str, status: int
) -> None:
    assert admin_client.get(f"{ROOT}/as-member/{query}").status_code == status


@pytest.mark.parametrize("page", ["who-can", "as-member"])
@pytest.mark.parametrize("rights", [(), ("view_policyrule",), ("view_member",)])
def test_an_admin_needs_the_rights_to_rules_and_members(
    db: None, page: str, rights: tuple[str, ...]
) -> None:
    clerk = Member.objects.create_user("clerk", password="clerk-password", is_staff=True)
    for right in rights:
        clerk.user_permissions.add(Permission.objects.get(codename=right))
    assert signed_in(clerk).get(f"{ROOT}/{page}/").status_code == 403
    for right in ("view_policyrule", "view_member"):
        clerk.user_permissions.add(Permission.objects.get(codename=right))
    assert signed_in(clerk).get(f"{ROOT}/{page}/").status_code == 200


def test_the_page_costs_few_statements_however_many_people(
    admin_client: Client, shop: Service, django_assert_max_num_queries: Any
) -> None:
    for number in range(GROUPS_MAX + 5):
        Member.objects.create_user(f"person-{number}")
        Group.objects.create(name=f"group-{number}")
    for address in (
        f"{ROOT}/who-can/?service={shop.pk}&kind=all",
        f"{ROOT}/who-can/?service={shop.pk}&tool=find_note&q=person",
        f"{ROOT}/as-member/?person={Member.objects.get(username='owner').pk}",
    ):
        with django_assert_max_num_queries(25):
            admin_client.get(address)
