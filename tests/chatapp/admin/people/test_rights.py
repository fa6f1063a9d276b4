"""The rights of admins: who gives them, whom an admin manages, and what they leave alone."""

import json
from typing import Any

import pytest
from django.contrib.auth.models import Group, Permission
from django.core.management import call_command
from django.test import Client

from chatapp.models import LogEntry, Member, ModelProvider
from chatapp.people.admin_rights import RIGHTS
from chatapp.rendering.pages.log import build_line
from chatapp.tools.core.add_service import TOOL as ADD_SERVICE
from chatapp.tools.core_catalogue import may_use
from mcpconfig.models import Credential, Service
from mcpconfig.secrets import credentials
from mcpconfig.values.service_admins import manages_services
from tests.chatapp.admin.policy.test_tested_saves import Form
from tests.conftest import make_recent, signed_in

ADD = "/admin/chatapp/member/add/"
PASSWORD = "a long enough phrase"


def make_admin(*rights: str, name: str = "clerk") -> Member:
    return Member.objects.create_user(name, password=PASSWORD, is_staff=True, rights=list(rights))


def change(member: Member) -> str:
    return f"/admin/chatapp/member/{member.pk}/change/"


def form_of(member: Member, **fields: Any) -> dict[str, Any]:
    values = {"username": member.username, "is_active": "on", "rights": member.rights}
    return {**values, **({"is_superuser": "on"} if member.is_superuser else {}), **fields}


def read(member: Member) -> Member:
    return Member.objects.get(pk=member.pk)


# --- giving --------------------------------------------------------------------------------------
def test_a_full_admin_gives_rights_which_make_an_admin(admin_client: Client, owner: Member) -> None:
    make_recent(admin_client).post(change(owner), form_of(owner, rights=["policy", "audit"]))
    owner = read(owner)
    assert (owner.is_staff, owner.is_superuser, owner.rights) == (True, False, ["policy", "audit"])
    assert owner.has_perm("chatapp.change_policyrule")
    assert not owner.has_perm("mcpconfig.change_service")
    entry = LogEntry.objects.filter(kind=LogEntry.Kind.MEMBER).order_by("position").last()
    assert entry is not None
    assert json.loads(entry.data)["changed"]["rights"]["after"] == ["policy", "audit"]
    admin_client.post(change(owner), form_of(owner, rights=[]))
    assert not read(owner).is_staff


@pytest.mark.parametrize("right", sorted(set(RIGHTS) - {"people", "traces"}))
def test_nobody_gives_a_right_that_they_lack(owner: Member, right: str) -> None:
    client = make_recent(signed_in(make_admin("people", "traces")))
    page = client.post(change(owner), form_of(owner, rights=[right])).content.decode()
    assert "You don’t have this right, so you can’t give or take it" in page
    assert read(owner).rights == []
    client.post(ADD, {"username": "kim", "password": PASSWORD, "rights": [right]})
    assert not Member.objects.filter(username="kim").exists()
    client.post(change(owner), form_of(owner, rights=["traces"]))
    assert read(owner).rights == ["traces"]


def test_nobody_promotes_themselves(owner: Member) -> None:
    clerk = make_admin("people")
    client = make_recent(signed_in(clerk))
    client.post(change(clerk), form_of(clerk, rights=["people", "chats"]))
    client.post(change(clerk), form_of(clerk, is_superuser="on"))
    client.post(change(owner), form_of(owner, is_superuser="on"))
    client.post(ADD, {"username": "kim", "password": PASSWORD, "is_superuser": "on"})
    assert read(clerk).rights == ["people"]
    assert not Member.objects.filter(is_superuser=True).exists()


def test_no_right_comes_by_a_group(owner: Member) -> None:
    """A group can have permissions that somebody gave it by hand."""
    group = Group.objects.create(name="Keepers")
    group.permissions.add(Permission.objects.get(codename="change_policyrule"))
    clerk = make_admin("people")
    client = signed_in(clerk)
    page = client.post(change(clerk), form_of(clerk, groups=[group.pk])).content.decode()
    assert "One of these groups has rights that you don’t have." in page
    inline = {
        "name": "Keepers",
        "Member_groups-TOTAL_FORMS": "1",
        "Member_groups-INITIAL_FORMS": "0",
        "Member_groups-0-member": clerk.pk,
    }
    assert client.post(f"/admin/auth/group/{group.pk}/change/", inline).status_code == 403
    assert not read(clerk).groups.exists()


