"""Policy changes in the admin: drafted with the forms of the policy, shown with their effects, and
decided by those who may."""

from typing import Any

import pytest
from bs4 import BeautifulSoup
from django.test import Client
from django.urls import reverse

from chatapp.models import HousePolicy, Member, PolicyChange, PolicyRule, SecondSignature, ToolLimit
from chatapp.policy_changes import drafting
from chatapp.policy_changes.rows import Kind, read_values
from mcpconfig.models import Service
from tests.conftest import signed_in
from tests.turns import rows

from .policy_rows import group_of, policy_test, rule, shop

pytestmark = [pytest.mark.django_db, pytest.mark.timeout(300)]
RULES = "/admin/chatapp/policyrule/"
LIMITS = "/admin/chatapp/toollimit/"
HOUSE = "/admin/chatapp/housepolicy/1/change/"
CHANGES = "/admin/chatapp/policychange/"
State = PolicyChange.State
AS_IT_IS = {"runs_up_to": "low", "widest_consent": "service", "consent_days": "90"}


def typed(**fields: Any) -> dict[str, Any]:
    return {"name": "Pay", "effect": "allow", "is_enabled": "on", "tool": "pay", **fields}


def make_admin(name: str, *rights: str) -> Member:
    return Member.objects.create_user(
        name, password="a-long-password", is_staff=True, rights=list(rights)
    )


@pytest.fixture
def second_client(db: None) -> Client:
    """Another admin with the policy right alone."""
    return signed_in(make_admin("second", "policy"))


@pytest.fixture
def change(admin: Member) -> PolicyChange:
    """A draft with one added rule."""
    made = drafting.start(admin, "Let Finance pay", "They asked.")
    row = PolicyRule(name="Finance pays", effect="allow", tool="pay")
    drafting.store_edit(made, admin, Kind.RULE, None, read_values(row, [group_of()]))
    return made


def require_second() -> None:
    HousePolicy.objects.update_or_create(pk=1, defaults={"changes_need_second": True})


def address_of(change: PolicyChange) -> str:
    return f"{CHANGES}{change.pk}/change/"


def open_page(client: Client, change: PolicyChange) -> BeautifulSoup:
    answer = client.get(address_of(change))
    assert answer.status_code == 200
    return BeautifulSoup(answer.content, "html.parser")


def text_of(page: BeautifulSoup) -> str:
    return " ".join(page.get_text(" ").split())


def act(client: Client, change: PolicyChange, do: str, **more: Any) -> Any:
    """Press the button of the page as it is now."""
    field = open_page(client, change).select_one("input[name=version]")
    version = str(field["value"]) if field else ""
    form = {"do": do, "version": version, **more}
    return client.post(address_of(change), form, follow=True)


def state_of(change: PolicyChange) -> str:
    return PolicyChange.objects.get(pk=change.pk).state


# --- drafting with the forms of the policy -----------------------------------------------------
def test_a_rule_is_saved_as_a_change_and_the_policy_stays(admin_client: Client) -> None:
    answer = admin_client.post(f"{RULES}add/", typed(_as_change="x"), follow=True)
    change = PolicyChange.objects.get()
    assert answer.redirect_chain[-1][0] == address_of(change)
    page = text_of(BeautifulSoup(answer.content, "html.parser"))
    assert change.title == "Add rule: Pay"
    assert "Adds the rule “Pay”. Lets “pay” of any service run." in page
    assert not PolicyRule.objects.exists()


