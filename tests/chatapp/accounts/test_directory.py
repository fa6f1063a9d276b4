"""A company's directory over SCIM: what Entra and Okta send, and what no directory may do."""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from io import BytesIO
from typing import Any
from urllib.parse import urlencode
from zipfile import ZipFile

import pytest
from django.contrib.auth.models import Group
from django.contrib.sessions.models import Session
from django.core.management import call_command
from django.db import connection
from django.test import Client

from chatapp.accounts import directory
from chatapp.accounts.off_boarding import Choices, off_board
from chatapp.accounts.personal_data import close_account, write_archive
from chatapp.api import access_tokens
from chatapp.audit import audit_log
from chatapp.models import (
    AccessToken,
    DirectoryAccount,
    DirectoryGroup,
    DirectoryToken,
    LogEntry,
    Member,
    SignInLink,
)
from chatapp.people.refused import Refused
from tests.conftest import signed_in
from tests.dom_tree import parse

pytestmark = pytest.mark.django_db
USER = "urn:ietf:params:scim:schemas:core:2.0:User"
ENTERPRISE = "urn:ietf:params:scim:schemas:extension:enterprise:2.0:User"
GROUP = "urn:ietf:params:scim:schemas:core:2.0:Group"
PATCH = "urn:ietf:params:scim:api:messages:2.0:PatchOp"
ENTRA_USER = {
    "schemas": [USER, ENTERPRISE],
    "externalId": "58342554-38d6-4ec8-948c-50044d0a33fd",
    "userName": "ada@example.com",
    "active": True,
    "displayName": "Ada Lovelace",
    "emails": [{"primary": True, "type": "work", "value": "ada@example.com"}],
    "meta": {"resourceType": "User"},
    "name": {"formatted": "Ada Lovelace", "familyName": "Lovelace", "givenName": "Ada"},
    "roles": [{"value": "admin", "primary": "True"}],
    ENTERPRISE: {"department": "Mathematics", "employeeNumber": "1815"},
}
OKTA_USER = {
    "schemas": [USER],
    "userName": "grace@example.com",
    "name": {"givenName": "Grace", "familyName": "Hopper"},
    "emails": [{"primary": True, "value": "grace@example.com", "type": "work"}],
    "displayName": "Grace Hopper",
    "locale": "en-US",
    "externalId": "00ujl29u0le5T6Aj10h7",
    "groups": [],
    "password": "1mz050nq",
    "active": True,
}


class Directory:
    """A program with a token."""

    def __init__(self) -> None:
        self.token, self.text = directory.create_token("Entra")
        self.client = Client()

    def ask(self, method: str, path: str, body: Any = None, text: str = "") -> Any:
        content = "" if body is None else json.dumps(body)
        return self.client.generic(
            method,
            f"/scim/v2/{path}",
            content,
            content_type="application/scim+json",
            headers={"Authorization": f"Bearer {text or self.text}"},
        )

    def get(self, path: str) -> dict[str, Any]:
        answer = self.ask("GET", path)
        assert answer.status_code == 200, answer.content
        return dict(answer.json())

    def create(self, user: Mapping[str, Any] = ENTRA_USER, **changes: Any) -> Member:
        answer = self.ask("POST", "Users", {**user, **changes})
        assert answer.status_code == 201, answer.content
        return Member.objects.get(pk=answer.json()["id"])

    def patch(self, path: str, *operations: dict[str, Any]) -> Any:
        return self.ask("PATCH", path, {"schemas": [PATCH], "Operations": list(operations)})

    def create_group(self, name: str, *members: Member) -> DirectoryGroup:
        listed = [{"value": str(member.pk)} for member in members]
        body = {"schemas": [GROUP], "displayName": name, "members": listed}
        answer = self.ask("POST", "Groups", body)
        assert answer.status_code == 201, answer.content
        return DirectoryGroup.objects.get(pk=answer.json()["id"])


@pytest.fixture
def company(db: Any) -> Directory:
    return Directory()


def list_acts() -> list[str]:
    entries = LogEntry.objects.filter(actor_name="directory Entra").order_by("position")
    return [json.loads(entry.data).get("act", entry.kind) for entry in entries]


# --- joining -------------------------------------------------------------------------------
def test_entra_creates_a_member_without_rights(company: Directory) -> None:
    member = company.create()
    assert (member.username, member.email) == ("ada@example.com", "ada@example.com")
    assert (member.display_name, member.is_email_self_given) == ("Ada Lovelace", False)
    assert not (member.is_staff or member.is_superuser or member.has_usable_password())
    found = company.get(f"Users/{member.pk}")
    assert found["externalId"] == ENTRA_USER["externalId"]
    assert found["active"] is True
    assert ENTERPRISE not in found and "roles" not in found
    assert found["meta"]["location"].endswith(f"/scim/v2/Users/{member.pk}")
    assert list_acts() == ["added"]


