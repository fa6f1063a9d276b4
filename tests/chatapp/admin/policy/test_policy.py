"""Rules, limits, tests and the policy for everybody in the admin: what is said is stored, and what
would break a policy test is not."""

import json
from typing import Any

import pytest
from django.test import Client

from chatapp.models import HousePolicy, LogEntry, Member, PolicyRule, PolicyTest, ToolLimit
from chatapp.permissions.rules import OWN_TOOLS
from chatapp.policy.stored_policy import build_house, build_limit, build_rule
from chatapp.tools.core import CORE_TOOLS
from tests.dom_tree import Element, parse

from .policy_rows import group_of, policy_test, rule, shop

pytestmark = [pytest.mark.django_db, pytest.mark.timeout(300)]

RULES = "/admin/chatapp/policyrule/"
TESTS = "/admin/chatapp/policytest/"
LIMITS = "/admin/chatapp/toollimit/"
HOUSE = "/admin/chatapp/housepolicy/1/change/"
AS_IT_IS = {
    "runs_up_to": "low",
    "widest_consent": "service",
    "consent_days": "90",
}


def typed(**fields: Any) -> dict[str, Any]:
    return {"name": "Big orders", "effect": "allow", "is_enabled": "on", **fields}


def page(answer: Any) -> Element:
    assert answer.status_code == 200
    return parse(answer.content.decode())


def said(answer: Any) -> str:
    return page(answer).text


def test_a_rule_is_stored_as_it_was_typed(admin_client: Client, owner: Member) -> None:
    service, finance = shop(), group_of(owner)
    answer = admin_client.post(
        f"{RULES}add/",
        typed(
            service=service.pk,
            tool="change_label",
            groups=[finance.pk],
            levels=["medium", "high"],
            condition=' amount < 100 and currency == "EUR" ',
            note="Small sums.",
        ),
    )
    assert answer.status_code == 302
    row = PolicyRule.objects.get()
    assert (row.service, row.tool, list(row.groups.all())) == (service, "change_label", [finance])
    assert (row.levels, row.note) == (["medium", "high"], "Small sums.")
    assert row.condition == 'amount < 100 and currency == "EUR"'
    listed = said(admin_client.get(RULES))
    assert (
        "Lets “change_label” of Shop run. Only for members of Finance. Only at this risk: medium, "
        'high. Only if amount < 100 and currency == "EUR".' in listed
    )


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"effect": "deny"}, "Refuses every tool."),
        ({"effect": "ask", "tool": "x"}, "Asks every time before “x” of any service runs."),
        ({"effect": "allow", "levels": ["low"]}, "Lets every tool run. Only at this risk: low."),
    ],
)
def test_a_row_says_what_its_rule_does(
    admin_client: Client, fields: dict[str, Any], sentence: str
) -> None:
    rule(**fields)
    assert sentence in said(admin_client.get(RULES))


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"condition": "amount <"}, "This is not a condition. Example:"),
        ({"condition": 'name =~ "(a+)+"'}, "Patterns are not supported."),
        ({"tool": "delte_label"}, "Shop has never offered this tool. Its tools: “change_label”"),
        ({"effect": ""}, "This field is required."),
    ],
)
def test_what_cannot_be_a_rule_is_said_at_its_field_and_what_was_typed_stays(
    admin_client: Client, fields: dict[str, Any], problem: str
) -> None:
    values = typed(service=shop().pk, note="Kept as typed.", **fields)
    answer = admin_client.post(f"{RULES}add/", values)
    assert problem in said(answer)
    assert page(answer).one("input", name="note")["value"] == "Kept as typed."
    assert not PolicyRule.objects.exists()


def test_a_name_that_no_tool_of_the_rule_has_is_refused_at_its_field(admin_client: Client) -> None:
    values = typed(is_core="on", tool="remember", condition='txt != "secret"')
    assert "has a value named “txt”. Did you mean “text”?" in said(
        admin_client.post(f"{RULES}add/", values)
    )
    assert not PolicyRule.objects.exists()
    values["condition"] = 'text != "secret"'
    assert admin_client.post(f"{RULES}add/", values).status_code == 302


