"""Off-boarding: the summary, what ends, who may do it, and what happens after a failure."""

import json
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.db.models.signals import pre_delete
from django.test import Client
from django.utils import timezone

from chatapp.accounts import off_boarding
from chatapp.accounts.off_boarding import Choices
from chatapp.api import access_tokens
from chatapp.audit import audit_log
from chatapp.models import (
    AccessToken,
    Approval,
    Attachment,
    Consent,
    Conversation,
    DirectoryAccount,
    DirectoryGroup,
    Invitation,
    LogEntry,
    Member,
    MessageDraft,
    Part,
    Project,
    ProjectMember,
    PushDevice,
    SharedLink,
    StandIn,
    Turn,
    Webhook,
)
from chatapp.notifications import push_keys
from chatapp.people.refused import Refused
from chatapp.tools.taint import find_taint_of_chats
from mcpconfig.models import (
    Credential,
    OAuthClient,
    OAuthGrant,
    OAuthRevocation,
    Service,
    ServiceDraft,
)
from mcpconfig.secrets import oauth_secrets
from tests.conftest import signed_in
from tests.turns import rows

Kind = LogEntry.Kind


@pytest.fixture
def leaver(owner: Member, stranger: Member) -> Member:
    """A member with one of each thing that off-boarding ends."""
    group = Group.objects.create(name="Release")
    owner.groups.add(group)
    access_tokens.create(owner, name="Bot", scopes=("chat",), days=7)
    shop = rows.service("shop", url="https://shop.example/mcp")
    OAuthGrant.objects.create(service=shop, person=owner, endpoint=shop.endpoint)
    own = rows.service("own", url="https://own.example/mcp", owner=owner)
    Credential.objects.create(service=own)
    ServiceDraft.objects.create(person=owner, secrets=b"sealed")
    Consent.objects.create(
        person=owner, service=shop, endpoint=shop.endpoint, scope="always", definitions={}
    )
    today = timezone.localdate()
    StandIn.objects.create(approver=owner, stand_in=stranger, begins_on=today, ends_on=today)
    StandIn.objects.create(approver=stranger, stand_in=owner, begins_on=today, ends_on=today)
    rows.question(rows.turn(owner, text="Waiting"))
    done = rows.turn(owner, state=Turn.State.DONE, text="Done")
    SharedLink.objects.create(
        conversation=done.conversation,
        audience=SharedLink.Audience.MEMBERS,
        tools=SharedLink.Tools.NONE,
        includes_files=False,
        last_message=done.answer,
        last_part=0,
        messages=2,
        taken_at=timezone.now(),
    )
    invitation = Invitation(invited_by=owner)
    invitation.set_token()
    invitation.save()
    mine = Project.objects.create(owner=owner, name="Mine")
    ProjectMember.objects.create(project=mine, person=stranger, role="editor")
    theirs = Project.objects.create(owner=stranger, name="Theirs")
    ProjectMember.objects.create(project=theirs, person=owner)
    return owner


def address_of(member: Member) -> str:
    return f"/admin/chatapp/member/{member.pk}/off-board/"


def count_left(member: Member) -> dict[str, int]:
    counted = {step.name: step.count(member) for step in off_boarding.STEPS}
    return {name: count for name, count in counted.items() if count}


def entries_of(kind: str) -> list[dict[str, Any]]:
    found = LogEntry.objects.filter(kind=kind).order_by("position")
    return [json.loads(entry.data) for entry in found]


def test_the_summary_counts_all_and_ends_nothing(
    admin_client: Client, leaver: Member, owner_client: Client
) -> None:
    before = count_left(leaver)
    assert len(before) == len(off_boarding.STEPS) - 2, "There are no sessions listed or factors."
    page = admin_client.get(address_of(leaver)).content.decode()
    for shown in ("1 access token is revoked", "1 own service is closed", "2 delegations end"):
        assert shown in page
    assert "The credentials of 1 own service are deleted" in page
    assert "1 answer that runs or waits is stopped" in page
    assert count_left(leaver) == before