def test_every_part_of_the_policy_is_edited_in_one_change(
    admin_client: Client, admin: Member, change: PolicyChange
) -> None:
    row, limit = rule("deny", name="Refused", tool="pay"), ToolLimit.objects.create(calls=3)
    needed = SecondSignature.objects.create(name="Board", approvers=group_of(name="Board"))
    here = f"?in_change={change.pk}"
    admin_client.post(f"{RULES}{row.pk}/change/{here}", typed(effect="ask"))
    admin_client.post(f"{LIMITS}add/{here}", {"tool": "pay", "calls": 5})
    admin_client.post(f"{LIMITS}{limit.pk}/delete/{here}", {"post": "yes"})
    admin_client.post(f"{HOUSE}{here}", AS_IT_IS | {"asks_everything": "on"})
    board = {"name": "Board", "approvers": needed.approvers_id, "deadline_hours": 2}
    admin_client.post(f"/admin/chatapp/secondsignature/{needed.pk}/change/{here}", board)
    page = open_page(admin_client, change)
    titles = [" ".join(each.get_text(" ").split()) for each in page.select(".edit h3")]
    assert titles == [
        "rule “Finance pays” added",
        "rule “Pay” changed",
        "tool limit “pay: 5 per day” added",
        "tool limit “each tool: 3 per day” removed",
        "policy for everybody changed",
        "second-approval requirement “Board” changed",
    ]
    lines = [" ".join(each.get_text(" ").split()) for each in page.select(".diff .add")]
    assert "+ added Name: Pay" in lines
    assert "+ added Ask for everything: on" in lines
    assert "+ added A member of Board must approve within 2 hours." in lines
    assert PolicyRule.objects.get().effect == "deny"
    assert (ToolLimit.objects.get(), HousePolicy.current().asks_everything) == (limit, False)
    act(admin_client, change, "apply")
    assert set(PolicyRule.objects.values_list("name", "effect")) == {
        ("Finance pays", "allow"),
        ("Pay", "ask"),
    }
    assert list(ToolLimit.objects.values_list("calls", flat=True)) == [5]
    assert HousePolicy.current().asks_everything
    assert SecondSignature.objects.get().deadline_hours == 2


def test_the_form_has_what_the_draft_has(admin_client: Client, change: PolicyChange) -> None:
    row = rule("deny", name="Refused", tool="pay")
    here = f"?in_change={change.pk}"
    admin_client.post(f"{RULES}{row.pk}/change/{here}", typed(name="New", effect="ask"))
    page = BeautifulSoup(admin_client.get(f"{RULES}{row.pk}/change/{here}").content, "html.parser")
    assert page.select_one("[name=name]")["value"] == "New"  # type: ignore[index]
    edit = change.edits.get(row_id=None)
    add = f"{RULES}add/{here}&edit={edit.pk}"
    page = BeautifulSoup(admin_client.get(add).content, "html.parser")
    assert page.select_one("[name=name]")["value"] == "Finance pays"  # type: ignore[index]
    assert page.select_one("[name=groups]:checked") is not None
    admin_client.post(add, typed(name="Renamed"))
    assert change.edits.get(row_id=None).after["name"] == "Renamed"  # type: ignore[index]
    admin_client.post(f"{RULES}{row.pk}/change/{here}", typed(name="Refused", effect="deny"))
    assert change.edits.count() == 1, "An edit that changes nothing is no edit."


def test_a_form_that_is_wrong_is_refused_as_before(
    admin_client: Client, change: PolicyChange
) -> None:
    answer = admin_client.post(
        f"{RULES}add/?in_change={change.pk}", typed(name="New", condition="amount <")
    )
    assert b"This is not a condition." in answer.content and b'value="New"' in answer.content
    assert change.edits.count() == 1


def test_a_draft_may_break_a_test_and_shows_it_and_is_not_applied(
    admin_client: Client, owner: Member
) -> None:
    service = shop(visibility="everyone")
    row = rule("deny", name="Guard", service=service, tool="read_label")
    policy_test(owner, service, "read_label", "deny", name="Never read")
    admin_client.post(f"{RULES}{row.pk}/delete/?in_change=new", {"post": "yes"})
    change = PolicyChange.objects.get()
    page = open_page(admin_client, change)
    assert "Never read is refused runs without asking" in text_of(page)
    assert page.select_one("[value=apply][disabled]") is not None
    answer = act(admin_client, change, "apply")
    assert answer.status_code == 422
    assert "“Never read”. Expected: is refused." in answer.content.decode()
    assert (PolicyRule.objects.count(), state_of(change)) == (1, State.DRAFT)


