"""What people configure is logged with before and after and by whom, and no secret with it."""

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.db import transaction
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from chatapp.admin.activity.service_entries import (
    filter_by_names,
    find_names,
    list_changes_of_services,
)
from chatapp.audit import audit_log
from chatapp.audit.change_entries import log_lapsed_consents
from chatapp.models import (
    Allowance,
    ChatModel,
    Consent,
    HousePolicy,
    LogEntry,
    Member,
    ModelProvider,
    PolicyRule,
    PolicyTest,
    ToolLimit,
)
from chatapp.policy import consents
from chatapp.rendering.pages.log import build_line, describe_subject
from mcpconfig.models import (
    CompanySignIn,
    IdentityProvider,
    OAuthClient,
    OAuthGrant,
    Service,
    ToolDefinition,
    ToolSetting,
)
from mcpconfig.secrets import credentials
from mcpconfig.services.tool_definitions import confirm_tools, store_tools
from mcpconfig.values.results import Tool
from tests.conftest import make_recent
from tests.dom_tree import parse

pytestmark = pytest.mark.django_db
LOOK = Tool(
    name="look",
    title="",
    description="",
    input_schema={},
    output_schema=None,
    annotations=None,
    meta=None,
)


def last() -> tuple[LogEntry, dict[str, Any]]:
    entry = LogEntry.objects.latest("position")
    return entry, json.loads(entry.data)


@pytest.fixture
def service(db: None) -> Service:
    return Service.objects.create(
        name="bank", url="https://bank.example/mcp", visibility="everyone"
    )


@pytest.fixture
def rule(service: Service) -> PolicyRule:
    return PolicyRule.objects.create(name="No payments", effect="deny", service=service)


def test_a_rule_is_logged_when_made_changed_and_removed(rule: PolicyRule) -> None:
    entry, data = last()
    assert (entry.kind, data["act"], data["of"]) == ("policy.changed", "added", "rule No payments")
    assert entry.actor_name == "operator"
    rule.effect = "ask"
    rule.save()
    assert last()[1]["changed"] == {"effect": {"before": "deny", "after": "ask"}}
    rule.delete()
    assert (last()[1]["act"], last()[1]["changed"]["effect"]["before"]) == ("removed", "ask")


def test_a_row_that_is_saved_as_it_was_leaves_no_entry(rule: PolicyRule) -> None:
    before = audit_log.read_end()
    rule.save()
    service = Service.objects.get()
    service.last_error = {"kind": "network"}
    service.save(update_fields=["last_error"])
    assert audit_log.read_end() == before


@pytest.mark.parametrize(
    "made",
    [
        lambda _service, _owner: HousePolicy.objects.create(asks_everything=True),
        lambda service, _owner: ToolLimit.objects.create(service=service, calls=3),
        lambda service, owner: PolicyTest.objects.create(
            name="Must ask", person=owner, service=service, tool="pay", expected="ask"
        ),
    ],
)
def test_limits_the_house_and_tests_are_policy_as_well(
    service: Service, owner: Member, made: Callable[[Service, Member], object]
) -> None:
    row = made(service, owner)
    entry, data = last()
    assert (entry.kind, data["act"]) == ("policy.changed", "added")
    assert data["of"].lower().count("policy for everybody") == isinstance(row, HousePolicy)


def test_changed_names_and_addresses_of_a_member_are_logged_without_their_values(
    owner: Member,
) -> None:
    Member.objects.filter(pk=owner.pk).update(first_name="Ada", last_name="")
    owner.refresh_from_db()
    owner.first_name, owner.last_name, owner.email = "Grace", "Hopper", "grace@example.com"
    owner.save()
    entry, data = last()
    assert (entry.kind, entry.person_id) == ("member.changed", owner.pk)
    assert data["changed"] == {
        "first_name": {"before": "set", "after": "set"},
        "last_name": {"before": "not set", "after": "set"},
        "email": {"before": "not set", "after": "set"},
    }
    labels = "email address, first name, last name"
    assert build_line(entry).said == f"Changed: {labels}."
    owner.delete()
    assert not any(word in last()[0].data for word in ("Grace", "Hopper", "example.com"))