def test_the_tools_that_services_offer_are_there_to_choose(admin_client: Client) -> None:
    shop()
    form = page(admin_client.get(f"{RULES}add/"))
    offered = form.one("datalist", id=form.one("input", name="tool")["list"])
    names = [option["value"] for option in offered.all("option")]
    assert names == [*sorted(CORE_TOOLS), "change_label", "delete_label", "read_label"]
    assert offered.all("option")[0].text == "Countersign"


def test_a_rule_and_a_limit_are_about_one_of_our_own_tools_alone(admin_client: Client) -> None:
    shop()
    ours = {"is_core": "on", "tool": "remember"}
    assert admin_client.post(f"{RULES}add/", typed(effect="deny", **ours)).status_code == 302
    assert admin_client.post(f"{LIMITS}add/", ours | {"calls": 2}).status_code == 302
    assert "Refuses “remember” of Countersign." in said(admin_client.get(RULES))
    limits = said(admin_client.get(LIMITS))
    assert "calls of “remember” of Countersign need approval after 2 per day" in limits
    assert build_rule(PolicyRule.objects.get(), ()).service == OWN_TOOLS
    assert build_limit(ToolLimit.objects.get()).service == OWN_TOOLS


@pytest.mark.parametrize("address", [RULES, LIMITS])
def test_a_tool_is_of_a_service_or_ours_and_not_both(admin_client: Client, address: str) -> None:
    values = typed(calls=2, is_core="on", tool="remember")
    both = values | {"service": shop().pk}
    assert "Choose a service or the built-in tools, not both." in said(
        admin_client.post(f"{address}add/", both)
    )
    wrong = values | {"tool": "read_label"}
    assert "Countersign has never offered this tool. Its tools: “add-service”" in said(
        admin_client.post(f"{address}add/", wrong)
    )
    assert not PolicyRule.objects.exists() and not ToolLimit.objects.exists()


def test_a_rule_that_asks_and_the_house_may_want_the_name_typed(admin_client: Client) -> None:
    """A click is not enough where an admin requires the name to be typed."""
    values = typed(tool="pay", wants_typing="on")
    wrong = said(admin_client.post(f"{RULES}add/", values))
    assert "Only a rule that asks can require a typed confirmation." in wrong
    assert admin_client.post(f"{RULES}add/", values | {"effect": "ask"}).status_code == 302
    assert build_rule(PolicyRule.objects.get(), ()).wants_typing
    assert "runs. To approve it, the member types the tool’s name." in said(admin_client.get(RULES))

    for types_high in ({"types_high": "on"}, {}):
        assert admin_client.post(HOUSE, AS_IT_IS | types_high).status_code == 302
        assert build_house(HousePolicy.current()).types_high is bool(types_high)


def test_no_form_shows_what_nothing_does_yet(admin_client: Client) -> None:
    forms = page(admin_client.get(f"{RULES}add/")), page(admin_client.get(HOUSE))
    names = {each.attributes.get("name", "") for form in forms for each in form.all()}
    assert not names & {"approvers", "substitutes", "deadline_hours", "approvers_of_high"}


# --- policy tests hold saves back -----------------------------------------------------------


@pytest.mark.parametrize(
    ("address", "values", "decided"),
    [
        (f"{RULES}add/", typed(), "runs without asking. Runs because an admin rule allows it."),
        (f"{RULES}add/", typed(effect="deny"), "is refused."),
        (
            HOUSE,
            AS_IT_IS | {"runs_up_to": "medium"},
            "runs without asking. Runs because",
        ),
    ],
)
def test_a_save_that_would_make_a_policy_test_fail_is_held_back_and_says_why(
    admin_client: Client, owner: Member, address: str, values: dict[str, Any], decided: str
) -> None:
    policy_test(owner, shop(), "change_label", "ask", name="Changes are asked")
    answer = admin_client.post(address, values)
    words = said(answer)
    assert "Nothing was saved, because a policy test would fail." in words
    assert f"“Changes are asked”. Expected: needs approval. Actual: {decided}" in words
    assert not PolicyRule.objects.exists()
    assert HousePolicy.current().runs_up_to == "low"