def test_one_action_ends_everything(
    admin_client: Client, leaver: Member, owner_client: Client, stranger: Member
) -> None:
    assert owner_client.get("/").status_code == 200
    answer = admin_client.post(address_of(leaver), {"chats": "keep"})
    assert answer["Location"] == f"/admin/chatapp/member/{leaver.pk}/person/"
    leaver.refresh_from_db()
    assert (leaver.is_active, leaver.has_usable_password()) == (False, False)
    assert owner_client.get("/")["Location"].startswith("/sign-in/")
    assert count_left(leaver) == {"chats": 2}
    assert not AccessToken.objects.live().exists()
    assert Turn.objects.get(question__parts__text="Waiting").state == Turn.State.STOPPED
    assert Approval.objects.get().state not in (Approval.State.OPEN, Approval.State.GRANTED)
    assert not Service.objects.get(name="own").is_enabled
    assert not Credential.objects.exists() and not ServiceDraft.objects.exists()
    assert Project.objects.get(name="Mine").owner == stranger
    assert not Project.objects.get(name="Theirs").members.exists()
    assert not Project.objects.get(name="Mine").members.exists()
    acts = [data["act"] for data in entries_of(Kind.OFF_BOARDED)]
    assert acts == ["locked out", "finished"]
    assert entries_of(Kind.OFF_BOARDED)[0]["found"]["delegates"] == 2
    assert LogEntry.objects.filter(kind=Kind.SHARE_REVOKED).exists()
    assert not audit_log.verify()[1]


def test_credentials_of_an_own_service_that_is_switched_off_are_deleted_too(
    admin_client: Client, leaver: Member
) -> None:
    off = rows.service("off", url="https://off.example/mcp", owner=leaver, is_enabled=False)
    Credential.objects.create(service=off, bearer=b"sealed", client_secret=b"sealed")
    signed_in_to = rows.service("oauth", url="https://oauth.example/mcp", owner=leaver)
    OAuthClient.objects.create(service=signed_in_to, kind="typed", issuer="x", client_id="x")
    OAuthGrant.objects.create(service=signed_in_to, endpoint=signed_in_to.url)
    kept = Credential.objects.create(service=rows.service("shop"), headers=b"sealed")
    page = admin_client.get(address_of(leaver)).content.decode()
    assert "The credentials of 3 own services are deleted" in page
    assert "2 own services are closed" in page
    admin_client.post(address_of(leaver), {"chats": "keep"})
    assert list(Credential.objects.all()) == [kept]
    assert not OAuthClient.objects.filter(service=signed_in_to).exists()
    assert not OAuthGrant.objects.filter(service=signed_in_to).exists()
    assert entries_of(Kind.OFF_BOARDED)[0]["found"]["credentials"] == 3
    changed = [data["of"] for data in entries_of(Kind.SERVICE) if data["act"] == "removed"]
    assert changed == ["credentials of own", "credentials of off"]


def test_a_token_that_a_server_can_revoke_is_noted_for_it(leaver: Member, admin: Member) -> None:
    """`tests/mcpconfig/oauth/test_removal.py` shows that the server then revokes it."""
    grant = OAuthGrant.objects.get()
    grant.client = OAuthClient.objects.create(
        service=grant.service, kind=OAuthClient.Kind.REGISTERED, issuer="https://id.example"
    )
    grant.revocation_endpoint = "https://id.example/revoke"
    oauth_secrets.encrypt_token(grant, "refresh", "refresh-canary")
    grant.save()
    off_boarding.off_board(leaver, Choices(by=admin))
    assert not OAuthGrant.objects.exists()
    note = OAuthRevocation.objects.get()
    held = oauth_secrets.decrypt_revocation(bytes(note.payload))
    assert (note.revocation_endpoint, held["refresh_token"]) == (
        "https://id.example/revoke",
        "refresh-canary",
    )


def test_a_failure_half_way_leaves_the_member_locked_out_and_the_rest_done(
    admin_client: Client, leaver: Member
) -> None:
    def fail(**_facts: Any) -> None:
        raise OSError("The disk is full.")

    pre_delete.connect(fail, sender=StandIn)
    try:
        answer = admin_client.post(address_of(leaver), {"chats": "keep"}, follow=True)
    finally:
        pre_delete.disconnect(fail, sender=StandIn)
    assert "is locked out, but this is left: 2 delegations end" in answer.content.decode()
    leaver.refresh_from_db()
    assert not leaver.is_active
    assert count_left(leaver) == {"delegates": 2, "chats": 2}
    assert entries_of(Kind.OFF_BOARDED)[-1] == {
        "act": "incomplete",
        "left": ["delegates"],
        "of": "owner",
    }
    again = admin_client.get(address_of(leaver)).content.decode()
    assert "This member is locked out. Off-board again to end what is left." in again
    admin_client.post(address_of(leaver), {"chats": "keep"})
    assert count_left(leaver) == {"chats": 2}
    assert entries_of(Kind.OFF_BOARDED)[-1]["act"] == "finished"


