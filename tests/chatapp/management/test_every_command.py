"""No command of ours, old or new, ends in a traceback: each is tried where nothing works."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from django.core.management import get_commands, load_command_class

from mcpconfig.management.operator_command import OperatorCommand
from tests.chatapp.server.test_serve import ROOT, environment, free_port
from tests.commands import Ran, database_at

pytestmark = [pytest.mark.gate, pytest.mark.django_db(transaction=True)]
# One way to run each command that needs the database.
EXAMPLES = {
    "approvals": ["--json"],
    "chat": ["Hello", "--json"],
    "directory": ["list-tokens"],
    "doctor": ["--json"],
    "log": ["verify"],
    "mcp": ["list", "--json"],
    "member": ["add", "kim"],
    "move_files": [],
    "policy": ["test", "--json"],
    "record_backup": [],
    "run_tasks": [],
    "rotate_keys": ["--json"],
    "rotate_push_key": [],
    "serve": [],
    "sign_in_link": ["kim"],
    "token": ["list", "--json"],
}


# Django's own, with another idea of what a change of a model is.
OF_DJANGO = ("makemigrations", "migrate")


def ours() -> dict[str, OperatorCommand]:
    return {
        name: load_command_class(app, name)  # type: ignore[misc]  # which the first test proves
        for name, app in get_commands().items()
        if app in ("chatapp", "mcpconfig") and name not in OF_DJANGO
    }


def test_every_command_of_ours_ends_as_one_of_ours() -> None:
    for name, command in ours().items():
        assert isinstance(command, OperatorCommand), name
        for ending in ("execute", "run_from_argv", "check"):
            assert getattr(type(command), ending) is getattr(OperatorCommand, ending), name


def test_every_command_of_ours_is_tried_here() -> None:
    assert set(ours()) == set(EXAMPLES)


@pytest.fixture(autouse=True)
def _port(monkeypatch: pytest.MonkeyPatch) -> None:
    """`serve` tells its port to its process, which here is everybody's."""
    monkeypatch.setenv("COUNTERSIGN_PORT", "")


def words(name: str) -> list[str]:
    more = ["--port", str(free_port())] if name == "serve" else []
    return [name, *EXAMPLES[name], *more]


@pytest.mark.parametrize("name", EXAMPLES)
def test_without_a_database_it_ends_in_words(name: str, tmp_path: Path) -> None:
    with database_at(tmp_path / "no folder" / "x.sqlite3"):
        ran = Ran(*words(name))
    assert ran.code == 1
    assert "Traceback" not in ran.err
    assert "does not answer" in ran.err + ran.out
    if "--json" in EXAMPLES[name]:
        assert set(ran.json["error"]) == {"kind", "message", "hint"}


@pytest.mark.parametrize("name", sorted(set(EXAMPLES) - {"serve"}))
def test_with_an_empty_database_it_says_what_to_do(name: str, tmp_path: Path) -> None:
    with database_at(tmp_path / "empty.sqlite3"):
        ran = Ran(*words(name))
    assert ran.code == 1
    assert "Run: manage.py migrate" in ran.err
    assert "Traceback" not in ran.err


def process(place: Path, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "manage.py", *words],
        cwd=ROOT,
        env=environment(place),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_nobody_reading_on_is_no_error(tmp_path: Path) -> None:
    tools = tmp_path / "tools.jsonl"
    tools.write_text('{"name": "list_memos"}\n' * 50_000)
    running = process(tmp_path, "policy", "classify", str(tools))
    assert running.stdout is not None
    assert running.stderr is not None
    running.stdout.readline()
    running.stdout.close()
    assert running.stderr.read() == ""
    assert running.wait(30) == 141


def test_what_is_only_said_at_the_end_may_find_nobody_either(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    ran = subprocess.run(
        [sys.executable, "manage.py", "doctor", "--json"],
        cwd=ROOT,
        env=environment(tmp_path, PYTHONUNBUFFERED=""),
        stdout=writing,
        stderr=subprocess.PIPE,
        text=True,
        timeout=150,
    )
    os.close(writing)
    assert "Traceback" not in ran.stderr
    assert "BrokenPipe" not in ran.stderr
    assert ran.returncode in (1, 141)


def test_ctrl_c_ends_it_quietly(tmp_path: Path) -> None:
    """It is interrupted while it waits for more of a file that never ends."""
    tools = tmp_path / "tools.jsonl"
    os.mkfifo(tools)
    running = process(tmp_path, "policy", "classify", str(tools))
    assert running.stdout is not None
    assert running.stderr is not None
    with tools.open("w") as writing:
        writing.write('{"name": "list_memos"}\n')
        writing.flush()
        assert json.loads(running.stdout.readline())["level"] == "low"
        running.send_signal(signal.SIGINT)
        assert running.wait(30) == 130
    assert running.stderr.read() == ""
    running.stdout.close()
    running.stderr.close()