def test_a_limit_that_would_make_a_policy_test_fail_is_held_back(
    admin_client: Client, owner: Member
) -> None:
    service = shop()
    policy_test(owner, service, "read_label", "allow")
    answer = admin_client.post(f"{LIMITS}add/", {"service": service.pk, "tool": "", "calls": "0"})
    assert "you used this tool 0 times today" in said(answer)
    assert not ToolLimit.objects.exists()


def test_a_rule_for_others_and_a_rule_that_is_off_break_nothing(
    admin_client: Client, owner: Member, stranger: Member
) -> None:
    policy_test(owner, shop(), "change_label", "ask")
    others = typed(groups=[group_of(stranger).pk])
    off = typed()
    del off["is_enabled"]
    for values in (others, off):
        assert admin_client.post(f"{RULES}add/", values).status_code == 302
    assert PolicyRule.objects.count() == 2


def test_removing_a_rule_that_a_policy_test_needs_is_held_back(
    admin_client: Client, owner: Member
) -> None:
    service = shop()
    needed, free = rule("deny", tool="delete_label"), rule("deny", tool="another")
    policy_test(owner, service, "delete_label", "deny", name="Orders stay")
    answer = admin_client.post(f"{RULES}{needed.pk}/delete/", {"post": "yes"}, follow=True)
    assert "“Orders stay”. Expected: is refused. Actual: needs approval." in said(answer)
    assert admin_client.post(f"{RULES}{free.pk}/delete/", {"post": "yes"}).status_code == 302
    assert list(PolicyRule.objects.all()) == [needed]
    assert not page(admin_client.get(RULES)).all("select", name="action")


def test_a_test_that_fails_anyway_is_named_and_holds_nothing_back(
    admin_client: Client, owner: Member
) -> None:
    policy_test(owner, shop(), "read_label", "deny", name="Nobody reads")
    answer = admin_client.post(f"{RULES}add/", typed(tool="other"), follow=True)
    assert "These policy tests fail: “Nobody reads”. Expected: is refused." in said(answer)
    assert PolicyRule.objects.exists()


# --- tests, limits, the house ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("expected", "verdict"),
    [("ask", "passes"), ("deny", "fails: needs approval"), ("allow", "fails")],
)
def test_the_list_of_tests_says_which_hold(
    admin_client: Client, owner: Member, expected: str, verdict: str
) -> None:
    policy_test(owner, shop(), "delete_label", expected, arguments={"id": 7}, mode="act")
    words = said(admin_client.get(TESTS))
    assert 'Call of “delete_label” of Shop for owner with {"id": 7}. Expected:' in words
    assert verdict in words


def test_a_policy_test_is_stored_and_says_at_once_that_it_fails(
    admin_client: Client, owner: Member
) -> None:
    service = shop()
    values = {"name": "T", "person": owner.pk, "service": service.pk, "tool": "delete_label"}
    more = {"arguments": '{"id": 7}', "mode": "act", "expected": "allow"}
    assert "never offered" in said(admin_client.post(f"{TESTS}add/", values | more | {"tool": "x"}))
    for wrong in ("[1]", "7", "{"):
        assert said(admin_client.post(f"{TESTS}add/", values | more | {"arguments": wrong}))
        assert not PolicyTest.objects.exists()
    answer = admin_client.post(f"{TESTS}add/", values | more, follow=True)
    assert "This test fails under the current policy. “T”. Expected: runs" in said(answer)
    assert PolicyTest.objects.get().arguments == {"id": 7}


def test_a_policy_test_about_our_own_tools_names_no_service(
    admin_client: Client, owner: Member
) -> None:
    values = {"name": "T", "person": owner.pk, "mode": "act", "expected": "two", "service": ""}
    wrong = said(admin_client.post(f"{TESTS}add/", values | {"tool": "read_label"}))
    assert "Countersign has never offered this tool." in wrong
    assert not PolicyTest.objects.exists()
    assert admin_client.post(f"{TESTS}add/", values | {"tool": "remember"}).status_code == 302
    listed = said(admin_client.get(TESTS))
    assert "Call of “remember” of Countersign for owner without arguments. Expected:" in listed
    assert "fails: needs one approval" in listed