# --- effects -----------------------------------------------------------------------------------
def test_the_page_shows_how_past_calls_would_be_decided(
    admin_client: Client, owner: Member, change: PolicyChange
) -> None:
    definition = rows.definition()
    for _ in range(3):
        rows.call(rows.turn(owner, "done"), {"title": "x"}, definition=definition, risk="high")
    call = rows.call(rows.turn(owner, "done"), {"title": "y"}, definition=definition, risk="high")
    here = f"?in_change={change.pk}"
    admin_client.post(f"{RULES}add/{here}", typed(name="No", effect="deny", tool=call.tool_name))
    page = open_page(admin_client, change)
    figures = [" ".join(each.get_text(" ").split()) for each in page.select(".trio > div")]
    assert figures == [
        "Would have run 0 no change",
        "Would have asked 0 4 fewer",
        "Would have been refused 4 4 more",
    ]
    (person,) = page.select("section[aria-labelledby=simulation-title] tbody")[0].select("tr")
    assert [each.text for each in person.select("th, td")] == ["owner", "0.9", "0.0", "−0.9"]
    examples = page.select(".examples tbody tr")
    assert len(examples) == 4
    assert [each.get_text(strip=True) for each in examples[0].select(".out")] == [
        "Asks",
        "Refused",
    ]
    assert reverse("admin:chatapp_toolcall_change", args=[call.pk]) in str(examples)
    assert "4 fewer questions" in text_of(page)


def test_an_admin_without_the_right_to_calls_gets_no_links_to_them(
    second_client: Client, owner: Member, change: PolicyChange, admin_client: Client
) -> None:
    call = rows.call(rows.turn(owner, "done"), {}, definition=rows.definition(), risk="high")
    deny = typed(name="No", effect="deny", tool=call.tool_name)
    admin_client.post(f"{RULES}add/?in_change={change.pk}", deny)
    assert open_page(second_client, change).select(".examples tbody tr a") == []


def test_the_page_costs_few_statements_however_much_there_is(
    admin_client: Client,
    admin: Member,
    owner: Member,
    change: PolicyChange,
    django_assert_max_num_queries: Any,
) -> None:
    service = shop(visibility="everyone")
    for number in range(30):
        rule("ask", group_of(owner, name=f"Group {number}"), name=f"Rule {number}")
        policy_test(owner, service, "read_label", "deny", name=f"Test {number}")
        make_admin(f"admin-{number}", "policy")
        row = PolicyRule(name=f"New {number}", effect="deny", service=service, tool="read_label")
        drafting.store_edit(change, admin, Kind.RULE, None, read_values(row, [group_of()]))
    require_second()
    admin_client.post(address_of(change), {"do": "check"})
    with django_assert_max_num_queries(25):
        page = open_page(admin_client, change)
    assert len(page.select(".edit")) == 31
    act(admin_client, change, "submit")
    with django_assert_max_num_queries(25):
        open_page(admin_client, change)
    for number in range(30):
        drafting.start(admin, f"Change {number}")
    with django_assert_max_num_queries(25):
        assert admin_client.get(CHANGES).status_code == 200


# --- a second admin ----------------------------------------------------------------------------
def test_a_direct_save_becomes_a_change_where_a_second_admin_is_needed(
    admin_client: Client, admin: Member
) -> None:
    row, limit = rule("deny", name="Refused", tool="pay"), ToolLimit.objects.create(calls=3)
    needed = SecondSignature.objects.create(name="Board", approvers=group_of(name="Board"))
    require_second()
    before = [*PolicyRule.objects.values(), *ToolLimit.objects.values()]
    board = {"name": "New", "approvers": needed.approvers_id, "deadline_hours": 2}
    for address, form in (
        (f"{RULES}add/", typed()),
        (f"{RULES}{row.pk}/change/", typed()),
        (f"{RULES}{row.pk}/delete/", {"post": "yes"}),
        (f"{LIMITS}add/", {"calls": 9}),
        (f"{LIMITS}{limit.pk}/delete/", {"post": "yes"}),
        (HOUSE, AS_IT_IS),
        (f"/admin/chatapp/secondsignature/{needed.pk}/change/", board),
        (f"/admin/chatapp/secondsignature/{needed.pk}/delete/", {"post": "yes"}),
    ):
        answer = admin_client.post(address, form)
        change = PolicyChange.objects.latest("pk")
        assert answer["Location"] == address_of(change), address
        assert (change.author, change.edits.count()) == (admin, 1), address
    assert [*PolicyRule.objects.values(), *ToolLimit.objects.values()] == before
    assert HousePolicy.current().changes_need_second
    assert SecondSignature.objects.get().name == "Board"
    page = admin_client.get(f"{RULES}add/").content.decode()
    assert "Policy changes need a second admin." in page and 'name="_save"' not in page


