"""Files in a storage outside the database: a folder here, an S3-compatible server in the flows."""

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import pytest
from django.core.files.storage import storages
from django.core.management import call_command
from django.db import transaction
from django.test import Client
from django.urls import reverse

from chatapp.accounts.personal_data import write_archive
from chatapp.background import jobs
from chatapp.context import file_storage
from chatapp.context.attachments import copy_attachment
from chatapp.context.file_storage import (
    FileMissing,
    StorageUnavailable,
    find_unused,
    read_bytes,
)
from chatapp.conversations.uploads import Upload, keep_file
from chatapp.models import Attachment, File, Member, StoredObject
from chatapp.people.refused import Refused
from tests.chatapp.stored_objects import folder, make_old, objects
from tests.peers.reading_room import PNG

__all__ = ["folder"]
pytestmark = pytest.mark.django_db
NAME = "salaries of Ada.png"


def kept(person: Member) -> Attachment:
    return keep_file(person, Upload(name=NAME, size=len(PNG), data=PNG))


def test_a_file_is_stored_under_a_random_name_for_nobody_else(folder: Path, owner: Member) -> None:
    file = kept(owner).file
    (path,) = objects(folder)
    assert path.read_bytes() == PNG == read_bytes(file)
    assert bytes(File.objects.get().data) == b""
    assert "Ada" not in str(path)
    assert path.stat().st_mode & 0o077 == 0


def test_it_is_downloaded_through_the_view_by_its_owner_alone(
    folder: Path, owner: Member, owner_client: Client, stranger_client: Client
) -> None:
    address = reverse("attachment-content", args=[kept(owner).pk, 0])
    assert owner_client.get(address).content == PNG
    assert stranger_client.get(address).status_code == 404


def test_a_missing_object_is_a_sentence(folder: Path, owner: Member, owner_client: Client) -> None:
    attachment = kept(owner)
    objects(folder)[0].unlink()
    answer = owner_client.get(reverse("attachment-content", args=[attachment.pk, 0]))
    assert answer.status_code == 404
    assert "missing from the file storage" in answer.content.decode()
    with pytest.raises(FileMissing):
        read_bytes(attachment.file)


def test_a_storage_that_is_not_configured_any_more_is_a_sentence(
    folder: Path, owner: Member, owner_client: Client
) -> None:
    attachment = kept(owner)
    StoredObject.objects.update(storage="s3")
    answer = owner_client.get(reverse("attachment-content", args=[attachment.pk, 0]))
    assert answer.status_code == 503
    assert "did not respond" in answer.content.decode()
    with pytest.raises(StorageUnavailable):
        read_bytes(File.objects.get())


def test_an_upload_that_cannot_be_stored_is_refused_and_leaves_nothing(
    folder: Path, owner: Member
) -> None:
    folder.rmdir()
    folder.write_bytes(b"no folder")
    with pytest.raises(Refused, match="did not respond"):
        kept(owner)
    assert not Attachment.objects.exists()
    make_old()
    folder.unlink()
    jobs.delete_unused_objects.call()
    assert not StoredObject.objects.exists()


def test_an_object_is_deleted_after_its_last_copy(folder: Path, owner: Member) -> None:
    first = kept(owner)
    second = copy_attachment(Attachment.objects.get(pk=first.pk), None)
    make_old()
    Attachment.objects.filter(pk=first.pk).delete()
    jobs.delete_unused_objects.call()
    assert read_bytes(File.objects.get(pk=second.pk)) == PNG
    Attachment.objects.all().delete()
    assert jobs.has_unused_objects()
    jobs.delete_unused_objects.call()
    assert objects(folder) == []
    assert not StoredObject.objects.exists()


def test_an_object_whose_file_is_still_being_stored_is_kept(folder: Path, owner: Member) -> None:
    kept(owner)
    File.objects.all().delete()
    assert not find_unused().exists()
    make_old()
    assert find_unused().exists()


def test_an_object_that_cannot_be_deleted_is_not_forgotten(folder: Path, owner: Member) -> None:
    kept(owner)
    File.objects.all().delete()
    make_old()
    StoredObject.objects.update(storage="s3")
    with pytest.raises(StorageUnavailable, match="s3"):
        jobs.delete_unused_objects.call()
    assert StoredObject.objects.get().is_deleted
    StoredObject.objects.update(storage="folder")
    jobs.delete_unused_objects.call()
    assert objects(folder) == []
    assert not StoredObject.objects.exists()