def test_an_admin_who_changes_an_address_is_named(admin_client: Client, owner: Member) -> None:
    page = parse(admin_client.get(f"/admin/chatapp/member/{owner.pk}/change/").content.decode())
    fields = page.one("form", id="member_form").all("input")
    kept = {each["name"]: each.attributes.get("value", "") for each in fields if "name" in each}
    make_recent(admin_client)
    posted = {**kept, "email": "new@example.com", "_save": "Save"}
    assert admin_client.post(f"/admin/chatapp/member/{owner.pk}/change/", posted).status_code == 302
    entry = LogEntry.objects.filter(kind="member.changed", person_id=owner.pk).latest("position")
    assert "email" in json.loads(entry.data)["changed"]
    assert (entry.actor_name, "new@example.com" in entry.data) == ("admin", False)


def test_a_registration_that_an_admin_forgets_is_logged(
    admin_client: Client, service: Service
) -> None:
    made = OAuthClient.objects.create(
        service=service, kind="registered", issuer="https://login.example", client_id="c-17"
    )
    made.delete()
    assert last()[1]["of"] == "service bank", "only what an admin does is logged"
    made.save()
    address = reverse("admin:mcpconfig_service_forget_registration", args=[service.pk])
    admin_client.post(address, {"registration": str(made.pk)})
    entry, data = last()
    assert (entry.kind, entry.actor_name) == ("service.changed", "admin")
    assert data == {
        "of": "registration at “https://login.example” of bank",
        "act": "removed",
        "changed": {
            "issuer": {"before": "https://login.example", "after": None},
            "client_id": {"before": "c-17", "after": None},
        },
    }
    assert build_line(entry).said == "Removed."
    changes, _is_cut = list_changes_of_services()
    found = filter_by_names(changes, find_names("bank", changes))
    assert entry in found, "the page Changes of the service shows it"
    count = LogEntry.objects.count()
    admin_client.post(address, {"registration": "1"})
    assert LogEntry.objects.count() == count


def test_groups_are_logged_from_both_sides(rule: PolicyRule, owner: Member) -> None:
    group = Group.objects.create(name="cashiers")
    rule.groups.add(group)
    assert last()[1] == {"act": "put into", "groups": ["cashiers"], "of": "rule No payments"}
    assert build_line(last()[0]).said == "Added to these groups: cashiers."
    group.user_set.add(owner)
    assert (last()[0].kind, last()[1]["groups"]) == ("member.changed", ["owner"])
    assert build_line(last()[0]).said == "Member added: owner."
    owner.groups.remove(group)
    assert last()[1]["act"] == "taken from"
    assert last()[0].person_id == owner.pk


def test_what_opens_a_service_is_named_and_never_kept(service: Service) -> None:
    credentials.set_bearer(service, "canary-token")
    entry, data = last()
    assert (entry.kind, data["of"]) == ("service.changed", "credentials of bank")
    assert (
        data["changed"]["bearer"] == {"before": None, "after": "set"}
        or data["changed"]["bearer"]["after"] == "set"
    )
    service.url = "https://elsewhere.example/mcp?api_key=canary-in-url"
    service.save()
    told = [json.loads(entry.data) for entry in LogEntry.objects.filter(kind="service.changed")]
    assert any(
        each["changed"].get("url", {}).get("before") == "https://bank.example/mcp" for each in told
    )
    assert "canary" not in " ".join(LogEntry.objects.values_list("data", flat=True))


def test_an_admins_word_on_a_tool_is_logged(service: Service) -> None:
    definition = ToolDefinition.objects.create(service=service, name="pay", hash="1" * 64)
    confirm_tools([definition])
    entry, data = last()
    assert (entry.kind, data["of"]) == ("tool.changed", "tool “pay” of bank")
    assert data["changed"]["confirmed_hash"]["after"] == "1" * 64
    setting = ToolSetting.objects.get()
    setting.level = "high"
    setting.save()
    assert last()[1]["changed"] == {"level": {"before": "", "after": "high"}}


def test_a_members_rights_are_logged_and_no_password(owner: Member) -> None:
    owner.is_staff = True
    owner.set_password("canary-password")
    owner.save()
    entry, data = last()
    assert (entry.kind, entry.person_id) == ("member.changed", owner.pk)
    assert data["changed"]["is_staff"] == {"before": False, "after": True}
    assert data["changed"]["password"] == {"before": "set", "after": "set"}
    key, name = owner.pk, owner.username
    owner.delete()
    assert (last()[1]["act"], last()[0].person_name) == ("removed", name)
    assert LogEntry.objects.filter(person_id=key).count() >= 3