def test_another_admin_approves_on_the_page(
    admin_client: Client, second_client: Client, change: PolicyChange
) -> None:
    require_second()
    assert act(admin_client, change, "apply").status_code == 422
    page = open_page(admin_client, change)
    assert page.select_one("[value=apply]") is None
    assert "second Can approve" in text_of(page)
    act(admin_client, change, "submit")
    assert open_page(admin_client, change).select_one("[value=approve]") is None
    assert act(admin_client, change, "approve").status_code == 403
    assert not PolicyRule.objects.exists()
    overview = second_client.get("/admin/").content.decode()
    assert "Policy change “Let Finance pay” needs your approval" in overview
    assert "needs your approval" not in admin_client.get("/admin/").content.decode()
    act(second_client, change, "approve", note="Agreed.")
    assert (state_of(change), PolicyRule.objects.count()) == (State.APPLIED, 1)
    assert "Agreed." in text_of(open_page(admin_client, change))


def test_a_stale_approval_shows_the_new_difference_and_keeps_the_note(
    admin_client: Client, second_client: Client, change: PolicyChange
) -> None:
    require_second()
    act(admin_client, change, "submit")
    shown = open_page(second_client, change).select_one("input[name=version]")
    assert shown is not None
    rule("ask", name="Other")
    form = {"do": "approve", "version": shown["value"], "note": "Looks good."}
    answer = second_client.post(address_of(change), form)
    page = BeautifulSoup(answer.content, "html.parser")
    assert answer.status_code == 409
    assert "different from what you were shown" in text_of(page)
    assert page.select_one("textarea[name=note]").text == "Looks good."  # type: ignore[union-attr]
    new = page.select_one("input[name=version]")
    assert new is not None and new["value"] != shown["value"]
    assert state_of(change) == State.WAITING
    second_client.post(address_of(change), form | {"version": new["value"]})
    assert state_of(change) == State.APPLIED


def test_without_a_second_admin_the_page_says_what_to_do(
    admin_client: Client, change: PolicyChange
) -> None:
    require_second()
    page = text_of(open_page(admin_client, change))
    assert "nobody can approve" in page
    assert f"manage.py policy apply {change.pk}" in page


def test_a_rejected_change_says_why_and_can_be_edited_again(
    admin_client: Client, second_client: Client, change: PolicyChange
) -> None:
    require_second()
    act(admin_client, change, "submit")
    too_long = second_client.post(address_of(change), {"do": "reject", "note": "x" * 501})
    assert too_long.status_code == 422 and b"x" * 501 in too_long.content
    act(second_client, change, "reject", note="Not yet.")
    assert "Not yet." in text_of(open_page(admin_client, change))
    act(admin_client, change, "reopen")
    assert state_of(change) == State.DRAFT


# --- undoing -----------------------------------------------------------------------------------
def test_an_applied_change_is_undone_with_one_button(
    admin_client: Client, change: PolicyChange
) -> None:
    act(admin_client, change, "apply")
    assert PolicyRule.objects.count() == 1
    answer = act(admin_client, change, "undo")
    assert "The change is undone." in answer.content.decode()
    assert not PolicyRule.objects.exists()
    assert "Undone by" in text_of(open_page(admin_client, change))


def test_an_undo_after_a_later_change_is_refused_on_the_page(
    admin_client: Client, change: PolicyChange
) -> None:
    act(admin_client, change, "apply")
    PolicyRule.objects.update(note="Later")
    answer = act(admin_client, change, "undo")
    assert answer.status_code == 409
    assert "these were changed after it: rule “Finance pays”" in answer.content.decode()
    assert PolicyRule.objects.exists()


# --- rights ------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("rights", "may_read"),
    [((), False), (("people", "services", "models"), False), (("audit",), True)],
)
def test_other_admins_change_nothing(
    change: PolicyChange, rights: tuple[str, ...], may_read: bool
) -> None:
    client = signed_in(make_admin("clerk", *rights))
    assert client.get(address_of(change)).status_code == (200 if may_read else 403)
    assert client.get(CHANGES).status_code == (200 if may_read else 403)
    for do in ("apply", "submit", "approve", "reject", "discard", "undo", "check", "remove"):
        assert client.post(address_of(change), {"do": do}).status_code == 403
    assert client.post(f"{CHANGES}add/", {"title": "x"}).status_code == 403
    assert client.get(f"{RULES}add/?in_change={change.pk}").status_code == 403
    if may_read:
        assert open_page(client, change).select("main [name=do]") == []
    assert (state_of(change), PolicyChange.objects.count()) == (State.DRAFT, 1)


