"""The settings page: profile, appearance, sessions, the download of one's data and its deletion."""

import io
import json
import zipfile
from typing import Any

import pytest
from allauth.mfa.models import Authenticator
from allauth.usersessions.models import UserSession
from django.contrib.sessions.models import Session
from django.core.files.base import ContentFile
from django.core.files.storage import storages
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.utils import timezone
from django_tasks_db.models import DBTaskResult

from chatapp.accounts.personal_data import delete_rows
from chatapp.accounts.sessions import describe_device, list_devices
from chatapp.api import access_tokens
from chatapp.background.jobs import delete_closed_account
from chatapp.conversations.assistant_pictures import store_picture
from chatapp.models import (
    AccessToken,
    AnswerFeedback,
    Assistant,
    AssistantPicture,
    Attachment,
    ChatImport,
    Consent,
    Conversation,
    File,
    LogEntry,
    MailPreference,
    Member,
    Memory,
    MessageDraft,
    NotificationPreference,
    PersonSignal,
    Project,
    ProjectMember,
    SavedPrompt,
    SharedLink,
    StandIn,
    StoredObject,
    Turn,
)
from chatapp.sharing import links
from chatapp.sharing.links import Choices
from chatapp.sharing.tokens import make_token
from mcpconfig.models import Service
from mcpconfig.secrets import credentials
from tests.chatapp.projects.made import add_file, add_member, make_project
from tests.dom_tree import parse
from tests.turns import rows

Kind = LogEntry.Kind
FIREFOX = "Mozilla/5.0 (Macintosh; Intel Mac OS X 14.6; rv:140.0) Gecko/20100101 Firefox/140.0"


def sign_in(name: str = "owner", **headers: str) -> Client:
    client = Client(headers=headers)
    answer = client.post("/sign-in/", {"username": name, "password": f"{name}-password"})
    assert answer.status_code == 302
    return client


# --- profile and appearance ----------------------------------------------------------------------
def test_a_person_changes_their_name_and_address(owner: Member) -> None:
    form = {"first_name": "Ada", "last_name": "Lovelace", "email": "ada@example.com"}
    assert sign_in().post("/settings/profile", form).status_code == 302
    owner.refresh_from_db()
    assert (owner.display_name, owner.email) == ("Ada Lovelace", "ada@example.com")
    assert owner.is_email_self_given


def test_a_wrong_address_is_refused_and_stays_in_the_box(owner: Member) -> None:
    answer = sign_in().post("/settings/profile", {"first_name": "Ada", "email": "nowhere"})
    assert answer.status_code == 422
    page = parse(answer.content.decode())
    assert page.one("input", name="email")["value"] == "nowhere"
    owner.refresh_from_db()
    assert owner.first_name == ""


def test_an_address_that_an_admin_sets_counts_for_providers(
    owner: Member, admin: Member, admin_client: Client
) -> None:
    Member.objects.filter(pk=owner.pk).update(email="x@example.com", is_email_self_given=True)
    form = {"username": "owner", "email": "ada@example.com", "is_active": "on"}
    answer = admin_client.post(f"/admin/chatapp/member/{owner.pk}/change/", form)
    assert answer.status_code == 302
    owner.refresh_from_db()
    assert not owner.is_email_self_given


def test_theme_and_language_are_kept(owner: Member) -> None:
    client = sign_in()
    client.post("/settings/appearance", {"theme": "dark", "language": "de"})
    html = client.get("/settings/").content.decode()
    assert 'data-theme="dark"' in html
    assert '<html lang="de"' in html
    assert client.post("/settings/appearance", {"theme": "pink"}).status_code == 422


# --- sessions ------------------------------------------------------------------------------------
def test_sessions_are_listed_with_their_device(owner: Member) -> None:
    client = sign_in(**{"User-Agent": FIREFOX})
    html = client.get("/settings/").content.decode()
    assert "Firefox on macOS" in html
    assert "This device" in html