def test_okta_creates_a_member_whose_password_counts_for_nothing(company: Directory) -> None:
    member = company.create(OKTA_USER)
    assert member.display_name == "Grace Hopper"
    assert not member.has_usable_password()


def test_the_same_user_twice_is_a_conflict(company: Directory) -> None:
    company.create()
    again = company.ask("POST", "Users", {**ENTRA_USER, "userName": "ADA@example.com"})
    assert (again.status_code, again.json()["scimType"]) == (409, "uniqueness")
    assert Member.objects.count() == 1


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"userName": ""}, "userName"),
        ({"userName": None}, "userName"),
        ({"userName": "no spaces"}, "userName"),
        ({"userName": "x" * 151}, "150"),
        ({"userName": "nul\x00"}, "userName"),
        ({"emails": [{"value": "not an address"}]}, "emails"),
        ({"emails": "ada@example.com"}, "emails"),
        ({"active": "maybe"}, "active"),
    ],
)
def test_a_wrong_user_is_refused_with_a_sentence(
    company: Directory, change: dict[str, Any], word: str
) -> None:
    answer = company.ask("POST", "Users", {**ENTRA_USER, **change})
    assert answer.status_code == 400, answer.content
    assert word in json.dumps(answer.json())
    assert answer.json()["schemas"] == ["urn:ietf:params:scim:api:messages:2.0:Error"]
    assert not Member.objects.exists()


@pytest.mark.parametrize("body", ["", "{", "[]", '"text"', "[" * 100_000])
def test_a_body_that_is_no_object_is_refused(company: Directory, body: str) -> None:
    headers = {"Authorization": f"Bearer {company.text}"}
    answer = Client().post("/scim/v2/Users", body, "application/scim+json", headers=headers)
    assert answer.status_code == 400
    assert answer.json()["scimType"] == "invalidSyntax"


def test_too_large_a_body_is_refused(company: Directory) -> None:
    answer = company.ask("POST", "Users", {**ENTRA_USER, "nickName": "x" * 1_000_001})
    assert answer.status_code == 413


# --- finding -------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("condition", "count"),
    [
        ('userName eq "ada@example.com"', 1),
        ('userName eq "ADA@EXAMPLE.COM"', 1),
        ('userName Eq "ada@example.com"', 1),
        ('userName eq "nobody@example.com"', 0),
        ('externalId eq "58342554-38d6-4ec8-948c-50044d0a33fd"', 1),
        ('emails.value co "example"', 2),
        ('userName sw "a" and active eq true', 1),
        ('userName eq "x" or name.familyName pr', 2),
        ('not (userName ew "x.org")', 2),
        ('userName ne "ada@example.com"', 1),
        ("active eq false", 0),
        ("(" * 400 + 'userName eq "x"' + ")" * 400, 0),
        ('id eq "1; DROP TABLE"', 0),
        ('userName eq "nul\\u0000"', 0),
    ],
)
def test_users_are_found_by_a_filter(company: Directory, condition: str, count: int) -> None:
    company.create()
    company.create(OKTA_USER)
    found = Client().get(
        "/scim/v2/Users",
        {"filter": condition},
        headers={"Authorization": f"Bearer {company.text}"},
    )
    assert found.status_code == 200, found.content
    assert found.json()["totalResults"] == len(found.json().get("Resources", [])) == count


@pytest.mark.parametrize(
    "condition",
    [
        "userName",
        'userName eq "x',
        'password eq "x"',
        'emails[type eq "work"] pr',
        "meta.created gt 1",
        'userName eq "' + "x" * 1_000 + '"',
    ],
)
def test_a_filter_that_is_not_supported_is_refused(company: Directory, condition: str) -> None:
    found = Client().get(
        "/scim/v2/Users",
        {"filter": condition},
        headers={"Authorization": f"Bearer {company.text}"},
    )
    assert found.status_code == 400
    assert found.json()["scimType"] in ("invalidFilter", "invalidPath")


def test_users_are_listed_in_pages(company: Directory, django_assert_max_num_queries: Any) -> None:
    for number in range(5):
        company.create(OKTA_USER, userName=f"user{number}")
    with django_assert_max_num_queries(12):
        found = company.get("Users?startIndex=2&count=2&attributes=userName")
    assert (found["totalResults"], found["startIndex"], found["itemsPerPage"]) == (5, 2, 2)
    assert [each["userName"] for each in found["Resources"]] == ["user1", "user2"]
    assert "emails" not in found["Resources"][0]
    assert company.get("Users?count=0")["totalResults"] == 5
    assert len(company.get("Users?startIndex=-3&count=5000")["Resources"]) == 5


