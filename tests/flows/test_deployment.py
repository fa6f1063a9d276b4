"""The commands of docs/deployment.md, run as they are written: back up, restore and rotate keys.

One chat has an answer meanwhile, and another has an open approval."""

import contextlib
import re
import secrets
import subprocess
import sys
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.migrated import (
    POSTGRESQL,
    drop_postgresql,
    make_database_name,
    make_postgresql,
    make_sqlite,
    run_on_postgresql,
)

from .journey import Journey
from .person import THREAD, Person, find_card, find_conversation_id, states
from .server import ROOT, Installation, Server, eventually
from .story import World, world

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]
MODEL = "openai-chat:scripted"


def read_commands(heading: str, containing: str) -> str:
    """Return the block of commands below this heading that contains a word."""
    page = (ROOT / "docs/deployment.md").read_text()
    section = page.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    [block] = [
        each for each in re.findall(r"```sh\n(.*?)```", section, re.DOTALL) if containing in each
    ]
    return str(block)


@dataclass(slots=True, kw_only=True)
class Operator:
    """A person at a shell, in the program's folder, with the settings of an installation."""

    place: Path
    environment: dict[str, str]

    def run(self, commands: str, **more: str) -> str:
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", commands],
            cwd=self.place,
            env={**self.environment, **more},
            capture_output=True,
            text=True,
            timeout=240,
        )
        assert done.returncode == 0, f"{commands}\n{done.stdout}{done.stderr}"
        return done.stdout


@dataclass(slots=True, kw_only=True)
class Chats:
    """A chat that is over, and one that waits for a person."""

    world: World
    person: Person
    told: Journey
    asking: Journey

    def check(self, server: Server) -> None:
        """Both are as they were, and the open approval can be answered."""
        over = self.person.page(server, self.told.conversation)
        assert states(over) == ["done"]
        assert self.told.text in over.text(THREAD)
        page = self.person.page(server, self.asking.conversation)
        assert find_card(page) == "approval"

    def answer(self, server: Server) -> None:
        self.asking.server = server
        assert states(self.asking.to_the_end()) == ["done"]
        assert self.asking.executions == 1


@pytest.fixture(params=["sqlite", "postgresql"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def installed(kind: str, tmp_path: Path) -> Iterator[tuple[World, Installation]]:
    """An installation on a database whose keys are in VAR_DIR."""
    var_dir = tmp_path / "var"
    var_dir.mkdir(mode=0o700)
    with contextlib.ExitStack() as stack:
        parties = stack.enter_context(world(tmp_path))
        if kind == "sqlite":
            url = make_sqlite(var_dir / "countersign.sqlite3")
        else:
            url = make_postgresql().replace("postgres://", "postgresql://")
            stack.callback(drop_postgresql, url)
        made = Installation(
            tmp_path,
            DATABASE_URL=url,
            VAR_DIR=str(var_dir),
            OPENAI_BASE_URL=parties.model.url,
            # Stored encrypted, and needed for every call of the service.
            TOKEN=secrets.token_hex(8),
        )
        stack.callback(made.close)
        made.set_up(parties.service_url)
        made.manage("mcp", "set", "things", "--bearer-env", "TOKEN")
        made.manage("mcp", "confirm", "things")
        yield parties, made


@pytest.fixture
def operator(installed: tuple[World, Installation], tmp_path: Path) -> Operator:
    place = tmp_path / "program"
    (place / ".venv/bin").mkdir(parents=True)
    (place / ".venv/bin/python").write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    (place / ".venv/bin/python").chmod(0o700)
    for each in ("manage.py", "chatapp", "mcpconfig", "templates", "static", "tests"):
        (place / each).symlink_to(ROOT / each)
    settings = {"BACKUP": str(tmp_path / "backup"), "PYTHONPATH": str(ROOT)}
    return Operator(place=place, environment={**installed[1].environment, **settings})


def make_chats(parties: World, made: Installation, server: Server) -> Chats:
    person = Person(made, MODEL)
    person.sign_in(server)
    told = Journey(person=person, world=parties, verb="Delete", server=server)
    told.to_the_end()
    asking = Journey(person=person, world=parties, verb="Delete", server=server)
    sent = person.send(server, asking.text, uuid.uuid4())
    asking.conversation = find_conversation_id(sent)

    def asks() -> bool:
        return find_card(person.page(server, asking.conversation)) == "approval"

    eventually(asks, "the question")
    return Chats(world=parties, person=person, told=told, asking=asking)


def test_a_backup_restores_chats_open_approvals_and_the_log(
    kind: str, installed: tuple[World, Installation], operator: Operator, tmp_path: Path
) -> None:
    parties, made = installed
    word = {"sqlite": "VACUUM INTO", "postgresql": "pg_dump"}[kind]
    again = {"sqlite": "rm -f", "postgresql": "pg_restore"}[kind]
    first = made.server("first")
    first.start()
    chats = make_chats(parties, made, first)
    operator.run(read_commands("Backup", word))
    # What follows is not in the backup.
    later = Journey(person=chats.person, world=parties, verb="Delete", server=first)
    later.to_the_end()
    first.end()
    with contextlib.ExitStack() as stack:
        var_dir = tmp_path / "other machine"
        settings = {"VAR_DIR": str(var_dir)}
        if kind == "sqlite":
            settings["DATABASE_URL"] = f"sqlite:///{var_dir}/countersign.sqlite3"
        else:
            name = make_database_name()
            run_on_postgresql(f"CREATE DATABASE {name}")
            settings["DATABASE_URL"] = f"{POSTGRESQL}/{name}".replace("postgres:", "postgresql:", 1)
            stack.callback(drop_postgresql, settings["DATABASE_URL"])
        said = operator.run(read_commands("Restore", again), **settings)
        assert "The log is intact." in said, said
        operator.run(read_commands("Upgrade", "--check"), **settings)
        second = made.server("second", **settings)
        stack.callback(second.end)
        second.start()
        chats.check(second)
        assert chats.person.conversations(second, later.name) == []
        chats.answer(second)
        assert later.executions == 1, "What ran after the backup is not repeated."
        operator.run(".venv/bin/python manage.py log verify", **settings)


def test_keys_are_rotated_as_it_is_documented(
    installed: tuple[World, Installation], operator: Operator, tmp_path: Path
) -> None:
    parties, made = installed
    first = made.server("first")
    first.start()
    chats = make_chats(parties, made, first)
    first.end()
    (tmp_path / "backup").mkdir()
    show = '\nprintf "%s" "$ENCRYPTION_KEYS" > "$BACKUP/new_encryption_key"'
    operator.run(read_commands("Rotate keys", "rotate_keys") + show)
    show = '\nprintf "%s" "$LOG_SIGNING_KEY" > "$BACKUP/new_log_signing_key"'
    keys = {"ENCRYPTION_KEYS": (tmp_path / "backup/new_encryption_key").read_text()}
    operator.run(read_commands("Rotate keys", "LOG_SIGNING_KEY=") + show, **keys)
    keys["LOG_SIGNING_KEY"] = (tmp_path / "backup/new_log_signing_key").read_text()
    second = made.server("second", **keys)
    second.start()
    chats.check(second)
    chats.answer(second)
    second.end()
    # A new key for sessions: the person signs in again, and everything else remains.
    third = made.server("third", SECRET_KEY=secrets.token_urlsafe(50), **keys)
    third.start()
    assert chats.person.browser.get(f"{third.address}/").status_code == 302
    chats.person.sign_in(third)
    page = chats.person.page(third, chats.asking.conversation)
    assert states(page) == ["done"]