def test_one_session_is_ended(owner: Member) -> None:
    other, mine = sign_in(), sign_in()
    row = UserSession.objects.get(session_key=other.session.session_key)
    assert mine.post(f"/settings/sessions/{row.pk}/end").status_code == 302
    assert PersonSignal.objects.filter(person=owner).exists()  # closes the open pages
    assert other.get("/memory/").status_code == 302
    assert mine.get("/memory/").status_code == 200


def test_nobody_ends_the_session_of_somebody_else(owner: Member, stranger: Member) -> None:
    mine = sign_in()
    row = UserSession.objects.get(user=owner)
    assert sign_in("stranger").post(f"/settings/sessions/{row.pk}/end").status_code == 404
    assert mine.get("/memory/").status_code == 200


def test_all_other_sessions_are_ended_also_unlisted_ones(owner: Member, stranger: Member) -> None:
    unlisted = Client()
    unlisted.force_login(owner)
    others = sign_in("stranger")
    listed, mine = sign_in(), sign_in()
    mine.post("/settings/sessions/end")
    assert [each.get("/memory/").status_code for each in (unlisted, listed)] == [302, 302]
    assert [each.get("/memory/").status_code for each in (mine, others)] == [200, 200]
    assert LogEntry.objects.filter(kind=Kind.SESSIONS_ENDED).count() == 1


def test_a_session_is_noted_once_in_a_while(owner: Member) -> None:
    client = sign_in()
    seen = UserSession.objects.get().last_seen_at
    client.cookies.pop("seen", None)
    client.get("/memory/")
    later = UserSession.objects.get().last_seen_at
    assert later > seen
    client.get("/memory/")
    assert UserSession.objects.get().last_seen_at == later
    client.cookies["seen"] = "1"  # made up, so that nobody sees the thief of a session
    client.get("/memory/")
    assert UserSession.objects.get().last_seen_at > later


def test_a_changed_password_ends_other_sessions_and_lists_this_one(owner: Member) -> None:
    other, mine = sign_in(), sign_in()
    new = "another-long-password"
    form = {"old_password": "owner-password", "new_password1": new, "new_password2": new}
    assert mine.post("/password/", form).status_code == 302
    assert other.get("/memory/").status_code == 302
    assert "This device" in mine.get("/settings/").content.decode()


def test_the_old_password_is_not_guessed_without_a_limit(owner: Member, settings: Any) -> None:
    """In a session that somebody else has."""
    settings.AXES_ENABLED = True
    stolen = sign_in()
    new = "another-long-password"
    form = {"new_password1": new, "new_password2": new}
    for number in range(settings.AXES_FAILURE_LIMIT - 1):
        answer = stolen.post("/password/", {**form, "old_password": f"guess {number}"})
        assert answer.status_code == 422
    stolen.post("/password/", {**form, "old_password": "the last guess"})
    assert stolen.post("/password/", {**form, "old_password": "owner-password"}).status_code == 429
    owner.refresh_from_db()
    assert owner.check_password("owner-password")


@pytest.mark.parametrize(
    ("header", "name"),
    [
        (FIREFOX, "Firefox on macOS"),
        ("Mozilla/5.0 (Windows NT 10.0) Chrome/140.0 Safari/537.36 Edg/140.0", "Edge on Windows"),
        ("Mozilla/5.0 (Linux; Android 15) Chrome/140.0 Mobile Safari", "Chrome on Android"),
        ("curl/8", "Unknown device"),
        ("", "Unknown device"),
    ],
)
def test_devices_have_names(header: str, name: str) -> None:
    assert describe_device(header) == name


def test_devices_do_not_grow_the_statements(owner: Member, django_assert_num_queries: Any) -> None:
    mine = sign_in()
    ended = UserSession.objects.create(user=owner, ip="127.0.0.1", session_key="gone")
    key = mine.session.session_key
    assert [device.is_current for device in list_devices(owner, key)] == [True]
    assert not UserSession.objects.filter(pk=ended.pk).exists()
    for _ in range(3):
        sign_in()
    with django_assert_num_queries(2):
        assert len(list_devices(owner, key)) == 4