# --- changing ------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "operation",
    [
        {"op": "Replace", "path": "active", "value": "False"},  # Entra
        {"op": "Replace", "path": "active", "value": False},
        {"op": "replace", "value": {"active": False}},  # Okta
        {"op": "Replace", "value": {"active": "False"}},
        {"op": "Add", "path": f"{USER}:active", "value": False},
    ],
)
def test_a_deactivated_member_is_out_at_once(company: Directory, operation: dict[str, Any]) -> None:
    member = company.create()
    browser = signed_in(member)
    access_tokens.create(member, name="Program", scopes=["tools"], days=7)
    SignInLink.issue(member)
    assert browser.get("/").status_code in (200, 302)
    answer = company.patch(f"Users/{member.pk}", operation)
    assert (answer.status_code, answer.json()["active"]) == (200, False)
    member.refresh_from_db()
    assert not member.is_active
    assert not Session.objects.exists()
    assert not AccessToken.objects.filter(revoked_at=None).exists()
    assert not SignInLink.objects.exists()
    assert browser.get("/")["Location"].startswith("/sign-in/")
    kinds = set(
        LogEntry.objects.filter(actor_name="directory Entra").values_list("kind", flat=True)
    )
    assert {LogEntry.Kind.MEMBER, LogEntry.Kind.TOKEN_REVOKED} <= kinds


def test_who_was_deactivated_by_the_directory_comes_back(company: Directory) -> None:
    member = company.create()
    company.patch(f"Users/{member.pk}", {"op": "Replace", "path": "active", "value": "False"})
    answer = company.patch(
        f"Users/{member.pk}", {"op": "Replace", "path": "active", "value": "True"}
    )
    assert answer.json()["active"] is True
    assert Member.objects.get().is_active


def test_who_was_deactivated_by_an_admin_stays_out(company: Directory) -> None:
    member = company.create()
    Member.objects.update(is_active=False)
    for answer in (
        company.patch(f"Users/{member.pk}", {"op": "Replace", "path": "active", "value": True}),
        company.ask("PUT", f"Users/{member.pk}", ENTRA_USER),
    ):
        assert (answer.status_code, answer.json()["scimType"]) == (403, "mutability")
    assert not Member.objects.get().is_active
    # Saying once more that they are out does not take that decision over.
    company.patch(f"Users/{member.pk}", {"op": "Replace", "path": "active", "value": False})
    again = company.patch(f"Users/{member.pk}", {"op": "Replace", "path": "active", "value": True})
    assert again.status_code == 403


def test_entra_changes_one_value_after_another(company: Directory) -> None:
    member = company.create()
    answer = company.patch(
        f"Users/{member.pk}",
        {"op": "Replace", "path": "name.familyName", "value": "King"},
        {"op": "Replace", "path": 'emails[type eq "work"].value', "value": "king@example.com"},
        {"op": "Add", "path": f"{ENTERPRISE}:department", "value": "Poetry"},
        {"op": "Add", "path": 'roles[primary eq "True"].value', "value": "admin"},
        {"op": "Remove", "path": "title"},
    )
    assert answer.status_code == 200, answer.content
    member.refresh_from_db()
    assert (member.first_name, member.last_name) == ("Ada", "King")
    assert member.email == "king@example.com"
    entry = LogEntry.objects.latest("position")
    assert set(json.loads(entry.data)["changed"]) == {"last_name", "email"}
    assert "king@example.com" not in entry.data


def test_okta_replaces_a_user(company: Directory) -> None:
    member = company.create(OKTA_USER)
    changed = {**OKTA_USER, "name": {"givenName": "Grace", "familyName": "Murray"}}
    del changed["active"]
    answer = company.ask("PUT", f"Users/{member.pk}", {**changed, "id": str(member.pk)})
    assert answer.status_code == 200, answer.content
    assert answer.json()["displayName"] == "Grace Murray"
    assert answer.json()["active"] is True


def test_a_replaced_user_whose_activity_is_not_named_stays_deactivated(company: Directory) -> None:
    member = company.create(OKTA_USER)
    company.patch(f"Users/{member.pk}", {"op": "replace", "value": {"active": False}})
    without = {name: value for name, value in OKTA_USER.items() if name != "active"}
    assert company.ask("PUT", f"Users/{member.pk}", without).json()["active"] is False


def test_a_display_name_alone_is_a_name(company: Directory) -> None:
    member = company.create({"schemas": [USER], "userName": "ada", "displayName": "Countess"})
    assert member.display_name == "Countess"
    company.patch(f"Users/{member.pk}", {"op": "Replace", "path": "displayName", "value": "Ada"})
    assert Member.objects.get().display_name == "Ada"