# --- managing others -----------------------------------------------------------------------------
@pytest.mark.parametrize("rights", [["policy"], ["people", "audit"]])
@pytest.mark.parametrize("is_active", [True, False])
def test_nobody_takes_over_an_admin_with_further_rights(
    owner: Member, rights: list[str], is_active: bool
) -> None:
    Member.objects.filter(pk=owner.pk).update(is_staff=True, rights=rights, is_active=is_active)
    client = signed_in(make_admin("people"))
    before = read(owner).password
    pages = (change(owner), f"/admin/chatapp/member/{owner.pk}/password/")
    for page in (*pages, f"/admin/chatapp/member/{owner.pk}/delete/"):
        passwords = {"password1": PASSWORD, "password2": PASSWORD, "usable_password": "true"}
        answer = client.post(page, {**form_of(read(owner)), **passwords, "post": "yes"})
        assert answer.status_code == 403, page
    chosen = {"_selected_action": [owner.pk], "post": "yes"}
    for action in ("make_sign_in_links", "remove_second_factors", "delete_selected"):
        client.post("/admin/chatapp/member/", {"action": action, **chosen})
    assert not owner.signinlink_set.exists()
    assert read(owner).password == before


def test_a_full_admin_is_managed_by_full_admins_only(admin: Member) -> None:
    client = signed_in(make_admin(*RIGHTS))
    assert client.post(change(admin), form_of(admin)).status_code == 403


def test_the_last_full_admin_stays(admin_client: Client, admin: Member) -> None:
    sentence = "This is the last full admin."
    demoted = {"username": "admin", "is_active": "on"}
    assert sentence in admin_client.post(change(admin), demoted).content.decode()
    deactivated = {"username": "admin", "is_superuser": "on"}
    assert sentence in admin_client.post(change(admin), deactivated).content.decode()
    page = admin_client.post(f"/admin/chatapp/member/{admin.pk}/delete/", {"post": "yes"})
    assert page.status_code in (200, 403)
    chosen = {"action": "delete_selected", "_selected_action": [admin.pk], "post": "yes"}
    admin_client.post("/admin/chatapp/member/", chosen)
    assert read(admin).is_superuser
    other = Member.objects.create_superuser("other", password=PASSWORD)
    admin_client.post(change(other), {"username": "other", "is_active": "on"})
    assert not read(other).is_superuser


# --- credentials ---------------------------------------------------------------------------------
@pytest.fixture
def shop(db: Any) -> Service:
    service = Service.objects.create(
        name="shop", url="https://shop.example/mcp", authentication="bearer", visibility="everyone"
    )
    credentials.set_bearer(service, "canary-token")
    return service


def test_who_lacks_the_right_to_credentials_changes_none(shop: Service) -> None:
    client, page = signed_in(make_admin("services")), f"/admin/mcpconfig/service/{shop.pk}/change/"
    shown = client.get(page).content.decode()
    assert 'name="bearer"' not in shown
    assert 'name="authentication"' not in shown
    stored = bytes(Credential.objects.get().bearer)
    typed = {"bearer": "another", "authentication": "none", "title": "Corner shop"}
    Form(client, shop).save(**typed)
    shop.refresh_from_db()
    assert (shop.title, shop.authentication) == ("Corner shop", "bearer")
    assert bytes(Credential.objects.get().bearer) == stored
    moved = Form(client, shop).save(url="https://evil.example/mcp")
    assert "You need the right to change credentials." in moved
    assert client.get("/admin/mcpconfig/service/import/").status_code == 403
    shop.refresh_from_db()
    assert shop.url == "https://shop.example/mcp"


def test_the_key_of_a_model_provider_is_a_credential(db: Any) -> None:
    provider = ModelProvider.objects.create(
        slug="ai", label="AI", kind="openai-chat", base_url="https://ai.example/v1"
    )
    client = signed_in(make_admin("models"))
    page = f"/admin/chatapp/modelprovider/{provider.pk}/change/"
    assert 'name="key"' not in client.get(page).content.decode()
    values = {"slug": "ai", "label": "Ours", "kind": "openai-chat", "position": 0}
    values |= {"chat_models-TOTAL_FORMS": 0, "chat_models-INITIAL_FORMS": 0}
    moved = client.post(page, {**values, "base_url": "https://evil.example/v1"})
    assert "You need the right to change credentials to change this." in moved.content.decode()
    client.post(page, {**values, "base_url": provider.base_url, "key": "canary", "headers": "a: b"})
    provider.refresh_from_db()
    assert (provider.label, provider.base_url) == ("Ours", "https://ai.example/v1")
    assert not provider.sealed_key
    assert client.get("/admin/chatapp/modelprovider/add/").status_code == 403


