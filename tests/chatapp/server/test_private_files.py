"""Only the user of the server reads its files."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from chatapp.server.private_files import (
    make_private_database,
    make_private_file,
    make_private_folder,
)

ROOT = Path(__file__).resolve().parents[3]


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o7777


def start(folder: Path) -> None:
    """Read the settings and open the database, as every command does."""
    script = (
        "import django; django.setup()\n"
        "from django.db import connection\n"
        "connection.cursor().execute('CREATE TABLE IF NOT EXISTS t (x)')\n"
        "from pathlib import Path\n"
        "from django.conf import settings\n"
        "print(*(oct(path.stat().st_mode & 0o777) for path in Path(settings.VAR_DIR).iterdir()\n"
        "    if path.name.startswith('countersign.sqlite3')))\n"
    )
    environment = {
        "PATH": os.environ["PATH"],
        "DJANGO_SETTINGS_MODULE": "chatapp.settings",
        "VAR_DIR": str(folder),
    }
    ran = subprocess.run(
        [sys.executable, "-c", f"import os; os.umask(0o022)\n{script}"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=150,
    )
    assert ran.returncode == 0, ran.stderr
    # The files beside the database are there while it is open.
    assert len(ran.stdout.split()) == 3 and set(ran.stdout.split()) == {"0o600"}, ran.stdout


def test_a_start_makes_files_that_only_their_owner_reads(tmp_path: Path) -> None:
    folder = tmp_path / "var"
    start(folder)
    assert mode(folder) == 0o700
    assert {path.name: mode(path) for path in folder.iterdir() if mode(path) != 0o600} == {}


def test_a_start_takes_the_rights_of_others_away(tmp_path: Path) -> None:
    folder = tmp_path / "var"
    folder.mkdir()
    database = folder / "countersign.sqlite3"
    database.touch()
    folder.chmod(0o755)
    database.chmod(0o644)
    start(folder)
    assert (mode(folder), mode(database)) == (0o700, 0o600)


def test_a_folder_that_all_users_share_stays_shared(tmp_path: Path) -> None:
    tmp_path.chmod(0o1777)
    make_private_folder(tmp_path)
    assert mode(tmp_path) == 0o1777


def test_narrower_rights_stay_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "read-only.sqlite3"
    path.touch(mode=0o400)
    make_private_database(str(path))
    assert mode(path) == 0o400


@pytest.mark.parametrize("name", [":memory:", "file:shared?mode=memory"])
def test_a_database_in_memory_makes_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    make_private_database(name)
    assert list(tmp_path.iterdir()) == []


def test_in_a_folder_that_is_not_there_nothing_is_made(tmp_path: Path) -> None:
    make_private_database(str(tmp_path / "nowhere" / "x.sqlite3"))
    assert list(tmp_path.iterdir()) == []


def test_processes_that_start_together_find_the_same_secret(tmp_path: Path) -> None:
    """Of two keys, one would encrypt what the other cannot read."""
    path = tmp_path / "encryption_key"
    together = Barrier(16)

    def make(number: int) -> str:
        together.wait(60)
        make_private_file(path, f"key {number}")
        return path.read_text()

    with ThreadPoolExecutor(16) as starters:
        found = set(starters.map(make, range(16)))
    assert len(found) == 1, found
    assert mode(path) == 0o600
    assert list(tmp_path.iterdir()) == [path]


def test_a_secret_that_is_there_stays(tmp_path: Path) -> None:
    path = tmp_path / "secret_key"
    make_private_file(path, "first")
    make_private_file(path, "second")
    assert path.read_text() == "first"