@pytest.mark.parametrize(
    "operations",
    [
        [{"op": "Replace", "path": "userName", "value": "taken"}],
        [{"op": "jump", "path": "active", "value": False}],
        [{"op": "replace", "path": "active"}],
        [{"op": "replace", "path": "userName", "value": None}],
        [{"op": "replace", "path": "id", "value": "7"}],
        [{"op": "replace", "path": "active", "value": {"x": 1}}],
        [{"op": "replace", "path": "name[", "value": "x"}],
        [{"op": "add"}],
        ["x"],
        [],
    ],
)
def test_a_change_that_fails_changes_nothing(company: Directory, operations: list[Any]) -> None:
    company.create(userName="taken")
    member = company.create()
    first = {"op": "Replace", "path": "name.givenName", "value": "Other"}
    answer = company.patch(f"Users/{member.pk}", *([first] if operations else []), *operations)
    assert answer.status_code in (400, 409), answer.content
    member.refresh_from_db()
    assert (member.first_name, member.username) == ("Ada", "ada@example.com")


# --- leaving -------------------------------------------------------------------------------
def test_a_deleted_user_is_deactivated_and_may_come_again(company: Directory) -> None:
    member = company.create()
    company.create_group("Chat", member)
    signed_in(member)
    assert company.ask("DELETE", f"Users/{member.pk}").status_code == 204
    assert company.ask("GET", f"Users/{member.pk}").status_code == 404
    assert company.ask("DELETE", f"Users/{member.pk}").status_code == 404
    assert not Member.objects.get().is_active
    assert not Session.objects.exists()
    assert not DirectoryGroup.objects.get().members.exists()
    assert company.create().pk == member.pk
    assert Member.objects.get().is_active


def test_a_user_whom_an_admin_deactivated_does_not_come_back_by_being_deleted(
    company: Directory,
) -> None:
    member = company.create()
    Member.objects.update(is_active=False)
    company.ask("DELETE", f"Users/{member.pk}")
    answer = company.ask("POST", "Users", ENTRA_USER)
    assert answer.status_code == 403
    assert not Member.objects.get().is_active


@pytest.mark.parametrize("how", ["off-boarded", "deactivated", "closed"])
def test_a_deleted_user_does_not_come_back_by_being_added_inactive(
    company: Directory, admin: Member, how: str
) -> None:
    """Deleted, added as inactive, and activated: three requests must not undo an admin's decision
    or the end of an account."""
    member = company.create()
    if how == "off-boarded":
        assert off_board(member, Choices(by=admin)) == []
    elif how == "closed":
        close_account(member)
    else:
        Member.objects.filter(pk=member.pk).update(is_active=False)
    assert company.ask("DELETE", f"Users/{member.pk}").status_code == 204
    assert company.create(active=False).pk == member.pk
    on = {"op": "Replace", "path": "active", "value": True}
    assert company.patch(f"Users/{member.pk}", on).status_code == 403
    assert not Member.objects.get(pk=member.pk).is_active


def test_an_admins_decision_outlives_an_earlier_one_of_the_directory(
    company: Directory, admin: Member
) -> None:
    """The directory deactivated the member, an admin activated and deactivated them again."""
    member = company.create()
    off, on = ({"op": "Replace", "path": "active", "value": value} for value in (False, True))
    company.patch(f"Users/{member.pk}", off)
    for is_active in (True, False):
        save_as_admin(admin, member, is_active=is_active)
        assert Member.objects.get(pk=member.pk).is_active is is_active
    assert company.patch(f"Users/{member.pk}", on).status_code == 403
    assert not Member.objects.get(pk=member.pk).is_active


def test_a_deleted_user_whom_an_admin_activated_is_added_again(
    company: Directory, admin: Member
) -> None:
    member = company.create()
    company.ask("DELETE", f"Users/{member.pk}")
    save_as_admin(admin, member, is_active=True)
    assert company.create().pk == member.pk
    access_tokens.create(member, name="Program", scopes=["tools"], days=7)
    company.ask("DELETE", f"Users/{member.pk}")
    save_as_admin(admin, member, is_active=True)
    access_tokens.create(member, name="Program", scopes=["tools"], days=7)
    company.create(active=False)
    assert not Member.objects.get(pk=member.pk).is_active
    assert not AccessToken.objects.filter(revoked_at=None).exists()


def save_as_admin(admin: Member, member: Member, *, is_active: bool) -> None:
    """Tick or untick the box in the admin."""
    page = f"/admin/chatapp/member/{member.pk}/change/"
    fields = {"username": member.username, "email": member.email, "first_name": member.first_name}
    box = {"is_active": "on"} if is_active else {}
    answer = signed_in(admin).post(page, {**fields, "last_name": member.last_name, **box})
    assert answer.status_code == 302, answer.content


# --- changes at the same time ---------------------------------------------------------------
@contextmanager
def meanwhile(table: str, act: Callable[[], object]) -> Iterator[None]:
    """Act once, right after the first statement that reads this table, as another request would."""
    waiting = [act]

    def run(execute: Any, sql: str, *rest: Any) -> Any:
        result = execute(sql, *rest)
        if waiting and sql.startswith("SELECT") and f'FROM "{table}"' in sql:
            waiting.pop()()
        return result

    with connection.execute_wrapper(run):
        yield
    assert not waiting