# --- chats ---------------------------------------------------------------------------------------
def test_chats_are_handed_over_with_a_reason(
    admin_client: Client, leaver: Member, stranger: Member
) -> None:
    chat = Conversation.objects.get(title="Done")
    part = Part.objects.filter(message__conversation=chat).first()
    file = Attachment.objects.create(
        owner=leaver, part=part, name="a.txt", size=1, hash="0", contents=[]
    )
    MessageDraft.objects.create(owner=leaver, conversation=chat, text="A draft")
    form = {"chats": "hand_over", "reader": "stranger", "reason": "She takes over the release."}
    admin_client.post(address_of(leaver), form)
    assert set(Conversation.filter_owned(stranger)) == set(Conversation.objects.all())
    file.refresh_from_db()
    assert file.owner == stranger
    assert not MessageDraft.objects.exists()
    data = entries_of(Kind.CHAT_HANDED_OVER)
    assert {(each["from"], each["to"], each["reason"]) for each in data} == {
        ("owner", "stranger", "She takes over the release.")
    }
    assert signed_in(stranger).get(f"/c/{chat.pk}/").status_code == 200


def test_what_another_person_wrote_is_untrusted_in_a_chat_that_was_handed_over(
    leaver: Member, stranger: Member, admin: Member
) -> None:
    choices = Choices(by=admin, reader=stranger, reason="Takes over.")
    off_boarding.off_board(leaver, choices)
    chat = Conversation.objects.get(title="Done")
    assert chat.is_shared_copy
    assert find_taint_of_chats([chat.pk]) == "chat of owner"


def test_a_chat_whose_answer_still_runs_is_left_and_handed_over_later(
    admin_client: Client, leaver: Member, stranger: Member
) -> None:
    running = rows.turn(leaver, state=Turn.State.RUNNING, text="Running")
    form = {"chats": "hand_over", "reader": "stranger", "reason": "She takes over."}
    page = admin_client.post(address_of(leaver), form, follow=True).content.decode()
    assert "but this is left: 1 chat is kept or handed over" in page
    assert Conversation.objects.get(owner=leaver) == running.conversation
    Turn.objects.filter(pk=running.pk).update(state=Turn.State.STOPPED)
    page = admin_client.post(address_of(leaver), form, follow=True).content.decode()
    assert "is off-boarded." in page
    assert not Conversation.objects.filter(owner=leaver).exists()


@pytest.mark.parametrize(
    ("form", "sentence"),
    [
        ({"chats": "hand_over", "reader": "stranger"}, "Enter a reason."),
        ({"chats": "hand_over", "reason": "x"}, "Enter who gets the chats."),
        (
            {"chats": "hand_over", "reader": "nobody", "reason": "x"},
            "There is no other active member named “nobody”.",
        ),
        (
            {"chats": "keep", "new_owner": "owner"},
            "There is no other active member named “owner”.",
        ),
    ],
)
def test_bad_input_ends_nothing_and_keeps_what_was_typed(
    admin_client: Client, leaver: Member, form: dict[str, str], sentence: str
) -> None:
    answer = admin_client.post(address_of(leaver), form)
    assert answer.status_code == 422
    page = answer.content.decode()
    assert sentence in page
    assert all(value in page for value in form.values())
    leaver.refresh_from_db()
    assert leaver.is_active


def test_an_admin_without_the_right_to_chats_hands_over_none(
    leaver: Member, stranger: Member
) -> None:
    clerk = Member.objects.create_user(
        "clerk", password="clerk-password", is_staff=True, rights=["people"]
    )
    client = signed_in(clerk)
    assert "hand_over" not in client.get(address_of(leaver)).content.decode()
    form = {"chats": "hand_over", "reader": "clerk", "reason": "I am curious."}
    client.post(address_of(leaver), form)
    leaver.refresh_from_db()
    assert not leaver.is_active
    assert not Conversation.objects.exclude(owner=leaver).exists()