# --- other people's rows -------------------------------------------------------------------------
def test_a_passkey_is_changed_by_its_owner_only(owner: Member, stranger: Member) -> None:
    key = Authenticator.objects.create(
        user=owner, type="webauthn", data={"name": "My laptop", "credential": {}}
    )
    theirs = sign_in("stranger")
    for act in ("name", "remove"):
        for answer in (
            theirs.get(f"/settings/passkeys/{key.pk}/{act}/"),
            theirs.post(f"/settings/passkeys/{key.pk}/{act}/", {"name": "Theirs"}),
        ):
            assert answer.status_code == 404
    mine = Client()
    mine.force_login(owner)
    assert "My laptop" in mine.get("/settings/").content.decode()
    key.refresh_from_db()
    assert key.data["name"] == "My laptop"


# --- data ----------------------------------------------------------------------------------------
@pytest.fixture
def filled(owner: Member) -> Member:
    rows.turn(owner, Turn.State.DONE, text="My question")
    Memory.objects.create(person=owner, text="Likes tea")
    SavedPrompt.objects.create(owner=owner, title="Greeting", text="Hello")
    MailPreference.objects.create(person=owner, is_on=True)
    NotificationPreference.objects.create(person=owner, shows_titles=False)
    client = sign_in()
    draft = {"text": "", "model": rows.MODEL, "chat": ""}
    client.post(
        "/attach/files", {**draft, "files": SimpleUploadedFile("../../notes.txt", b"my notes")}
    )
    access_tokens.create(owner, name="Script", scopes=("chat",), days=7)
    add_file(owner, make_project(owner, instructions="Times are UTC."), "runbook.md", "About zinc.")
    return owner


def fill_more(person: Member, other: Member, word: str) -> None:
    """Give a person what stands beside their chats, with this word in all their texts."""
    turn = rows.turn(person, Turn.State.DONE, text=f"{word} rated")
    rows.said(turn, f"{word} answer")
    AnswerFeedback.objects.create(
        message=turn.answer, is_good=False, comment=f"{word} comment", model=rows.MODEL
    )
    turn.conversation.queued_messages.create(text=f"{word} queued", model=rows.MODEL)
    links.create(
        turn.conversation,
        Choices(
            audience=SharedLink.Audience.MEMBERS,
            tools=SharedLink.Tools.NONE,
            includes_files=False,
            days=None,
        ),
    )
    service = Service.objects.create(
        name=f"{word}-service",
        url=f"https://{word}.example/mcp?key={word}-key",
        owner=person,
        added_by=person,
        visibility="private",
        authentication="bearer",
    )
    credentials.set_bearer(service, f"{word}-bearer")
    assistant = Assistant.objects.create(
        owner=person, name=f"{word} assistant", mode="plan", limits_services=True
    )
    assistant.services.add(service)
    store_picture(assistant, f"{word} picture".encode())
    today = timezone.localdate()
    StandIn.objects.create(approver=person, stand_in=other, begins_on=today, ends_on=today)