@pytest.mark.parametrize("is_whole", [False, True])
def test_a_change_does_not_undo_that_the_person_left(company: Directory, is_whole: bool) -> None:
    member = company.create()

    def leave() -> None:
        Member.objects.filter(pk=member.pk).update(is_active=False)
        DirectoryAccount.objects.update(is_suspended=True)

    with meanwhile("chatapp_member", leave):
        if is_whole:
            body = {name: value for name, value in ENTRA_USER.items() if name != "active"}
            answer = company.ask("PUT", f"Users/{member.pk}", body)
        else:
            name = {"op": "Replace", "path": "name.familyName", "value": "King"}
            answer = company.patch(f"Users/{member.pk}", name)
    assert (answer.status_code, answer.json()["active"]) == (200, False)
    assert not Member.objects.get().is_active


def test_members_put_into_a_group_at_the_same_time_both_stay(company: Directory) -> None:
    ada, grace = company.create(), company.create(OKTA_USER)
    group = company.create_group("Chat")
    with meanwhile("chatapp_member", lambda: group.members.add(ada)):
        added = {"op": "Add", "path": "members", "value": [{"value": str(grace.pk)}]}
        assert company.patch(f"Groups/{group.pk}", added).status_code == 200
    assert set(group.members.all()) == {ada, grace}


def test_a_group_that_is_gone_meanwhile_is_not_found(company: Directory) -> None:
    group = company.create_group("Chat")
    with meanwhile("chatapp_directorygroup", DirectoryGroup.objects.all().delete):
        body = {"schemas": [GROUP], "displayName": "Other"}
        assert company.ask("PUT", f"Groups/{group.pk}", body).status_code == 404


# --- typed addresses ------------------------------------------------------------------------
def test_a_change_of_other_things_does_not_vouch_for_a_typed_address(company: Directory) -> None:
    """Otherwise the sign-in of somebody whose address a member typed would open that account."""
    member = company.create()
    Member.objects.update(email="boss@example.com", is_email_self_given=True)
    assert "emails" not in company.get(f"Users/{member.pk}")
    for operation in (
        {"op": "Replace", "path": "name.familyName", "value": "King"},
        {"op": "Replace", "path": "active", "value": True},
    ):
        assert company.patch(f"Users/{member.pk}", operation).status_code == 200
    without = {name: value for name, value in ENTRA_USER.items() if name != "emails"}
    assert company.ask("PUT", f"Users/{member.pk}", without).status_code == 200
    member.refresh_from_db()
    assert (member.email, member.is_email_self_given) == ("boss@example.com", True)
    work = {"op": "Replace", "path": 'emails[type eq "work"].value', "value": "boss@example.com"}
    company.patch(f"Users/{member.pk}", work)
    assert not Member.objects.get().is_email_self_given


def test_nobody_is_found_by_an_address_that_they_typed(company: Directory) -> None:
    company.create()
    Member.objects.update(email="boss@example.com", is_email_self_given=True)
    for condition in ('emails.value eq "boss@example.com"', "emails pr"):
        found = company.get(f"Users?{urlencode({'filter': condition})}")
        assert found["totalResults"] == 0, condition


# --- what a directory may not do --------------------------------------------------------------
@pytest.mark.parametrize("rights", [{"is_staff": True}, {"is_superuser": True}])
def test_admins_are_out_of_reach(
    company: Directory, owner: Member, rights: dict[str, bool]
) -> None:
    member = company.create()
    group = company.create_group("Chat", member)
    Member.objects.filter(pk=member.pk).update(**rights)
    for method, body in (
        ("GET", None),
        ("PUT", {**ENTRA_USER, "active": False}),
        ("DELETE", None),
    ):
        assert company.ask(method, f"Users/{member.pk}", body).status_code == 404
    off = {"op": "Replace", "path": "active", "value": False}
    assert company.patch(f"Users/{member.pk}", off).status_code == 404
    assert company.ask("POST", "Users", ENTRA_USER).status_code == 409
    assert [each["userName"] for each in company.get("Users")["Resources"]] == ["owner"]
    assert "members" not in company.get(f"Groups/{group.pk}")
    added = {"op": "Add", "path": "members", "value": [{"value": str(member.pk)}]}
    assert company.patch(f"Groups/{group.pk}", added).status_code == 400
    assert Member.objects.get(pk=member.pk).is_active


def test_a_deleted_user_who_became_an_admin_is_out_of_reach(company: Directory) -> None:
    member = company.create()
    company.ask("DELETE", f"Users/{member.pk}")
    Member.objects.update(is_active=True, is_superuser=True)
    assert company.ask("POST", "Users", ENTRA_USER).status_code == 409