def test_a_limit_says_what_it_does(admin_client: Client, owner: Member) -> None:
    ToolLimit.objects.create(service=shop(), calls=3, group=group_of(owner))
    ToolLimit.objects.create(tool="send", calls=1)
    words = said(admin_client.get(LIMITS))
    assert "For each member of Finance, calls of each tool of Shop need approval after 3" in words
    assert "For each member, calls of “send” of any service need approval after 1 per day." in words


def test_the_policy_for_everybody_is_one_page_without_a_list(admin_client: Client) -> None:
    opened = admin_client.get("/admin/chatapp/housepolicy/")
    assert (opened.status_code, opened["Location"]) == (302, HOUSE)
    assert admin_client.get(HOUSE).status_code == 200
    assert not HousePolicy.objects.exists()
    for asks in ({"asks_everything": "on"}, {}):
        assert admin_client.post(HOUSE, AS_IT_IS | asks).status_code == 302
        assert HousePolicy.objects.get().asks_everything is bool(asks)
    for address in (HOUSE.replace("1", "2"), "/admin/chatapp/housepolicy/add/"):
        assert admin_client.get(address).status_code in (302, 403)


@pytest.mark.parametrize("address", [RULES, TESTS, LIMITS, HOUSE, f"{RULES}add/"])
def test_only_admins_see_policy(stranger_client: Client, stranger: Member, address: str) -> None:
    assert stranger_client.get(address).status_code == 302
    stranger.is_staff = True
    stranger.save()
    assert stranger_client.get(address).status_code == 403


def test_allowed_hosts_are_stored_in_their_normal_form(admin_client: Client) -> None:
    hosts = "*.Bücher.test\r\n\r\n Example.COM. \r\n@example.com\r\nexample.com"
    assert admin_client.post(HOUSE, AS_IT_IS | {"allowed_hosts": hosts}).status_code == 302
    stored = "*.xn--bcher-kva.test\n@example.com\nexample.com"
    assert HousePolicy.objects.get().allowed_hosts == stored
    field = page(admin_client.get(HOUSE)).one("textarea", name="allowed_hosts")
    assert field.text.split() == stored.split()
    many = [f"host-{number}.example.com" for number in range(100, 200)]
    admin_client.post(HOUSE, AS_IT_IS | {"allowed_hosts": "\n".join(many)})
    logged = LogEntry.objects.filter(kind="policy.changed").latest("position")
    assert json.loads(logged.data)["changed"]["allowed_hosts"] == {
        "before": stored.split(),
        "after": many,
    }, "The log names every host."


@pytest.mark.parametrize("line", ["*", "https://example.com/", "user@example.com", "*.com", "1.2"])
def test_a_line_that_is_no_host_is_refused_at_its_field(admin_client: Client, line: str) -> None:
    answer = admin_client.post(HOUSE, AS_IT_IS | {"allowed_hosts": f"example.com\n{line}"})
    assert f"“{line}”" in said(answer)
    assert HousePolicy.current().allowed_hosts == ""


def test_a_policy_test_can_come_after_untrusted_content(
    admin_client: Client, owner: Member
) -> None:
    values = {"name": "T", "person": owner.pk, "service": shop().pk, "tool": "read_label"}
    more = {"arguments": '{"url": "https://a.test/"}', "mode": "act", "is_tainted": "on"}
    answer = admin_client.post(f"{TESTS}add/", values | more | {"expected": "ask"}, follow=True)
    assert "fails" not in said(answer)
    assert "After untrusted content. Expected: needs approval." in said(admin_client.get(TESTS))
    held = said(admin_client.post(HOUSE, AS_IT_IS | {"allowed_hosts": "a.test"}))
    assert "“T”. Expected: needs approval. Actual: runs without asking." in held
    assert admin_client.post(HOUSE, AS_IT_IS | {"allowed_hosts": "b.test"}).status_code == 302
