"""The table of a service's tools: what it says of each tool, how it is searched and sorted, and
what can be done with the selected ones."""

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Group, Permission
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from chatapp.admin.services import tool_rows, tools_page
from chatapp.admin.services.tool_rows import compute_p95
from chatapp.models import LogEntry, Member, PolicyRule, ToolCall
from mcpconfig.models import Service, ToolDefinition, ToolSetting
from mcpconfig.services.tool_definitions import confirm_tools, store_tools
from mcpconfig.values.results import Tool
from tests.dom_tree import Element, parse
from tests.turns import rows

pytestmark = [pytest.mark.django_db, pytest.mark.timeout(300)]

MOST_STATEMENTS = 25


def tool(name: str, **fields: Any) -> Tool:
    return Tool(name=name, input_schema={"type": "object"}, **fields)


@pytest.fixture
def service() -> Service:
    """A changed tool, a confirmed one, a new one with a high risk, and one that is off."""
    made = Service.objects.create(
        name="shop", title="Shop", url="https://shop.example/mcp", visibility="everyone"
    )
    confirm_tools(store_tools(made, [tool("find_order"), tool("list_orders")]))
    changed = tool("find_order", description="Find all orders of the shop.")
    store_tools(made, [changed, *map(tool, ("list_orders", "delete_order", "get_order"))])
    ToolSetting.objects.create(service=made, name="get_order", is_enabled=False)
    return made


def get(client: Client, service: Service, query: str = "") -> Element:
    answer = client.get(reverse("admin:mcpconfig_service_tools", args=[service.pk]) + query)
    assert answer.status_code == 200
    return parse(answer.content.decode())


def lines(page: Element) -> dict[str, Element]:
    return {row.one("code").text: row for row in page.one("tbody").all("tr") if row.all("code")}


def act(client: Client, service: Service, act: str, *names: str, **fields: str) -> Any:
    definitions = service.definitions.filter(is_current=True, name__in=names)
    data = {"act": act, "definition": [each.hash for each in definitions], **fields}
    return client.post(reverse("admin:mcpconfig_service_act_on_tools", args=[service.pk]), data)


def call(
    person: Member, service: Service, name: str, seconds: float, state: str, hours: int = 1
) -> None:
    sent = timezone.now() - timedelta(hours=hours)
    made = rows.turn(person)
    ToolCall.objects.create(
        turn=made,
        step=1,
        position=1,
        provider_call_id="call-1",
        tool_id=f"shop_{name}",
        tool_name=name,
        service=service,
        arguments="{}",
        state=state,
        sent_at=sent,
        finished_at=sent + timedelta(seconds=seconds),
    )


# --- what a row says -----------------------------------------------------------------------------
def test_a_row_tells_state_risk_and_policy(admin_client: Client, service: Service) -> None:
    found = lines(get(admin_client, service))

    assert list(found) == ["find_order", "delete_order", "list_orders", "get_order"]
    states = {name: row.one("td", data_label="State").text for name, row in found.items()}
    assert states == {
        "find_order": "changed",
        "delete_order": "new",
        "list_orders": "confirmed",
        "get_order": "disabled",
    }
    risk = found["delete_order"].one("td", data_label="Risk").text
    assert risk.startswith("high") and "deletes data" in risk
    policy = {name: row.one("td", data_label="Policy").text for name, row in found.items()}
    assert "Runs" in policy["list_orders"] and "Asks" in policy["find_order"]
    assert "Refused" in policy["get_order"]


def test_a_row_counts_uses_errors_and_the_slowest_calls(
    admin_client: Client, owner: Member, service: Service
) -> None:
    for seconds in range(1, 4):
        call(owner, service, "list_orders", seconds, "succeeded")
    call(owner, service, "list_orders", 8, "failed")
    found = lines(get(admin_client, service))

    assert "25.0 %" in found["list_orders"].one("td", data_label="Errors").text
    assert "4 calls" in found["list_orders"].one("td", data_label="Errors").text
    assert "8.0 s" in found["list_orders"].one("td", data_label="p95").text
    assert "never" in found["find_order"].one("td", data_label="Last used").text