def test_an_admin_made_while_a_change_runs_is_out_of_reach(company: Directory) -> None:
    member = company.create()
    Member.objects.update(is_superuser=True)
    with pytest.raises(Refused):
        directory.leave(member)
    assert Member.objects.get().is_active


@pytest.mark.parametrize(
    "name", ["is_staff", "isStaff", "is_superuser", "roles", "entitlements", "userType"]
)
def test_no_attribute_makes_an_admin(company: Directory, name: str) -> None:
    member = company.create(**{name: True} if name.startswith("is") else {name: "admin"})
    company.patch(f"Users/{member.pk}", {"op": "Add", "path": name, "value": "true"})
    member.refresh_from_db()
    assert not (member.is_staff or member.is_superuser)


def test_the_directorys_address_lets_the_provider_in(company: Directory) -> None:
    """It counts as verified, also where the member typed the same before."""
    member = company.create()
    Member.objects.update(is_email_self_given=True)
    company.ask("PUT", f"Users/{member.pk}", ENTRA_USER)
    assert not Member.objects.get().is_email_self_given


def test_people_take_along_what_the_directory_said_of_them(company: Directory) -> None:
    member = company.create()
    company.create_group("Chat", member)
    target = BytesIO()
    write_archive(member, target, "https://chat.example.com")
    with ZipFile(target) as archive:
        account = json.loads(archive.read("account.json"))
    assert account["directory_id"] == ENTRA_USER["externalId"]
    assert account["directory_groups"] == ["Chat"]


# --- groups --------------------------------------------------------------------------------
def test_a_group_grants_what_the_setting_says(company: Directory, settings: Any) -> None:
    settings.SCIM_GROUPS = {"Countersigners": "Approvers"}
    ada, grace = company.create(), company.create(OKTA_USER)
    Group.objects.create(name="Countersigners")
    Group.objects.create(name="By hand").user_set.add(ada)
    group = company.create_group("Countersigners", ada)
    assert set(ada.groups.values_list("name", flat=True)) == {"Approvers", "By hand"}
    assert company.get(f"Users/{ada.pk}")["groups"][0]["display"] == "Countersigners"
    company.patch(
        f"Groups/{group.pk}",
        {"op": "Add", "path": "members", "value": [{"value": str(grace.pk)}]},
        {"op": "Remove", "path": "members", "value": [{"value": str(ada.pk)}]},  # Entra
    )
    assert set(ada.groups.values_list("name", flat=True)) == {"By hand"}
    assert grace.groups.get().name == "Approvers"
    company.patch(f"Groups/{group.pk}", {"op": "remove", "path": f'members[value eq "{grace.pk}"]'})
    assert not grace.groups.exists()
    acts = list_acts()
    assert acts.count("put into") >= 4 and acts.count("taken from") >= 4


def test_a_group_that_the_setting_does_not_name_grants_nothing(
    company: Directory, settings: Any
) -> None:
    settings.SCIM_GROUPS = {"Countersigners": "Approvers"}
    Group.objects.create(name="Approvers")
    ada = company.create()
    group = company.create_group("Approvers", ada)
    assert not ada.groups.exists()
    company.ask("PUT", f"Groups/{group.pk}", {"schemas": [GROUP], "displayName": "Countersigners"})
    assert not ada.groups.exists()  # a replaced group has no members


def test_a_renamed_or_deleted_group_takes_its_rights_along(
    company: Directory, settings: Any
) -> None:
    settings.SCIM_GROUPS = {"Countersigners": "Approvers"}
    ada = company.create()
    group = company.create_group("Countersigners", ada)
    value = {"id": str(group.pk), "displayName": "Other"}
    company.patch(f"Groups/{group.pk}", {"op": "replace", "value": value})  # Okta
    assert not ada.groups.exists()
    company.patch(
        f"Groups/{group.pk}", {"op": "replace", "value": {"displayName": "Countersigners"}}
    )
    assert ada.groups.exists()
    assert company.ask("DELETE", f"Groups/{group.pk}").status_code == 204
    assert not ada.groups.exists()


def test_who_leaves_loses_the_groups_rights(company: Directory, settings: Any) -> None:
    settings.SCIM_GROUPS = {"Countersigners": "Approvers"}
    ada = company.create()
    company.create_group("Countersigners", ada)
    company.ask("DELETE", f"Users/{ada.pk}")
    assert not ada.groups.exists()
    assert not company.create().groups.exists()


def test_a_deactivated_member_holds_no_group_and_gets_it_back(
    company: Directory, settings: Any
) -> None:
    settings.SCIM_GROUPS = {"Countersigners": "Approvers"}
    ada = company.create()
    company.create_group("Countersigners", ada)
    for active, names in ((False, []), (True, ["Approvers"])):
        company.patch(f"Users/{ada.pk}", {"op": "replace", "value": {"active": active}})
        assert list(ada.groups.values_list("name", flat=True)) == names


