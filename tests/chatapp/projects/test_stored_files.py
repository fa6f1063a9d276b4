"""Files of projects in a storage outside the database: added, read, moved and deleted."""

import io
import json
import zipfile
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.test import Client
from django.utils import timezone

from chatapp.accounts import personal_data
from chatapp.background import jobs
from chatapp.context.file_storage import StorageUnavailable, read_bytes
from chatapp.conversations.uploads import Upload, keep_file
from chatapp.models import (
    Attachment,
    Member,
    Project,
    ProjectFile,
    ProjectFileData,
    StoredObject,
)
from chatapp.people.refused import Refused
from chatapp.projects import changes, files
from tests.chatapp.files.office_files import word_file
from tests.chatapp.stored_objects import folder, make_old, objects
from tests.conftest import signed_in

from .made import RUNBOOK, add_file, make_project

__all__ = ["folder"]
pytestmark = pytest.mark.django_db(transaction=True)
BYTES = RUNBOOK.encode()


@pytest.fixture
def project(owner: Member) -> Project:
    return make_project(owner)


@pytest.fixture
def client_of_owner(owner: Member) -> Client:
    return signed_in(owner)


def address_of(file: ProjectFile) -> str:
    return f"/projects/{file.project_id}/files/{file.pk}/download"


def test_text_of_another_encoding_is_stored_as_utf8(owner: Member, project: Project) -> None:
    file = add_file(owner, project, "prices.csv", "Müller;5 €".encode("cp1252"))
    assert read_bytes(file.content) == "Müller;5 €".encode()
    assert file.size == len("Müller;5 €".encode())


def test_a_file_is_stored_in_the_storage_and_downloaded_by_members_only(
    folder: Path, project: Project, owner: Member, client_of_owner: Client
) -> None:
    file = add_file(owner, project)
    assert file.state == ProjectFile.State.READY
    assert [each.read_bytes() for each in objects(folder)] == [BYTES]
    assert bytes(ProjectFileData.objects.get().data) == b""
    assert client_of_owner.get(address_of(file)).content == BYTES
    stranger = Member.objects.create_user("stranger-to-it", password="a-long-password")
    assert signed_in(stranger).get(address_of(file)).status_code == 404


def test_rows_that_were_stored_in_the_database_stay_readable(
    folder: Path, project: Project, owner: Member, settings: Any, client_of_owner: Client
) -> None:
    settings.FILE_STORAGE = "database"
    file = add_file(owner, project)
    settings.FILE_STORAGE = "folder"
    assert client_of_owner.get(address_of(file)).content == BYTES
    assert objects(folder) == []


def test_the_text_is_read_in_the_background_from_the_storage(
    folder: Path, project: Project, owner: Member
) -> None:
    file = add_file(owner, project, "plan.docx", word_file())
    assert (file.state, len(objects(folder))) == ("reading", 1)
    # A storage that does not respond is tried again; the file does not count as broken.
    StoredObject.objects.update(storage="s3")
    with pytest.raises(StorageUnavailable):
        jobs.read_project_file.call(str(file.pk))
    file.refresh_from_db()
    assert file.state == "reading"
    StoredObject.objects.update(storage="folder")
    jobs.read_project_file.call(str(file.pk))
    file.refresh_from_db()
    assert file.state == "ready"
    assert file.passages.exists()


def test_a_missing_object_is_a_sentence(
    folder: Path, project: Project, owner: Member, client_of_owner: Client
) -> None:
    file = add_file(owner, project, "plan.docx", word_file())
    objects(folder)[0].unlink()
    jobs.read_project_file.call(str(file.pk))
    file.refresh_from_db()
    assert (file.state, file.problem) == ("failed", files.LOST)
    answer = client_of_owner.get(address_of(file))
    assert answer.status_code == 404
    assert "missing from the file storage" in answer.content.decode()
    StoredObject.objects.update(storage="s3")
    answer = client_of_owner.get(address_of(file))
    assert (answer.status_code, "did not respond" in answer.content.decode()) == (503, True)


def test_a_file_that_is_refused_is_not_uploaded(
    folder: Path, project: Project, owner: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "PROJECT_MAX_BYTES", 10)
    with pytest.raises(Refused, match="together"):
        add_file(owner, project)
    assert objects(folder) == []
    assert not StoredObject.objects.exists()


def test_a_storage_that_does_not_respond_adds_nothing(
    folder: Path, project: Project, owner: Member, client_of_owner: Client
) -> None:
    folder.rmdir()
    folder.write_bytes(b"no folder")
    upload = io.BytesIO(BYTES)
    upload.name = "runbook.md"
    answer = client_of_owner.post(f"/projects/{project.pk}/files/", {"files": upload})
    assert "did not respond" in answer.content.decode()
    assert not ProjectFile.objects.exists()


def test_objects_go_with_the_file_the_project_and_the_account(
    folder: Path, project: Project, owner: Member
) -> None:
    def clean() -> int:
        make_old()
        jobs.delete_unused_objects.call()
        return len(objects(folder))

    first, _second = (add_file(owner, project, name) for name in ("a.md", "b.md"))
    assert clean() == 2
    files.delete_file(owner, project, first.pk)
    assert clean() == 1
    # A deleted project can be restored with its files for seven days.
    changes.delete(project)
    jobs.remove_deleted_chats.call()
    assert clean() == 1
    changes.restore(Project.objects.select_related("owner").get(pk=project.pk))
    assert clean() == 1
    eight_days = timezone.now() - timedelta(days=8)
    Project.objects.filter(pk=project.pk).update(deleted_at=eight_days)
    jobs.remove_deleted_chats.call()
    assert clean() == 0
    add_file(owner, make_project(owner, "Other"))
    assert clean() == 1
    owner.delete()
    assert clean() == 0
    assert not StoredObject.objects.exists()


def test_files_move_between_the_storages_with_those_of_messages(
    folder: Path, project: Project, owner: Member, settings: Any, client_of_owner: Client
) -> None:
    settings.FILE_STORAGE = "database"
    file = add_file(owner, project)
    keep_file(owner, Upload(name="notes.txt", size=5, data=b"Notes"))
    settings.FILE_STORAGE = "folder"
    said = io.StringIO()
    call_command("move_files", stdout=said)
    assert said.getvalue() == "Moved 2 files to: folder\n"
    assert {each.read_bytes() for each in objects(folder)} == {BYTES, b"Notes"}
    assert bytes(ProjectFileData.objects.get().data) == b""
    assert client_of_owner.get(address_of(file)).content == BYTES
    settings.FILE_STORAGE = "database"
    call_command("move_files", stdout=said)
    kept = ProjectFileData.objects.get()
    assert (bytes(kept.data), kept.stored) == (BYTES, None)
    make_old()
    jobs.delete_unused_objects.call()
    assert objects(folder) == []
    assert Attachment.objects.count() == 1


def test_the_archive_of_a_person_has_them_or_names_them(
    folder: Path, project: Project, owner: Member
) -> None:
    def read_archive() -> zipfile.ZipFile:
        target = io.BytesIO()
        personal_data.write_archive(owner, target, "http://testserver")
        return zipfile.ZipFile(target)

    path = f"project-files/{add_file(owner, project).pk}/runbook.md"
    assert read_archive().read(path) == BYTES
    objects(folder)[0].unlink()
    assert json.loads(read_archive().read("missing_files.json")) == [path]
