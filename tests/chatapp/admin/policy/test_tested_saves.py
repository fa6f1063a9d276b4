"""What decides beside the rules is not saved either where a policy test would fail."""

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from chatapp.models import LogEntry, Member
from mcpconfig.models import Service, ToolDefinition, ToolSetting
from tests.dom_tree import Element, parse

from .policy_rows import group_of, policy_test, rule, shop

pytestmark = [pytest.mark.django_db, pytest.mark.timeout(300)]
HELD = "Nothing was saved, because a policy test would fail."
RUNS = "“Asked”. Expected: needs approval. Actual: runs without asking."


class Form:
    """The form of a row's page as a browser would send it, with what is typed into it."""

    def __init__(self, client: Client, row: Any) -> None:
        name = f"admin:{row._meta.app_label}_{row._meta.model_name}_change"
        self.client, self.address = client, reverse(name, args=[row.pk])
        self.page = parse(client.get(self.address).content.decode())

    @property
    def form(self) -> Element:
        forms = self.page.all("form")
        return next(each for each in forms if each.attributes.get("id", "").endswith("_form"))

    def save(self, *off: str, **typed: Any) -> str:
        """What the page says that follows; `off` are the boxes that are not ticked any more."""
        sent = {name: value for name, value in values_of(self.form).items() if name not in off}
        answer = self.client.post(self.address, sent | typed | {"_continue": "1"}, follow=True)
        self.page = parse(answer.content.decode())
        return self.page.text


def values_of(form: Element) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for each in form.all("input"):
        kind = each.attributes.get("type")
        is_unticked = kind in ("checkbox", "radio") and "checked" not in each
        if "name" in each and kind not in ("submit", "file") and not is_unticked:
            found[each["name"]] = each.attributes.get("value") or "on" * ("checked" in each)
    for each in form.all("textarea"):
        found[each["name"]] = each.text
    for each in form.all("select"):
        chosen = [option["value"] for option in each.all("option") if "selected" in option]
        found[each["name"]] = chosen
    return found


def line_of(form: Element, tool: str) -> str:
    """What the fields of this tool's line begin with."""
    (name,) = (
        each["name"]
        for each in form.all("input")
        if each.attributes.get("value") == tool and each["name"].startswith("settings-")
    )
    return name.removesuffix("-name")


@pytest.fixture
def service(owner: Member) -> Service:
    """Its tool that changes things must ask."""
    made = shop(visibility="everyone")
    policy_test(owner, made, "change_label", "ask", name="Asked")
    return made


def test_a_level_that_would_make_a_policy_test_fail_is_not_saved_and_stays_as_typed(
    admin_client: Client, service: Service
) -> None:
    page, before = Form(admin_client, service), LogEntry.objects.count()
    level = f"{line_of(page.form, 'change_label')}-level"
    said = page.save(**{level: "low", "title": "Corner shop"})
    assert HELD in said and f"{RUNS} Runs because the risk is low" in said
    assert "successfully" not in said
    typed = values_of(page.form)
    assert (typed[level], typed["title"]) == (["low"], "Corner shop")
    assert ToolSetting.objects.get(name="change_label").level == ""
    assert Service.objects.get().title == "Shop"
    assert LogEntry.objects.count() == before
    said = page.save(**{level: "high"})
    assert HELD not in said and "successfully" in said
    assert ToolSetting.objects.get(name="change_label").level == "high"


def test_trust_that_lowers_a_risk_is_held_back(admin_client: Client, service: Service) -> None:
    hints = {"readOnlyHint": True, "destructiveHint": False}
    ToolDefinition.objects.filter(name="change_label").update(annotations=hints)
    said = Form(admin_client, service).save(is_trusted="on")
    assert HELD in said and RUNS in said
    assert not Service.objects.get().is_trusted


def test_taking_a_service_from_people_is_held_back(admin_client: Client, service: Service) -> None:
    said = Form(admin_client, service).save(visibility="private")
    assert HELD in said and "“Asked”. Expected: needs approval. Actual: is refused. Only" in said
    assert Service.objects.get().visibility == "everyone"


def test_a_group_that_is_given_on_a_persons_or_on_its_own_page_is_held_back(
    admin_client: Client, service: Service, owner: Member, stranger: Member
) -> None:
    finance = group_of(stranger)
    rule("allow", finance)
    said = Form(admin_client, owner).save(groups=[finance.pk])
    assert HELD in said and RUNS in said
    page = Form(admin_client, finance)
    member = "Member_groups-1-member"
    said = page.save(**{member: owner.pk, "name": "Finances"})
    assert HELD in said and RUNS in said
    assert values_of(page.form)["name"] == "Finances"
    assert values_of(page.form)[member] == [str(owner.pk)]
    assert list(finance.user_set.all()) == [stranger]
    assert HELD not in Form(admin_client, owner).save(groups=[group_of(name="Free").pk])
    assert [str(group) for group in owner.groups.all()] == ["Free"]


def test_confirming_a_tool_that_must_ask_is_held_back_with_its_tick(
    admin_client: Client, service: Service, owner: Member
) -> None:
    ToolSetting.objects.filter(name__in=["read_label", "delete_label"]).update(confirmed_hash="")
    policy_test(owner, service, "read_label", "ask", name="Nobody read it")
    address = reverse("admin:mcpconfig_service_confirm_tools", args=[service.pk])
    answer = admin_client.post(address, {"definition": ["hash-read_label"]})
    page = parse(answer.content.decode())
    assert answer.status_code == 422
    assert (
        HELD in page.text
        and "“Nobody read it”. Expected: needs approval. Actual: runs without asking." in page.text
    )
    boxes = {each["value"]: "checked" in each for each in page.all("input", name="definition")}
    assert boxes == {"hash-read_label": True, "hash-delete_label": False}
    assert ToolSetting.objects.get(name="read_label").confirmed_hash == ""
    assert admin_client.post(address, {"definition": ["hash-delete_label"]}).status_code == 200
    assert ToolSetting.objects.get(name="delete_label").confirmed_hash == "hash-delete_label"


def test_nobody_is_kept_from_switching_off_and_the_tests_that_fail_then_are_named(
    admin_client: Client, service: Service, owner: Member
) -> None:
    named = "Saved. These policy tests now fail: “Asked”. Expected: needs approval."
    page = Form(admin_client, service)
    line = line_of(page.form, "change_label")
    assert named in page.save(f"{line}-is_enabled")
    assert HELD not in page.save(**{f"{line}-is_enabled": "on"})
    assert named in Form(admin_client, service).save("is_enabled")
    assert not Service.objects.get().is_enabled
    Service.objects.update(is_enabled=True)
    assert named in Form(admin_client, owner).save("is_active")
    owner.refresh_from_db()
    assert not owner.is_active


def test_one_who_is_no_admin_any_more_is_not_kept_so_by_a_test(
    admin_client: Client, owner: Member
) -> None:
    Member.objects.filter(pk=owner.pk).update(is_staff=True, is_superuser=True)
    policy_test(owner, None, "add-service", "ask", name="Adding")
    said = Form(admin_client, owner).save("is_superuser")
    assert "Saved. These policy tests now fail: “Adding”. Expected: needs approval." in said
    owner.refresh_from_db()
    assert not owner.is_staff


def test_a_test_that_fails_anyway_holds_no_save_back(
    admin_client: Client, service: Service, owner: Member
) -> None:
    policy_test(owner, service, "read_label", "deny", name="Never held")
    said = Form(admin_client, service).save(title="Corner shop")
    assert HELD not in said and "Never held" not in said
    assert Service.objects.get().title == "Corner shop"
