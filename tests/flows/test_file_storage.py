"""Files in a server that speaks S3."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.core.files.storage import storages
from django.core.management import call_command

from chatapp.background import jobs
from chatapp.context.file_storage import FileMissing, StorageUnavailable, read_bytes
from chatapp.conversations.uploads import Upload, keep_file
from chatapp.models import File, Member
from chatapp.people.refused import Refused
from chatapp.projects import files
from tests.chatapp.projects.made import RUNBOOK, add_file, make_project
from tests.chatapp.stored_objects import make_old
from tests.conftest import signed_in
from tests.peers.installing import python_program
from tests.peers.programs import Program, running

pytestmark = [pytest.mark.long, pytest.mark.django_db, pytest.mark.timeout(300)]
WORDS = b"Closed on Mondays."
SERVER = Program(
    name="s3",
    command=lambda port, _folder: [
        *(python_program("s3", "moto_server"), "-H", "127.0.0.1", "-p", str(port))
    ],
    path="",
)


@pytest.fixture
def bucket(settings: Any, tmp_path: Path) -> Iterator[Any]:
    with running(SERVER, tmp_path) as address:
        use_server(settings, address)
        yield make_bucket()


def use_server(settings: Any, address: str) -> None:
    options = {
        "bucket_name": "files",
        "endpoint_url": address,
        "region_name": "us-east-1",
        "access_key": "any",
        "secret_key": "any",
        "location": "countersign",
        "addressing_style": "path",
    }
    backend = "chatapp.server.object_storage.BoundedS3Storage"
    settings.STORAGES = {**settings.STORAGES, "s3": {"BACKEND": backend, "OPTIONS": options}}
    settings.FILE_STORAGE = "s3"


def make_bucket() -> Any:
    storage: Any = storages["s3"]
    storage.bucket.create()
    return storage.bucket


def names(bucket: Any) -> list[str]:
    return [each.key for each in bucket.objects.all()]


def keep(person: Member) -> File:
    return keep_file(person, Upload(name="notes.txt", size=len(WORDS), data=WORDS)).file


def test_a_file_is_stored_read_moved_and_deleted(bucket: Any, owner: Member, settings: Any) -> None:
    file = keep(owner)
    (name,) = names(bucket)
    assert name.startswith("countersign/") and "notes" not in name
    assert read_bytes(file) == WORDS
    settings.FILE_STORAGE = "database"
    call_command("move_files")
    file = File.objects.get()
    assert (read_bytes(file), file.stored) == (WORDS, None)
    make_old()
    jobs.delete_unused_objects.call()
    assert names(bucket) == []


def test_a_file_of_a_project_is_stored_downloaded_and_deleted(bucket: Any, owner: Member) -> None:
    project = make_project(owner)
    file = add_file(owner, project)
    assert len(names(bucket)) == 1
    answer = signed_in(owner).get(f"/projects/{project.pk}/files/{file.pk}/download")
    assert answer.content == RUNBOOK.encode()
    files.delete_file(owner, project, file.pk)
    make_old()
    jobs.delete_unused_objects.call()
    assert names(bucket) == []


def test_a_missing_object_is_noticed(bucket: Any, owner: Member) -> None:
    file = keep(owner)
    bucket.objects.all().delete()
    with pytest.raises(FileMissing):
        read_bytes(file)


def test_a_server_that_is_gone_is_no_missing_file(
    owner: Member, settings: Any, tmp_path: Path
) -> None:
    with running(SERVER, tmp_path) as address:
        use_server(settings, address)
        make_bucket()
        file = keep(owner)
    with pytest.raises(StorageUnavailable):
        read_bytes(file)
    with pytest.raises(Refused, match="did not respond"):
        keep(owner)
    assert File.objects.count() == 1