# --- who may do it -------------------------------------------------------------------------------
def test_nobody_off_boards_an_admin_with_further_rights(leaver: Member, admin: Member) -> None:
    clerk = Member.objects.create_user(
        "clerk", password="clerk-password", is_staff=True, rights=["people"]
    )
    for rights in (["policy"], ["people", "audit"]):
        Member.objects.filter(pk=leaver.pk).update(is_staff=True, rights=rights)
        assert signed_in(clerk).post(address_of(leaver), {}).status_code == 403
    assert signed_in(clerk).post(address_of(admin), {}).status_code == 403
    assert not Member.objects.filter(is_active=False).exists()


def test_the_last_full_admin_is_not_off_boarded(leaver: Member, admin: Member) -> None:
    with pytest.raises(Refused, match="last full admin"):
        off_boarding.off_board(admin, Choices(by=leaver))
    with pytest.raises(Refused, match="off-board yourself"):
        off_boarding.off_board(admin, Choices(by=admin))
    admin.refresh_from_db()
    assert admin.is_active


# --- projects of a member who is deactivated ------------------------------------------------------
def test_a_project_of_a_deactivated_member_has_an_active_owner(
    admin_client: Client, leaver: Member, stranger: Member
) -> None:
    form = {"username": "owner", "groups": []}
    answer = admin_client.post(f"/admin/chatapp/member/{leaver.pk}/change/", form)
    assert answer.status_code == 302
    leaver.refresh_from_db()
    assert not leaver.is_active
    project = Project.objects.get(name="Mine")
    assert project.owner == stranger
    assert project.members.get().person == leaver, "They are an editor if they come back."


def test_projects_go_to_whom_the_admin_chooses(
    admin_client: Client, leaver: Member, admin: Member
) -> None:
    Project.objects.create(owner=leaver, name="Alone")
    admin_client.post(address_of(leaver), {"chats": "keep", "new_owner": "admin"})
    assert set(Project.objects.filter(owner=admin).values_list("name", flat=True)) == {
        "Mine",
        "Alone",
    }


# --- what other parts keep about a member ---------------------------------------------------------
def test_nothing_of_other_parts_keeps_access(
    leaver: Member, admin: Member, owner_client: Client
) -> None:
    """Push devices, webhooks, drafts of services with their secrets, and the directory."""
    PushDevice.objects.create(
        person=leaver,
        key=push_keys.make_key(),
        address_hash="a" * 64,
        session_key=owner_client.session.session_key or "",
        name="Phone",
    )
    webhook = Webhook.objects.create(name="Release", format="slack", audience="chosen")
    webhook.members.add(leaver, admin)
    for person in (leaver, admin):
        ServiceDraft.objects.create(person=person, secrets=b"sealed")
    DirectoryAccount.objects.create(member=leaver, is_suspended=True)
    DirectoryGroup.objects.create(display_name="Release").members.add(leaver)
    off_boarding.off_board(leaver, Choices(by=admin))
    assert not PushDevice.objects.exists()
    assert list(webhook.members.all()) == [admin]
    assert [draft.person for draft in ServiceDraft.objects.all()] == [admin]
    assert not DirectoryAccount.objects.get().is_suspended
    assert not leaver.directory_groups.exists()


# --- rights that change meanwhile -----------------------------------------------------------------
@pytest.mark.parametrize(
    "change",
    [
        ("clerk", {"is_active": False}),
        ("clerk", {"rights": ["policy"]}),
        ("owner", {"is_staff": True, "rights": ["people", "audit"]}),
    ],
)
def test_the_rights_of_the_moment_count(leaver: Member, change: tuple[str, Any]) -> None:
    clerk = Member.objects.create_user(
        "clerk", password="clerk-password", is_staff=True, rights=["people"]
    )
    name, values = change
    Member.objects.filter(username=name).update(**values)
    with pytest.raises(Refused, match="any more"):
        off_boarding.off_board(leaver, Choices(by=clerk))
    leaver.refresh_from_db()
    assert leaver.is_active