def test_files_move_between_the_storages(folder: Path, owner: Member, settings: Any) -> None:
    settings.FILE_STORAGE = "database"
    first = kept(owner)
    assert objects(folder) == []
    settings.FILE_STORAGE = "folder"
    said = io.StringIO()
    call_command("move_files", stdout=said)
    assert said.getvalue() == "Moved 1 file to: folder\n"
    assert [path.read_bytes() for path in objects(folder)] == [PNG]
    assert bytes(File.objects.get().data) == b""
    copy_attachment(Attachment.objects.get(pk=first.pk), None)
    settings.FILE_STORAGE = "database"
    call_command("move_files", stdout=said)
    assert {bytes(file.data) for file in File.objects.all()} == {PNG}
    make_old()
    jobs.delete_unused_objects.call()
    assert objects(folder) == []


def test_a_copy_that_is_made_during_the_move_is_moved_as_well(
    folder: Path, owner: Member, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.FILE_STORAGE = "database"
    first = kept(owner)
    settings.FILE_STORAGE = "folder"
    storage_class = type(storages["folder"])
    save = storage_class.save

    def copy_and_save(self: Any, *args: Any, **kwargs: Any) -> str:
        if Attachment.objects.count() == 1:
            copy_attachment(Attachment.objects.get(pk=first.pk), None)
        return str(save(self, *args, **kwargs))

    monkeypatch.setattr(storage_class, "save", copy_and_save)
    said = io.StringIO()
    call_command("move_files", stdout=said)
    assert said.getvalue() == "Moved 2 files to: folder\n"
    assert not File.objects.filter(stored=None).exists()


def test_a_storage_that_is_gone_does_not_hold_up_another(
    folder: Path, owner: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_storage, "AT_ONCE", 2)
    for _ in range(4):
        kept(owner)
    gone = StoredObject.objects.order_by("created_at").values_list("pk", flat=True)[:3]
    StoredObject.objects.filter(pk__in=list(gone)).update(storage="s3")
    File.objects.all().delete()
    make_old()
    tried = []
    for _ in range(3):
        with pytest.raises(StorageUnavailable) as failure:
            jobs.delete_unused_objects.call()
        tried.append(str(failure.value))
    assert set(StoredObject.objects.values_list("storage", flat=True)) == {"s3"}
    # One at a time, because each waits for the storage, and each in its turn.
    assert len(set(tried)) == 3


def test_no_object_is_stored_inside_a_transaction(folder: Path, owner: Member) -> None:
    with pytest.raises(RuntimeError), transaction.atomic():
        kept(owner)
    assert objects(folder) == []


def test_the_archive_of_a_person_has_the_bytes_of_stored_files(folder: Path, owner: Member) -> None:
    first = kept(owner)
    archive = read_archive(owner)
    assert archive.read(f"files/{first.pk}/{NAME}") == PNG
    assert "missing_files.json" not in archive.namelist()
    Attachment.objects.update(name="..")
    assert read_archive(owner).read(f"files/{first.pk}/file") == PNG
    Attachment.objects.update(name=NAME)
    objects(folder)[0].unlink()
    archive = read_archive(owner)
    assert json.loads(archive.read("missing_files.json")) == [f"files/{first.pk}/{NAME}"]


def read_archive(person: Member) -> zipfile.ZipFile:
    target = io.BytesIO()
    write_archive(person, target, "http://testserver")
    return zipfile.ZipFile(target)


def test_a_file_that_is_missing_stops_no_move(folder: Path, owner: Member, settings: Any) -> None:
    kept(owner)
    objects(folder)[0].unlink()
    kept(owner)
    settings.FILE_STORAGE = "database"
    said = io.StringIO()
    with pytest.raises(SystemExit):
        call_command("move_files", stdout=said, stderr=said)
    assert "1 file is missing" in said.getvalue()
    assert [bytes(file.data) for file in File.objects.filter(stored=None)] == [PNG]


def test_names_of_the_storage_cannot_leave_it(folder: Path, owner: Member) -> None:
    attachment = kept(owner)
    StoredObject.objects.update(name="../../etc/passwd")
    with pytest.raises(FileMissing):
        read_bytes(File.objects.select_related("stored").get(pk=attachment.pk))
    assert storages["folder"].exists("x") is False
