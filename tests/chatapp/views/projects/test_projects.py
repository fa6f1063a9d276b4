"""The pages of a project: what each role may do, and that nobody else learns of it."""

import uuid
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from chatapp.models import Conversation, LogEntry, Member, Project, ProjectFile
from chatapp.projects import changes
from tests.chatapp.projects.made import add_file, add_member, make_project
from tests.conftest import signed_in
from tests.dom_tree import parse

pytestmark = pytest.mark.django_db
FORM = {"name": "Renamed", "instructions": "New.", "tools": "all"}


@pytest.fixture
def project(owner: Member) -> Project:
    return make_project(owner, "Plum", instructions="Times are UTC.")


@pytest.fixture
def member(project: Project) -> Client:
    ada = Member.objects.create_user("ada", password="ada-password")
    add_member(project, ada)
    return signed_in(ada)


@pytest.fixture
def editor(project: Project) -> Client:
    bob = Member.objects.create_user("bob", password="bob-password")
    add_member(project, bob, "editor")
    return signed_in(bob)


def upload(client: Client, project: Project, *files: tuple[str, bytes]) -> Any:
    given = {"files": [SimpleUploadedFile(*each) for each in files]}
    return client.post(f"/projects/{project.pk}/files/", given)


def test_a_stranger_gets_the_answer_of_a_project_that_does_not_exist(
    project: Project, stranger_client: Client
) -> None:
    other = uuid.uuid4()
    for path in ("", "edit/", "files/"):
        answers = [stranger_client.get(f"/projects/{pk}/{path}") for pk in (project.pk, other)]
        assert [each.status_code for each in answers] == [404, 404]
        assert "Plum" not in answers[0].content.decode()
    assert "Plum" not in stranger_client.get("/projects/").content.decode()
    assert stranger_client.get(f"/?project={project.pk}").status_code == 404


def test_a_member_uses_and_an_editor_changes(
    project: Project, owner: Member, member: Client, editor: Client
) -> None:
    address = f"/projects/{project.pk}/"
    assert "Times are UTC." in member.get(address).content.decode()
    assert member.post(f"{address}edit/", FORM).status_code == 404
    assert upload(member, project, ("a.txt", b"Hello")).status_code == 404
    assert editor.post(f"{address}edit/", FORM).status_code == 302
    assert upload(editor, project, ("a.txt", b"Hello")).status_code == 302
    for client in (member, editor):
        for path in ("archive", "delete", "members", f"members/{owner.pk}/role"):
            assert client.post(address + path).status_code == 404
    project.refresh_from_db()
    assert (project.name, project.instructions) == ("Renamed", "New.")
    assert project.instructions_by is not None
    assert project.instructions_by.username == "bob"


def test_what_is_refused_says_why_and_keeps_what_was_typed(
    project: Project, owner_client: Client
) -> None:
    answer = owner_client.post(f"/projects/{project.pk}/edit/", {**FORM, "name": " \u202e "})
    assert answer.status_code == 422
    assert parse(answer.content.decode()).one("textarea", name="instructions").text == "New."
    long = {**FORM, "instructions": "x" * 8_001}
    answer = owner_client.post("/projects/new/", long)
    assert "This text has 8001 characters." in answer.content.decode()
    answer = upload(owner_client, project, ("a.txt", b"Fine"), ("b.bin", bytes(range(256))))
    assert answer.status_code == 422
    assert "b.bin: unsupported file type." in answer.content.decode()
    assert [each.name for each in project.files.all()] == ["a.txt"]


def test_an_archived_project_is_changed_by_nobody(project: Project, editor: Client) -> None:
    changes.archive(project, is_on=True)
    answer = editor.post(f"/projects/{project.pk}/edit/", FORM)
    assert answer.status_code == 422
    assert "This project is archived." in answer.content.decode()
    assert "This project is archived." in upload(editor, project, ("a.txt", b"Hi")).content.decode()
    assert editor.get(f"/?project={project.pk}").status_code == 404


def test_a_file_of_another_project_is_not_under_this_address(
    project: Project, owner: Member, owner_client: Client
) -> None:
    file = add_file(owner, make_project(owner, "Other"))
    for path in ("", "download"):
        address = f"/projects/{project.pk}/files/{file.pk}/{path}"
        assert owner_client.get(address).status_code == 404
    assert owner_client.post(f"/projects/{project.pk}/files/{file.pk}/delete").status_code == 404
    assert ProjectFile.objects.filter(pk=file.pk).exists()


def test_markup_in_a_file_is_text(project: Project, owner: Member, owner_client: Client) -> None:
    file = add_file(owner, project, "a.txt", "<script>alert(1)</script> \u202eevil")
    answer = owner_client.get(f"/projects/{project.pk}/files/{file.pk}/")
    assert "<script>alert" not in answer.content.decode()
    assert "\u202e" not in answer.content.decode()
    assert parse(answer.content.decode()).one("section", id="c1")
    download = owner_client.get(f"/projects/{project.pk}/files/{file.pk}/download")
    assert download["Content-Disposition"].startswith("attachment")


def test_chats_are_their_owners_alone(project: Project, owner: Member, member: Client) -> None:
    Conversation.objects.create(owner=owner, title="Secret plum", project=project)
    assert "Secret plum" not in member.get(f"/projects/{project.pk}/").content.decode()
    assert "Secret plum" not in member.get(f"/search/?project={project.pk}").content.decode()


def test_a_deleted_project_is_restored_by_its_owner_only(
    project: Project, owner_client: Client, member: Client
) -> None:
    owner_client.post(f"/projects/{project.pk}/delete")
    assert owner_client.get(f"/projects/{project.pk}/").status_code == 404
    assert member.post(f"/projects/{project.pk}/restore").status_code == 404
    assert owner_client.post(f"/projects/{project.pk}/restore").status_code == 302
    assert member.get(f"/projects/{project.pk}/").status_code == 200


def test_each_act_is_in_the_log(project: Project, editor: Client, owner_client: Client) -> None:
    editor.post(f"/projects/{project.pk}/edit/", FORM)
    upload(editor, project, ("a.txt", b"Hello"))
    page = owner_client.get("/log/").content.decode()
    assert "Member added: bob." in page
    kinds = LogEntry.objects.filter(kind=LogEntry.Kind.PROJECT)
    acts = [each.data for each in kinds.order_by("position")]
    for act in ("created", "member added", "instructions", "changed", "file added"):
        assert any(f'"act":"{act}"' in each for each in acts)
    assert not any("Times are UTC" in each or "New." in each for each in acts)


def test_an_export_names_the_project_while_the_person_is_a_member(
    project: Project, owner: Member, owner_client: Client
) -> None:
    chat = Conversation.objects.create(owner=owner, title="Chat", project=project)
    address = f"/c/{chat.pk}/export?format=markdown&tools=none"
    assert "Project: Plum" in owner_client.get(address).content.decode()
    changes.delete(project)
    assert "Plum" not in owner_client.get(address).content.decode()