# --- in the chat ---------------------------------------------------------------------------------
def test_only_service_admins_use_what_is_the_admins_in_the_chat(db: Any) -> None:
    auditor, keeper = make_admin("audit", name="auditor"), make_admin("services")
    private = Service.objects.create(
        name="private", url="https://private.example/mcp", visibility="private"
    )
    assert list(Service.objects.for_member(auditor)) == []
    assert list(Service.objects.for_member(keeper)) == [private]
    assert [manages_services(each) for each in (auditor, keeper)] == [False, True]
    assert [may_use(each, ADD_SERVICE) for each in (auditor, keeper)] == [False, True]


def test_rights_count_for_nothing_while_inactive_or_no_admin(owner: Member) -> None:
    Member.objects.filter(pk=owner.pk).update(rights=["policy"])
    assert not read(owner).has_perm("chatapp.view_policyrule")
    Member.objects.filter(pk=owner.pk).update(is_staff=True)
    assert read(owner).has_perm("chatapp.view_policyrule")
    Member.objects.filter(pk=owner.pk).update(is_active=False)
    assert not read(owner).has_perm("chatapp.view_policyrule")


# --- what the log says ----------------------------------------------------------------------------
def test_a_sign_in_link_is_in_the_log_of_both(owner: Member) -> None:
    """Who has it acts as the member, and reads their chats without a reason."""
    clerk = make_admin("people")
    chosen = {"action": "make_sign_in_links", "_selected_action": [owner.pk]}
    client = signed_in(clerk)
    client.post("/settings/confirm/", {"password": PASSWORD})
    client.post("/admin/chatapp/member/", chosen)
    assert owner.signinlink_set.exists()
    entry = LogEntry.objects.filter(kind=LogEntry.Kind.MEMBER, actor_id=clerk.pk).get()
    assert (entry.person_id, build_line(entry).said) == (owner.pk, "A sign-in link was created.")
    assert "sign-in/" not in entry.data


def test_a_link_of_the_command_is_in_the_log(owner: Member) -> None:
    call_command("sign_in_link", owner.username)
    entry = LogEntry.objects.filter(person_id=owner.pk).order_by("position").last()
    assert entry is not None
    assert json.loads(entry.data)["act"] == "link made"


# --- a device that was left unlocked --------------------------------------------------------------
def test_giving_rights_needs_a_recent_sign_in(admin_client: Client, owner: Member) -> None:
    for given in ({"rights": ["policy"]}, {"is_superuser": "on"}):
        form = form_of(owner, first_name="Ada", **given)
        page = admin_client.post(change(owner), form).content.decode()
        assert "To give rights, confirm that it is you, and then save again." in page
        assert 'value="Ada"' in page
        new = {"username": "kim", "password": PASSWORD, **given}
        assert "confirm that it is you" in admin_client.post(ADD, new).content.decode()
    assert not read(owner).is_staff
    assert not Member.objects.filter(username="kim").exists()
    # Nothing else of a member needs it.
    admin_client.post(change(owner), form_of(owner, first_name="Ada"))
    assert read(owner).first_name == "Ada"


@pytest.mark.parametrize("given", [{"rights": ["policy"]}, {"is_superuser": "on"}])
def test_activating_an_admin_again_needs_a_recent_sign_in(
    admin_client: Client, owner: Member, given: dict[str, Any]
) -> None:
    """The password of an admin who left may be known to others."""
    make_recent(admin_client).post(change(owner), form_of(owner, **given))
    form = form_of(read(owner), **given)
    form.pop("is_active")
    session = admin_client.session
    session["account_authentication_methods"] = []
    session.save()
    admin_client.post(change(owner), form)
    assert not read(owner).is_active
    page = admin_client.post(change(owner), form | {"is_active": "on"}).content.decode()
    assert "To give rights, confirm that it is you" in page
    assert not read(owner).is_active
    make_recent(admin_client).post(change(owner), form | {"is_active": "on"})
    assert read(owner).is_active


def test_ways_into_an_account_need_a_recent_sign_in(admin_client: Client, admin: Member) -> None:
    """An admin could give themselves a password or a link, which works after the session."""
    before = read(admin).password
    page = f"/admin/chatapp/member/{admin.pk}/password/"
    form = {"password1": PASSWORD, "password2": PASSWORD, "usable_password": "true"}
    chosen = {"action": "make_sign_in_links", "_selected_action": [admin.pk]}
    for address, data in ((page, form), ("/admin/chatapp/member/", chosen)):
        answer = admin_client.post(address, data)
        assert answer["Location"].startswith("/settings/confirm/"), address
    assert admin_client.get(page).status_code == 302
    assert (read(admin).password, admin.signinlink_set.exists()) == (before, False)
    admin_client.post("/settings/confirm/", {"password": "admin-password"})
    assert admin_client.get(page).status_code == 200
    admin_client.post(page, form)
    assert read(admin).check_password(PASSWORD)