def test_a_consent_is_logged_when_given_and_when_revoked(service: Service, owner: Member) -> None:
    consent = Consent.objects.create(
        person=owner, service=service, endpoint=service.url, scope="always", definitions={}
    )
    assert (last()[0].kind, last()[0].actor_id) == ("consent.given", owner.pk)
    consent.uses = 3
    consent.save(update_fields=["uses"])
    assert last()[0].kind == "consent.given"
    consents.revoke(consent)
    consents.revoke(consent)
    assert (last()[0].kind, last()[1]["consent"]) == ("consent.revoked", str(consent.pk))


def test_a_consent_that_lapses_is_logged_once(service: Service, owner: Member) -> None:
    for days in (89, 91):
        consent = Consent.objects.create(
            person=owner, service=service, endpoint="", scope="always", definitions={"d": str(days)}
        )
        seen = timezone.now() - timedelta(days=days)
        Consent.objects.filter(pk=consent.pk).update(created_at=seen)
    log_lapsed_consents()
    log_lapsed_consents()
    lapsed = LogEntry.objects.get(kind="consent.lapsed")
    assert (lapsed.person_name, lapsed.actor_id) == ("owner", None)
    assert json.loads(lapsed.data)["definitions"] == {"d": "91"}


def test_a_sign_in_to_a_service_and_its_end_are_logged(service: Service, owner: Member) -> None:
    grant = OAuthGrant.objects.create(service=service, person=owner, endpoint=service.url)
    assert last()[0].kind != "service.connected"
    grant.connected_at, grant.access = timezone.now(), b"canary"
    grant.save()
    assert (last()[0].kind, last()[0].person_id) == ("service.connected", owner.pk)
    grant.version = 2
    grant.save()
    grant.delete()
    assert last()[0].kind == "service.disconnected"
    assert LogEntry.objects.filter(kind="service.connected").count() == 1


def test_a_company_sign_in_and_its_end_are_logged(owner: Member) -> None:
    provider = IdentityProvider.objects.create(name="acme", issuer="https://id.acme.example")
    now = timezone.now()
    row = CompanySignIn.objects.create(
        identity_provider=provider,
        person=owner,
        issuer=provider.issuer,
        token_endpoint="https://id.acme.example/token",
        id_token=b"canary",
        renew_at=now,
        expires_at=now,
        connected_at=now,
    )
    entry, data = last()
    assert (entry.kind, entry.person_id) == ("service.connected", owner.pk)
    told = {"issuer": provider.issuer, "company": "acme", "for": "one person"}
    assert data == told and describe_subject(data) == "acme"
    row.version, row.refresh = 1, b"canary"
    row.save()
    assert last()[0].pk == entry.pk
    row.delete()
    assert (last()[0].kind, last()[1]) == ("service.disconnected", told)


def test_a_change_and_its_entry_are_one_transaction(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_events: object) -> None:
        raise RuntimeError("the process ends here")

    monkeypatch.setattr(audit_log, "append", broken)
    with pytest.raises(RuntimeError), transaction.atomic():
        Member.objects.create_user("new", password="a-long-password")
    with pytest.raises(RuntimeError), transaction.atomic():
        service.url = "https://elsewhere.example/mcp"
        service.save()
    assert not Member.objects.filter(username="new").exists()
    assert Service.objects.get().url == "https://bank.example/mcp"


def test_a_deleted_member_and_what_goes_with_them_are_logged(
    service: Service, owner: Member
) -> None:
    key = owner.pk
    OAuthGrant.objects.create(service=service, person=owner, endpoint=service.url)
    Consent.objects.create(
        person=owner, service=service, endpoint="", scope="always", definitions={}
    )
    Allowance.objects.create(person=owner, tokens=5)
    Member.objects.filter(pk=key).delete()
    told = LogEntry.objects.filter(kind__in=["service.disconnected", "consent.revoked"])
    assert [(each.person_id, each.person_name) for each in told] == [(key, "owner")] * 2
    gone = [json.loads(entry.data)["of"] for entry in LogEntry.objects.filter(kind="model.changed")]
    assert gone == ["allowance owner"] * 2