def test_a_busy_tool_leaves_the_calls_of_others_timed(
    admin_client: Client, owner: Member, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The newest calls of each tool count, and older ones of the busy tool do not."""
    monkeypatch.setattr(tool_rows, "MAX_TIMED_CALLS", 3)
    call(owner, service, "list_orders", 50, "succeeded", hours=40)
    for hours in range(1, 5):
        call(owner, service, "list_orders", 1, "succeeded", hours=hours)
    for seconds in (6, 9):
        call(owner, service, "find_order", seconds, "succeeded", hours=30)
    call(owner, service, "find_order", 70, "succeeded", hours=24 * 31)
    page = get(admin_client, service)
    found = lines(page)
    assert found["list_orders"].one("td", data_label="p95").text == "1.0 s"
    assert found["find_order"].one("td", data_label="p95").text == "9.0 s"
    assert found["get_order"].one("td", data_label="p95").text == "–"
    assert "p95 the newest 100 calls of each tool" in page.text


@pytest.mark.parametrize(
    ("seconds", "p95"),
    [([2.0], 2.0), ([float(each) for each in range(1, 101)], 95.0), ([3.0, 1.0], 3.0)],
)
def test_p95_is_the_nearest_rank(seconds: list[float], p95: float) -> None:
    assert compute_p95(seconds) == p95


def test_groups_with_other_outcomes_are_named_with_the_rule(
    admin_client: Client, service: Service
) -> None:
    support, interns = (Group.objects.create(name=name) for name in ("Support", "Interns"))
    service.visibility = Service.Visibility.GROUPS
    service.save()
    service.groups.set([support, interns])
    rule = PolicyRule.objects.create(name="No interns", effect="deny", tool="list_orders")
    rule.groups.add(interns)

    policy = lines(get(admin_client, service))["list_orders"].one("td", data_label="Policy").text
    assert "Refused" in policy and "Interns" in policy and "No interns" in policy
    assert "Runs" in policy and "Support" in policy
    one = lines(get(admin_client, service, f"?group={support.pk}"))["list_orders"]
    assert "Refused" not in one.one("td", data_label="Policy").text


def test_groups_that_are_not_shown_are_counted(
    admin_client: Client, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    service.visibility = Service.Visibility.GROUPS
    service.save()
    service.groups.set(Group.objects.create(name=name) for name in ("Buyers", "Sales", "Support"))
    assert "have this service" not in get(admin_client, service).text
    monkeypatch.setattr(tool_rows, "MAX_GROUPS", 3)
    assert "have this service" not in get(admin_client, service).text
    monkeypatch.setattr(tool_rows, "MAX_GROUPS", 1)
    assert "2 more groups have this service." in get(admin_client, service).text
    sales = Group.objects.get(name="Sales")
    assert "have this service" not in get(admin_client, service, f"?group={sales.pk}").text


def test_a_tool_that_a_provider_leaves_out_says_so(admin_client: Client, service: Service) -> None:
    store_tools(service, [Tool(name="odd", input_schema={"type": "array"})])
    assert "Not for" in lines(get(admin_client, service))["odd"].text


def test_hidden_characters_are_drawn(admin_client: Client, service: Service) -> None:
    store_tools(service, [tool("find", description="Finds\u200b it.")])
    assert "U+200B" in lines(get(admin_client, service))["find"].text


# --- search, filter, sort ------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("?q=all+ORDERS", ["find_order"]),
        ("?state=new", ["delete_order"]),
        ("?level=high", ["delete_order"]),
        ("?sort=name", ["delete_order", "find_order", "get_order", "list_orders"]),
        ("?sort=risk", ["delete_order", "find_order", "get_order", "list_orders"]),
        ("?sort=tokens", ["find_order", "delete_order", "get_order", "list_orders"]),
        ("?sort=nonsense&state=nonsense&level=nonsense&group=x", None),
        ("?q=nothing-like-it", []),
    ],
)
def test_the_table_is_filtered_and_sorted(
    admin_client: Client, service: Service, query: str, names: list[str] | None
) -> None:
    found = list(lines(get(admin_client, service, query)))
    assert found == (names if names is not None else list(lines(get(admin_client, service))))


def test_the_number_of_statements_does_not_grow(
    admin_client: Client, owner: Member, django_assert_max_num_queries: Any
) -> None:
    services = [
        Service(name=f"s{number}", url=f"https://s{number}.example/mcp", visibility="everyone")
        for number in range(200)
    ]
    Service.objects.bulk_create(services)
    ToolDefinition.objects.bulk_create(
        ToolDefinition(
            service=made,
            hash=f"{place:064}",
            name=f"get_{place}",
            description="Gets a thing.",
            input_schema={"type": "object"},
        )
        for made, count in ((services[0], 1_000), *((each, 20) for each in services[1:]))
        for place in range(count)
    )
    assert ToolDefinition.objects.count() >= 4_900
    made = services[0]
    pages = ("tools", "status", "people", "changes", "sign_ins")
    for name in pages:
        address = reverse(f"admin:mcpconfig_service_{name}", args=[made.pk])
        with django_assert_max_num_queries(MOST_STATEMENTS):
            assert admin_client.get(address).status_code == 200
    with django_assert_max_num_queries(MOST_STATEMENTS):
        assert admin_client.get(reverse("admin:mcpconfig_service_connect")).status_code == 200
    assert len(lines(get(admin_client, made))) == 50
    assert "Page 2 of 20" in get(admin_client, made, "?page=2").text


# --- acts ----------------------------------------------------------------------------------------
def test_one_link_selects_all_tools_of_the_page(
    admin_client: Client, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tools_page, "ROWS_PER_PAGE", 2)
    page = get(admin_client, service, "?sort=name")
    assert not [each for each in page.all("input", name="definition") if "checked" in each]
    (select,) = [each for each in page.all("a") if each.text == "Select all on this page"]
    page = get(admin_client, service, select["href"])
    assert list(lines(page)) == ["delete_order", "find_order"]
    assert all("checked" in each for each in page.all("input", name="definition"))
    (clear,) = [each for each in page.all("a") if each.text == "Select none"]
    following = next(each for each in page.all("a") if each.text == "Next")
    for link in (clear, following):
        shown = get(admin_client, service, link["href"])
        boxes = shown.all("input", name="definition")
        assert len(boxes) == 2 and not [each for each in boxes if "checked" in each]
    assert page.one("input", name="query")["value"] == "sort=name", "an act selects nothing again"


def test_selected_tools_are_turned_off_and_on_and_logged(
    admin_client: Client, service: Service
) -> None:
    before = LogEntry.objects.count()
    answer = act(admin_client, service, "off", "find_order", "list_orders", query="sort=name")
    off = service.settings.filter(is_enabled=False).values_list("name", flat=True)

    assert answer.url.endswith("/tools/?sort=name")
    assert set(off) == {"find_order", "list_orders", "get_order"}
    assert LogEntry.objects.count() == before + 2
    act(admin_client, service, "on", "find_order")
    setting = service.settings.get(name="find_order")
    assert setting.is_enabled and setting.confirmed_hash


def test_a_risk_is_set_and_taken_back(admin_client: Client, service: Service) -> None:
    act(admin_client, service, "level", "list_orders", "get_order", level="high")
    assert set(service.settings.filter(level="high").values_list("name", flat=True)) == {
        "list_orders",
        "get_order",
    }
    row = lines(get(admin_client, service))["list_orders"].one("td", data_label="Risk").text
    assert row.startswith("high") and "set by an admin" in row
    act(admin_client, service, "level", "list_orders", level="assessed")
    assert service.settings.get(name="list_orders").level == ""


def test_selected_tools_are_read_before_they_are_confirmed(
    admin_client: Client, service: Service
) -> None:
    answer = act(admin_client, service, "review", "delete_order", "find_order")
    page = parse(answer.content.decode())
    boxes = page.all("input", name="definition")

    assert answer.status_code == 200
    assert len([box for box in boxes if "checked" in box]) == 2
    assert page.button("Confirm these tools")
    assert not service.settings.filter(name="delete_order").exists()


@pytest.mark.parametrize(
    ("name", "names", "fields"),
    [
        ("off", (), {}),
        ("level", ("list_orders",), {"level": "extreme"}),
        ("level", ("list_orders",), {}),
        ("explode", ("list_orders",), {}),
    ],
)
def test_a_bad_act_changes_nothing_and_says_so(
    admin_client: Client, service: Service, name: str, names: tuple[str, ...], fields: Any
) -> None:
    before = list(service.settings.values())
    answer = act(admin_client, service, name, *names, **fields)
    assert list(service.settings.values()) == before
    shown = admin_client.get(answer.url).content.decode()
    assert "Nothing was changed." in shown


def test_a_tool_of_another_service_is_not_touched(admin_client: Client, service: Service) -> None:
    other = Service.objects.create(
        name="other", url="https://other.example/mcp", visibility="everyone"
    )
    store_tools(other, [tool("buy")])
    definition = other.definitions.get()
    url = reverse("admin:mcpconfig_service_act_on_tools", args=[service.pk])
    admin_client.post(url, {"act": "off", "definition": definition.hash})
    assert not other.settings.exists()


def test_an_admin_who_may_only_view_changes_nothing(
    client: Client, owner: Member, service: Service
) -> None:
    owner.is_staff = True
    owner.save()
    owner.user_permissions.add(Permission.objects.get(codename="view_service"))
    client.force_login(owner)
    assert act(client, service, "off", "list_orders").status_code == 403
    assert service.settings.get(name="list_orders").is_enabled