def test_a_closed_account_gets_no_rights_and_does_not_come_back(
    company: Directory, settings: Any
) -> None:
    settings.SCIM_GROUPS = {"Countersigners": "Approvers"}
    ada = company.create()
    group = company.create_group("Countersigners", ada)
    close_account(Member.objects.get())
    added = {"op": "Add", "path": "members", "value": [{"value": str(ada.pk)}]}
    company.patch(f"Groups/{group.pk}", added)
    assert not ada.groups.exists()
    assert DirectoryAccount.objects.get().external_id == ""
    answer = company.patch(f"Users/{ada.pk}", {"op": "replace", "value": {"active": True}})
    assert answer.status_code == 403


def test_an_admin_stays_in_a_group_whose_other_members_change(
    company: Directory,
) -> None:
    ada, grace = company.create(), company.create(OKTA_USER)
    group = company.create_group("Chat", ada)
    Member.objects.filter(pk=ada.pk).update(is_staff=True)
    body = {"schemas": [GROUP], "displayName": "Chat", "members": [{"value": str(grace.pk)}]}
    assert company.ask("PUT", f"Groups/{group.pk}", body).status_code == 200
    assert set(group.members.all()) == {ada, grace}
    assert "taken from" not in list_acts()


def test_the_statements_for_a_group_do_not_grow_with_its_members(
    company: Directory, settings: Any, django_assert_max_num_queries: Any
) -> None:
    settings.SCIM_GROUPS = {"Countersigners": "Approvers"}
    people = [company.create(userName=f"user{number}") for number in range(30)]
    with django_assert_max_num_queries(40):
        group = company.create_group("Everybody", *people)
    with django_assert_max_num_queries(40):
        body = {"schemas": [GROUP], "displayName": "Everybody"}
        assert company.ask("PUT", f"Groups/{group.pk}", body).status_code == 200


def test_groups_are_found_and_listed(
    company: Directory, django_assert_max_num_queries: Any
) -> None:
    ada = company.create()
    for name in ("One", "Two", "Three"):
        company.create_group(name, ada)
    with django_assert_max_num_queries(12):
        found = company.get("Groups?excludedAttributes=members")
    assert found["totalResults"] == 3
    assert "members" not in found["Resources"][0]
    one = company.get('Groups?filter=displayName%20eq%20"one"')["Resources"]
    assert [each["displayName"] for each in one] == ["One"]
    of_ada = f'Groups?filter=members%20eq%20"{ada.pk}"'
    assert company.get(of_ada)["totalResults"] == 3


@pytest.mark.parametrize("change", ["A\0b", "A\ud800b"])
def test_text_that_no_database_stores_is_mended(company: Directory, change: str) -> None:
    member = company.create(name={"givenName": change}, externalId=change)
    assert member.first_name.isprintable() and member.first_name.startswith("A")
    assert company.create_group(change).display_name == member.first_name
    odd = urlencode({"filter": f"userName eq {json.dumps(change)}"})
    assert company.get(f"Users?{odd}")["totalResults"] == 0
    assert company.get(f"Users?startIndex={10**24}")["Resources"] == []


@pytest.mark.parametrize(
    "body",
    [
        {"displayName": ""},
        {"displayName": "x" * 256},
        {"displayName": "Chat"},
        {"displayName": "New", "members": [{"value": "999999"}]},
        {"displayName": "New", "members": [{"value": "x"}]},
        {"displayName": "New", "members": "x"},
    ],
)
def test_a_wrong_group_is_refused(company: Directory, body: dict[str, Any]) -> None:
    company.create_group("Chat")
    answer = company.ask("POST", "Groups", {"schemas": [GROUP], **body})
    assert answer.status_code in (400, 409), answer.content
    assert DirectoryGroup.objects.count() == 1


# --- the service ---------------------------------------------------------------------------
def test_the_service_describes_itself(company: Directory) -> None:
    config = company.get("ServiceProviderConfig")
    assert config["patch"]["supported"] is True
    assert config["bulk"]["supported"] is config["sort"]["supported"] is False
    types = company.get("ResourceTypes")["Resources"]
    assert [each["endpoint"] for each in types] == ["/Users", "/Groups"]
    assert company.get("ResourceTypes/User")["schema"] == USER
    schemas = company.get("Schemas")["Resources"]
    names = {each["name"] for each in schemas[0]["attributes"]}
    assert {"userName", "active", "emails"} <= names and "password" not in names
    assert company.get(f"Schemas/{GROUP}")["id"] == GROUP
    assert company.ask("GET", "Schemas/urn:none").status_code == 404
    assert company.ask("GET", "ResourceTypes/None").status_code == 404


@pytest.mark.parametrize("path", ["Users/0", "Users/x", "Users/99999999999999999999", "Groups/7"])
def test_what_is_unknown_is_not_found(company: Directory, path: str) -> None:
    for method in ("GET", "DELETE"):
        answer = company.ask(method, path)
        assert (answer.status_code, answer.json()["status"]) == (404, "404")