def test_models_their_groups_and_allowances_are_logged_without_keys(owner: Member) -> None:
    provider = ModelProvider.objects.create(slug="team", kind="openai", label="Team")
    provider.set_key("canary-key")
    assert last()[1]["changed"] == {"sealed_key": {"before": "not set", "after": "set"}}
    provider.set_headers({"x-api-key": "canary-header"})
    provider.key_id, provider.base_url = "canary-id", "https://models.example/v1"
    provider.save()
    assert (last()[0].kind, last()[1]["of"]) == ("model.changed", "provider Team")
    model = ChatModel.objects.create(provider=provider, name="m", input_price="1.50")
    model.groups.add(group := Group.objects.create(name="cashiers"))
    assert last()[1] == {"act": "put into", "groups": ["cashiers"], "of": "model m"}
    group.chat_models.remove(model)
    assert last()[1]["groups"] == ["m"]
    Allowance.objects.create(person=owner, tokens=1_000)
    assert last()[1]["changed"]["tokens"] == {"before": None, "after": 1_000}
    assert "canary" not in " ".join(LogEntry.objects.values_list("data", flat=True))


def test_company_sign_in_and_what_lets_tools_in_are_logged(service: Service) -> None:
    company = IdentityProvider.objects.create(name="acme", issuer="https://id.example")
    company.secret = b"canary"
    company.save(update_fields=["secret"])
    assert last()[1]["changed"] == {"secret": {"before": "not set", "after": "set"}}
    service.identity_provider, service.new_tools = company, "pass"
    service.save(update_fields=["identity_provider", "new_tools"])
    assert set(last()[1]["changed"]) == {"identity_provider_id", "new_tools"}


def test_tools_that_pass_by_themselves_are_confirmed_by_no_person(service: Service) -> None:
    """Neither an operator nor the admin who fetched them has read them."""
    service.new_tools = Service.NewTools.PASS
    service.save()
    with audit_log.acting_as(lambda: audit_log.Who(id=7, name="root")):
        store_tools(service, [LOOK])
        entry, data = last()
        assert (entry.kind, data["of"]) == ("tool.changed", "tool “look” of bank")
        assert (entry.actor_id, entry.actor_name) == (None, "Countersign, by the service’s setting")
        confirm_tools([ToolDefinition.objects.create(service=service, name="pay", hash="1")])
    assert last()[0].actor_name == "root"


@pytest.mark.parametrize("action", ["enable", "disable"])
@pytest.mark.parametrize("page", ["chatapp/chatmodel", "mcpconfig/service"])
def test_what_an_admin_switches_in_a_list_is_logged_row_by_row(
    admin: Member, admin_client: Client, action: str, page: str
) -> None:
    was = action == "disable"
    provider = ModelProvider.objects.create(slug="team", kind="openai", label="Team")
    made: list[Any] = [
        *(ChatModel.objects.create(provider=provider, name=n, is_enabled=was) for n in "ab"),
        *(
            Service.objects.create(
                name=n, url="https://x.example", is_enabled=was, visibility="everyone"
            )
            for n in "ab"
        ),
    ]
    kind = "model.changed" if "chatmodel" in page else "service.changed"
    chosen = made[:2] if "chatmodel" in page else made[2:]
    before = audit_log.read_end().position
    data = {"action": action, "_selected_action": [row.pk for row in chosen]}
    assert admin_client.post(f"/admin/{page}/", data).status_code == 302
    told = LogEntry.objects.filter(position__gt=before)
    assert [(entry.kind, entry.actor_id) for entry in told] == [(kind, admin.pk)] * 2
    for entry in told:
        assert json.loads(entry.data)["changed"] == {
            "is_enabled": {"before": was, "after": not was}
        }


def test_an_admins_page_is_logged_as_that_admins_act(
    admin: Member, admin_client: Client, owner: Member
) -> None:
    page = f"/admin/chatapp/member/{owner.pk}/change/"
    given = {"username": "owner", "is_active": "on", "is_superuser": "on"}
    answer = make_recent(admin_client).post(page, given)
    assert answer.status_code == 302
    entry, data = last()
    assert (entry.actor_id, entry.person_id) == (admin.pk, owner.pk)
    assert data["changed"]["is_staff"]["after"] is True


def test_signing_in_and_out_is_logged(client: Client, owner: Member) -> None:
    client.post("/sign-in/", {"username": "owner", "password": "a-long-password"})
    assert (last()[0].kind, last()[0].actor_name) == ("member.signed_in", "owner")
    client.post("/sign-out/")
    assert last()[0].kind == "member.signed_out"