def read_archive(answer: Any) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(b"".join(answer))) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def test_the_archive_has_everything_of_this_person_only(
    filled: Member, stranger: Member, admin: Member
) -> None:
    chat = Conversation.objects.get(owner=filled)
    fill_more(filled, admin, "mine")
    fill_more(stranger, admin, "stranger")
    add_member(make_project(admin, name="Shared with me"), filled)
    today = timezone.localdate()
    for person in (filled, stranger):
        StandIn.objects.create(approver=admin, stand_in=person, begins_on=today, ends_on=today)
    Memory.objects.create(person=stranger, text="Secret of a stranger")
    rows.turn(stranger, Turn.State.DONE, text="Question of a stranger")
    answer = sign_in().post("/settings/data")
    assert answer["Content-Type"] == "application/zip"
    files = read_archive(answer)
    assert json.loads(files["account.json"])["username"] == "owner"
    assert json.loads(files["memories.json"])[0]["text"] == "Likes tea"
    assert json.loads(files["mail.json"]) == [{"is_on": True}]
    assert json.loads(files["notifications.json"])[0]["shows_titles"] is False
    assert json.loads(files["prompts.json"])[0]["title"] == "Greeting"
    assert b"My question" in files[f"chats/{chat.pk}.md"]
    assert json.loads(files[f"chats/{chat.pk}.json"])["format"] == "countersign-chat"
    assert json.loads(files["projects.json"])[0]["instructions"] == "Times are UTC."
    assert b"About zinc." in [files[each] for each in files if each.startswith("project-files/")]
    (rating,) = json.loads(files["ratings.json"])
    assert (rating["is_good"], rating["comment"]) == (False, "mine comment")
    assert [each["text"] for each in json.loads(files["queued_messages.json"])] == ["mine queued"]
    (link,) = json.loads(files["shared_links.json"])
    assert (link["title"], link["audience"], link["revoked_at"]) == ("mine rated", "members", None)
    (assistant,) = json.loads(files["assistants.json"])
    assert (assistant["mode"], assistant["services"]) == ("plan", ["mine-service"])
    assert files[assistant["picture"]] == b"mine picture"
    (service,) = json.loads(files["services.json"])
    assert service["url"].startswith("https://mine.example/mcp?key=")
    (membership,) = json.loads(files["project_memberships.json"])
    assert (membership["project__name"], membership["role"]) == ("Shared with me", "member")
    assert json.loads(files["delegates.json"])[0]["stand_in__username"] == "admin"
    assert json.loads(files["delegate_for.json"])[0]["approver__username"] == "admin"
    token = make_token(SharedLink.objects.get(conversation__owner=filled).pk)
    for secret in (b"stranger", b"mine-bearer", b"mine-key", token.encode()):
        assert not any(secret in each for each in files.values())
    assert not any(".." in name for name in files)
    assert LogEntry.objects.filter(kind=Kind.DATA_EXPORTED).exists()


def test_data_is_downloaded_only_after_a_recent_sign_in(owner: Member) -> None:
    stale = Client()
    stale.force_login(owner)
    assert stale.post("/settings/data")["Location"].startswith("/settings/confirm/")


def test_an_account_is_deleted(filled: Member, stranger: Member) -> None:
    other, mine = sign_in(), sign_in()
    rows.turn(stranger, Turn.State.DONE, text="Question of a stranger")
    store_picture(Assistant.objects.create(owner=filled, name="Review"), b"picture")
    assert mine.post("/settings/delete/", {"username": "owner"}).status_code == 200
    filled.refresh_from_db()
    assert not filled.is_active
    assert (filled.email, filled.first_name, filled.has_usable_password()) == ("", "", False)
    assert other.get("/memory/").status_code == 302
    answer = Client().post("/sign-in/", {"username": "owner", "password": "owner-password"})
    assert answer.status_code == 422
    assert not Conversation.filter_owned(filled).exists()
    for model in (Memory, Consent):
        assert not model.objects.filter(person=filled).exists()
    assert not AccessToken.objects.filter(person=filled, revoked_at=None).exists()
    assert not SavedPrompt.objects.filter(owner=filled).exists()
    assert not AssistantPicture.objects.exists()
    assert not Attachment.objects.filter(owner=filled, part=None).exists()
    assert not Authenticator.objects.filter(user=filled).exists()
    assert Conversation.filter_owned(stranger).exists()
    kinds = set(LogEntry.objects.filter(person_id=filled.pk).values_list("kind", flat=True))
    assert {Kind.ACCOUNT_CLOSED, Kind.SIGNED_IN} <= kinds


def test_an_account_is_not_deleted_by_a_wrong_name_or_a_stale_session(owner: Member) -> None:
    assert sign_in().post("/settings/delete/", {"username": "x"}).status_code == 422
    stale = Client()
    stale.force_login(owner)
    assert stale.post("/settings/delete/", {"username": "owner"}).status_code == 302
    owner.refresh_from_db()
    assert owner.is_active


