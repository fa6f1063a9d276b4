"""The bounds of projects: their number, their bytes and how long a file is read; and what is left
of them when an account is closed."""

from datetime import timedelta
from typing import Any

import pytest
from django.db.models.functions import Now

from chatapp.accounts.personal_data import close_account, delete_rows
from chatapp.background import jobs
from chatapp.models import LogEntry, Member, Project, ProjectFile, ProjectFileData
from chatapp.people.refused import Refused
from chatapp.projects import changes, files
from tests.conftest import signed_in

from .made import add_file, add_member, make_project

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def ada(owner: Member) -> Member:
    return Member.objects.create_user("ada")


def test_the_files_of_all_projects_of_a_person_are_bounded(
    owner: Member, ada: Member, monkeypatch: Any
) -> None:
    """Also if a project is filled, deleted and made again, and if an editor fills it."""
    monkeypatch.setattr(files, "OWNER_MAX_BYTES", 5_000)
    first = make_project(owner)
    add_file(owner, first, "a.txt", "x" * 2_000)  # 2,000 bytes, and as many of text
    changes.delete(first)
    second = make_project(owner)
    add_member(second, ada, "editor")
    for person in (owner, ada):
        with pytest.raises(Refused, match=r"b.txt: the files of all projects of owner"):
            add_file(person, second, "b.txt", "x" * 2_000)
    assert not second.files.exists()
    add_file(ada, make_project(ada), "b.txt", "x" * 2_000)


def test_deleted_projects_do_not_come_back_beyond_the_limit(
    owner: Member, monkeypatch: Any
) -> None:
    monkeypatch.setattr(changes, "PROJECTS_PER_PERSON", 1)
    first = make_project(owner)
    changes.delete(first)
    make_project(owner, "Second")
    answer = signed_in(owner).post(f"/projects/{first.pk}/restore")
    assert answer.status_code == 409
    assert "which is the limit" in answer.content.decode()
    first.refresh_from_db()
    assert first.deleted_at is not None


def test_a_file_that_nothing_can_read_is_not_tried_for_ever(owner: Member) -> None:
    """A process that ends while it reads leaves no word about the file."""
    project = make_project(owner)
    made = [ProjectFile.objects.create(project=project, name=f"{n}.pdf", size=1) for n in range(2)]
    old = ProjectFile.objects.filter(pk=made[0].pk)
    old.update(created_at=Now() - timedelta(minutes=files.GIVEN_UP_AFTER_MINUTES + 1))
    jobs.read_left_files.call()
    states = [ProjectFile.objects.get(pk=each.pk).state for each in made]
    assert states == [ProjectFile.State.FAILED, ProjectFile.State.READING]
    assert not jobs.has_left_files()


def test_an_old_project_is_removed_with_its_files(owner: Member) -> None:
    project = make_project(owner)
    add_file(owner, project)
    kept = make_project(owner, "Kept")
    add_file(owner, kept)
    changes.delete(project)
    changes.remove_old()
    assert Project.objects.filter(pk=project.pk).exists()
    Project.objects.filter(pk=project.pk).update(deleted_at=Now() - timedelta(days=8))
    changes.remove_old()
    assert set(Project.objects.values_list("pk", flat=True)) == {kept.pk}
    assert ProjectFileData.objects.count() == 1


def test_a_closed_account_leaves_its_projects(owner: Member, ada: Member) -> None:
    """A project that others edit stays theirs; one that nobody else can change is removed."""
    Member.objects.create_superuser("another-admin")
    stranger = Member.objects.create_user("stranger")
    own, shared, joined = (
        make_project(owner),
        make_project(owner, "Team"),
        make_project(ada, "Hers"),
    )
    add_file(owner, own)
    add_member(own, stranger)
    add_member(shared, stranger)
    add_member(shared, ada, "editor")
    add_member(joined, owner)
    close_account(owner)
    delete_rows(owner)
    assert not Project.objects.filter(pk=own.pk).exists()
    assert not ProjectFileData.objects.exists()
    assert Project.of(ada, shared.pk).is_owned
    assert Project.of(stranger, shared.pk).role == "member"
    assert not shared.members.filter(person=ada).exists()
    assert not Project.filter_joined(owner).exists()
    acts = LogEntry.objects.filter(kind=LogEntry.Kind.PROJECT).values_list("data", flat=True)
    for act in ("owner changed", "left", "purged"):
        assert any(f'"act":"{act}"' in each for each in acts)
