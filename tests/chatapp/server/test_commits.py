"""A commit of any thread or process is noticed without a query."""

import sqlite3
from pathlib import Path

import pytest
from django.conf import settings

from chatapp.server.commits import CommitWatch


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "watched.sqlite3"
    make_database(path)
    configure(monkeypatch, ENGINE="chatapp.server.sqlite", NAME=str(path))
    return path


def configure(monkeypatch: pytest.MonkeyPatch, **database: str) -> None:
    for key, value in database.items():
        monkeypatch.setitem(settings.DATABASES["default"], key, value)


def make_database(path: Path) -> None:
    with sqlite3.connect(path) as made:
        made.execute("PRAGMA journal_mode=WAL")
        made.execute("CREATE TABLE words (word TEXT)")


def add_word(path: Path, *, commits: bool = True) -> None:
    writer = sqlite3.connect(path)
    writer.execute("INSERT INTO words VALUES ('word')")
    if commits:
        writer.commit()
    writer.close()


def test_the_state_differs_after_each_commit_of_another_connection(file: Path) -> None:
    watch = CommitWatch()
    seen = [watch.read_state()]
    for _ in range(3):
        add_word(file)
        seen.append(watch.read_state())
    assert len(set(seen)) == 4
    watch.close()


def test_without_a_commit_the_state_stays(file: Path) -> None:
    watch = CommitWatch()
    before = watch.read_state()
    add_word(file, commits=False)
    with sqlite3.connect(file) as reader:
        assert reader.execute("SELECT * FROM words").fetchall() == []
    assert watch.read_state() == before
    watch.close()


def test_a_restored_file_has_another_state(file: Path) -> None:
    watch = CommitWatch()
    before = watch.read_state()
    restored = file.with_name("restored.sqlite3")
    make_database(restored)
    restored.replace(file)
    restored_state = watch.read_state()
    assert restored_state != before
    add_word(file)
    assert watch.read_state() != restored_state
    watch.close()


def test_of_a_file_that_cannot_be_read_each_state_differs(file: Path) -> None:
    watch = CommitWatch()
    watch.read_state()
    file.unlink()
    assert watch.read_state() != watch.read_state()
    assert not file.exists()


def test_another_database_does_not_tell(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    configure(monkeypatch, ENGINE="chatapp.server.postgresql")
    watch = CommitWatch()
    assert watch.read_state() != watch.read_state()