def test_other_methods_are_refused(company: Directory) -> None:
    answer = company.ask("DELETE", "Users")
    assert (answer.status_code, answer["Allow"]) == (405, "GET, POST")


# --- the token -----------------------------------------------------------------------------
def test_only_a_directory_token_opens_the_address(company: Directory, admin: Member) -> None:
    _token, program = access_tokens.create(admin, name="Program", scopes=["tools"], days=7)
    mark, prefix, _secret = company.text.split("_", 2)
    for text in ("x", program, f"{mark}_{prefix}_wrong", f"{mark}_{prefix}_", f"cs_{prefix}_x"):
        answer = company.ask("GET", "Users", text=text)
        assert answer.status_code == 401, text
        assert answer["WWW-Authenticate"].startswith("Bearer")
    assert signed_in(admin).get("/scim/v2/Users").status_code == 401
    assert Client().get("/scim/v2/Users").status_code == 401
    assert Client().get(f"/scim/v2/Users?access_token={company.text}").status_code == 400


def test_a_directory_token_opens_nothing_else(company: Directory) -> None:
    headers = {"Authorization": f"Bearer {company.text}"}
    assert Client().get("/api/tools/", headers=headers).status_code == 401
    assert Client().get("/v1/models", headers=headers).status_code == 401


def test_guessing_a_token_is_stopped(company: Directory, settings: Any) -> None:
    settings.AXES_ENABLED = True
    guess = company.text[:-4] + "oops"
    statuses = [company.ask("GET", "Users", text=guess).status_code for _ in range(6)]
    assert statuses[0] == 401 and statuses[-1] == 429
    assert company.ask("GET", "Users").status_code == 429


def test_requests_of_a_token_are_limited(company: Directory, settings: Any) -> None:
    settings.SCIM_REQUESTS_PER_MINUTE = 3
    answers = [company.ask("GET", "Users") for _ in range(4)]
    assert [each.status_code for each in answers] == [200, 200, 200, 429]
    assert int(answers[-1]["Retry-After"]) > 0


def test_the_secret_is_not_stored(company: Directory) -> None:
    secret = company.text.split("_", 2)[2]
    stored = DirectoryToken.objects.values().get()
    assert secret not in str(stored)
    assert company.ask("GET", "Users").status_code == 200
    assert DirectoryToken.objects.get().last_used_at is not None


def test_the_operator_creates_lists_and_revokes_a_token(db: Any, capsys: Any) -> None:
    call_command("directory", "create-token", "Okta")
    text = capsys.readouterr().out.split()[0]
    assert DirectoryToken.objects.get().is_opened_by(text)
    call_command("directory", "list-tokens")
    listed = capsys.readouterr().out
    assert "Okta" in listed and "in use" in listed and text not in listed
    company = Directory()
    assert company.ask("GET", "Users", text=text).status_code == 200
    call_command("directory", "revoke-token", text[:13])
    assert company.ask("GET", "Users", text=text).status_code == 401
    with pytest.raises(SystemExit):
        call_command("directory", "revoke-token", text[:13])
    kinds = list(LogEntry.objects.values_list("kind", flat=True))
    assert LogEntry.Kind.TOKEN_MADE in kinds and LogEntry.Kind.TOKEN_REVOKED in kinds


@pytest.mark.parametrize("name", ["", "x" * 61, "a\nb"])
def test_a_token_needs_a_name(db: Any, name: str) -> None:
    with pytest.raises(SystemExit):
        call_command("directory", "create-token", name)


def test_the_log_shows_what_the_directory_did_and_stays_intact(
    company: Directory, admin: Member
) -> None:
    member = company.create()
    company.ask("DELETE", f"Users/{member.pk}")
    assert audit_log.verify()[1] == ""
    page = parse(signed_in(admin).get("/admin/chatapp/logentry/").content.decode())
    assert "directory Entra" in page.text
    assert DirectoryAccount.objects.get().has_left


@pytest.mark.parametrize("is_left_first", [True, False])
def test_a_directory_brings_back_nobody_whom_an_admin_off_boarded(
    company: Directory, admin: Member, is_left_first: bool
) -> None:
    """Neither at once, nor by creating them deactivated and activating them then."""
    member = company.create()
    if is_left_first:
        company.ask("DELETE", f"Users/{member.pk}")
    off_board(member, Choices(by=admin))
    company.ask("DELETE", f"Users/{member.pk}")
    assert company.ask("POST", "Users", ENTRA_USER).status_code == 403
    assert company.create(active=False) == member
    activate = {"op": "Replace", "path": "active", "value": "True"}
    assert company.patch(f"Users/{member.pk}", activate).status_code == 403
    member.refresh_from_db()
    assert not member.is_active