def test_the_last_admin_stays(admin: Member) -> None:
    client = sign_in("admin")
    answer = client.post("/settings/delete/", {"username": "admin"})
    assert answer.status_code == 409
    assert "You are the last admin" in answer.content.decode()
    Member.objects.create_superuser("second", password="second-password")
    assert client.post("/settings/delete/", {"username": "admin"}).status_code == 200
    assert not Session.objects.exists()


def test_what_is_left_of_a_closed_account_is_deleted_by_a_task(
    filled: Member, stranger: Member
) -> None:
    """A request that was under way stored something after the account was closed."""
    assert sign_in().post("/settings/delete/", {"username": "owner"}).status_code == 200
    assert DBTaskResult.objects.filter(task_path__endswith=".delete_closed_account").exists()
    Memory.objects.create(person=filled, text="Stored late")
    rows.turn(filled, Turn.State.RUNNING, text="Asked late")
    delete_closed_account.call(filled.pk)
    assert not Memory.objects.filter(person=filled).exists()
    assert not Conversation.filter_owned(filled).exists()
    assert Turn.objects.get(conversation__messages__parts__text="Asked late").stop_requested


def test_an_account_that_an_admin_opened_again_keeps_its_rows(filled: Member) -> None:
    delete_rows(filled)
    assert Memory.objects.filter(person=filled).exists()
    assert Conversation.filter_owned(filled).exists()


def test_drafts_imports_and_own_projects_go_with_the_account(
    filled: Member, stranger: Member
) -> None:
    MessageDraft.objects.create(owner=filled, text="My draft")
    ChatImport.objects.create(person=filled, file_name="chats.json", size=1)
    alone = Project.objects.create(owner=filled, name="Alone")
    shared = Project.objects.create(owner=filled, name="Shared")
    ProjectMember.objects.create(project=shared, person=stranger, role="editor")
    theirs = Project.objects.create(owner=stranger, name="Theirs")
    ProjectMember.objects.create(project=theirs, person=filled)
    files = read_archive(sign_in().post("/settings/data"))
    assert json.loads(files["drafts.json"])[0]["text"] == "My draft"
    assert {each["name"] for each in json.loads(files["projects.json"])} >= {"Alone", "Shared"}
    sign_in().post("/settings/delete/", {"username": "owner"})
    assert not MessageDraft.objects.filter(owner=filled).exists()
    assert not ChatImport.objects.filter(person=filled).exists()
    assert not ProjectMember.objects.filter(person=filled).exists()
    kept = Project.objects.filter(deleted_at=None).values_list("pk", flat=True)
    assert set(kept) == {shared.pk, theirs.pk} - {alone.pk}
    assert Project.objects.get(pk=shared.pk).owner == stranger


def test_a_closed_account_has_no_rights_left(admin: Member) -> None:
    Member.objects.create_superuser("second", password="second-password")
    sign_in("admin").post("/settings/delete/", {"username": "admin"})
    admin.refresh_from_db()
    assert not (admin.is_active or admin.is_staff or admin.is_superuser)


def test_files_outside_the_database_are_in_the_archive(filled: Member) -> None:
    stored = StoredObject.objects.create(name="notes", storage="folder")
    storages["folder"].save("notes", ContentFile(b"my notes in a folder"))
    File.objects.update(stored=stored, data=b"")
    files = read_archive(sign_in().post("/settings/data"))
    assert b"my notes in a folder" in files.values()
    storages["folder"].delete("notes")
    files = read_archive(sign_in().post("/settings/data"))
    (path,) = json.loads(files["missing_files.json"])
    assert path.endswith("/notes.txt")
    assert "account.json" in files


def test_files_of_an_upload_are_in_the_archive(filled: Member) -> None:
    assert File.objects.exists()
    files = read_archive(sign_in().post("/settings/data"))
    assert b"my notes" in files.values()