def test_a_draft_of_another_admin_is_not_edited(
    second_client: Client, change: PolicyChange
) -> None:
    here = f"?in_change={change.pk}"
    assert second_client.post(f"{RULES}add/{here}", typed()).status_code == 404
    assert open_page(second_client, change).select("[value=remove]") == []
    edit = change.edits.get().pk
    assert act(second_client, change, "remove", edit=edit).status_code == 403
    assert act(second_client, change, "describe", title="Mine").status_code == 403
    assert (change.edits.count(), state_of(change)) == (1, State.DRAFT)


@pytest.mark.parametrize("wanted", ["0", "x", "9" * 40, "²"])
def test_a_wrong_address_is_not_found(admin_client: Client, wanted: str) -> None:
    assert admin_client.get(f"{RULES}add/?in_change={wanted}").status_code == 404
    assert admin_client.get(f"{CHANGES}{wanted}/change/").status_code in (302, 404)


def test_wrong_forms_get_a_sentence(admin_client: Client, change: PolicyChange) -> None:
    answer = act(admin_client, change, "edit", row="rule 999")
    assert answer.status_code == 422 and "Choose what to edit." in answer.content.decode()
    answer = act(admin_client, change, "describe", title="", reason="Typed.")
    assert answer.status_code == 422 and "Typed." in answer.content.decode()
    assert act(admin_client, change, "nonsense").status_code == 200
    assert act(admin_client, change, "remove", edit="x").status_code == 404
    assert change.edits.count() == 1


# --- ways to a change --------------------------------------------------------------------------
def test_who_can_and_suggestions_start_a_change(
    admin_client: Client, owner: Member, second_client: Client
) -> None:
    service: Service = shop(visibility="everyone")
    page = admin_client.get(f"{RULES}who-can/?service={service.pk}&tool=read_label")
    link = f"{RULES}add/?service={service.pk}&amp;tool=read_label&amp;in_change=new"
    assert link in page.content.decode()
    auditor = signed_in(make_admin("auditor", "audit"))
    page = auditor.get(f"{RULES}who-can/?service={service.pk}&tool=read_label")
    assert "in_change" not in page.content.decode()


# --- second opinions and attention checks --------------------------------------------------------
def test_a_change_carries_the_model_for_opinions_and_the_checks(
    admin_client: Client, second_client: Client, admin: Member
) -> None:
    """The automatic opinions are counted for the author, also if another field is edited later."""
    HousePolicy(opinion_model="maker/judge", changes_need_second=True).save()
    wanted = {
        **AS_IT_IS,
        "changes_need_second": "on",
        "opinion_model": "maker/judge",
        "opinions_for_new": "on",
    }
    assert admin_client.post(HOUSE, wanted).status_code == 302
    change = PolicyChange.objects.get()
    address = f"{HOUSE}?in_change={change.pk}"
    assert admin_client.post(address, {**wanted, "check_each": "20"}).status_code == 302
    assert HousePolicy.current().opinions_for_new is False
    assert "Attention check after every … approvals: 20" in text_of(open_page(admin_client, change))
    act(admin_client, change, "submit")
    act(second_client, change, "approve")
    house = HousePolicy.current()
    assert (house.opinions_for_new, house.check_each) == (True, 20)
    assert house.opinions_paid_by == admin


def test_a_change_of_the_policy_outlives_whom_opinions_were_counted_for(
    admin_client: Client, admin: Member
) -> None:
    payer = make_admin("payer", "policy")
    HousePolicy(opinion_model="m/j", opinions_for_new=True, opinions_paid_by=payer).save()
    change = drafting.start(admin, "Check")
    values = read_values(HousePolicy.current()) | {"check_each": 9}
    drafting.store_edit(change, admin, Kind.HOUSE, 1, values)
    payer.delete()
    act(admin_client, change, "apply")
    house = HousePolicy.current()
    assert (house.check_each, house.opinions_paid_by) == (9, None)
    act(admin_client, change, "undo")
    assert HousePolicy.current().check_each is None
    assert state_of(change) == State.UNDONE


def test_a_number_of_an_edit_that_is_none_removes_nothing(
    admin_client: Client, change: PolicyChange
) -> None:
    assert act(admin_client, change, "remove", edit="9" * 5_000).status_code == 404
    assert change.edits.count() == 1
