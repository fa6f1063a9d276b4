"""Background tasks in real processes: in `serve`, in a worker of their own, and after a worker was
killed in the middle of one."""

import asyncio
import json
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import psycopg
import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, Envelope, Session

from tests.peers.post_office import PostOffice

from .server import ROOT, Installation, database, eventually, free_port

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]
TASKS = "SELECT task_path, status, worker_ids FROM django_tasks_database_dbtaskresult"


class SlowPostOffice(PostOffice):
    """Keeps who sends a mail waiting until it is opened, and did not take what came before."""

    def __init__(self) -> None:
        super().__init__()
        self.opened = threading.Event()

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:  # noqa: N802
        if self.opened.is_set():
            return await super().handle_DATA(server, session, envelope)
        self.asked += 1
        await asyncio.to_thread(self.opened.wait, 60)
        return "451 Too late"


@pytest.fixture
def office() -> Iterator[SlowPostOffice]:
    made = SlowPostOffice()
    controller = Controller(made, hostname="127.0.0.1", port=free_port())
    controller.start()
    made.port = controller.port  # type: ignore[attr-defined]
    yield made
    made.opened.set()
    controller.stop()


@pytest.fixture(params=["sqlite", "postgresql"])
def place(
    request: pytest.FixtureRequest, tmp_path: Path, office: SlowPostOffice
) -> Iterator[Installation]:
    """An installation whose log is anchored by mail."""
    with database(request.param, tmp_path) as url:
        made = Installation(
            tmp_path,
            DATABASE_URL=url,
            EMAIL_URL=f"smtp://127.0.0.1:{office.port}",  # type: ignore[attr-defined]
            EMAIL_FROM="countersign@chat.example",
            LOG_ANCHORS="mailto:log@chat.example",
            TASKS_POLL_SECONDS="0.3",
            TASKS_MAX_SECONDS="1",
        )
        try:
            yield made
        finally:
            made.close()


@contextmanager
def running_worker(place: Installation) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "manage.py", "run_tasks"],
        cwd=ROOT,
        env=place.environment,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "Running tasks\n"
        yield process
    finally:
        process.kill()
        process.wait(30)
        process.stdout.close()


def read_tasks(place: Installation) -> list[tuple[str, str, int]]:
    """The name and the state of each task, and how often it was begun."""
    url = place.environment["DATABASE_URL"]
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"), timeout=30)) as rows:
            found = [(*row[:2], json.loads(row[2])) for row in rows.execute(TASKS)]
    else:
        with psycopg.connect(url) as connection:
            found = connection.execute(TASKS).fetchall()
    return [(path.rpartition(".")[2], state, len(workers)) for path, state, workers in found]


def read_anchors(place: Installation) -> list[tuple[str, int]]:
    """The state of each task that writes an anchor, and how often it was begun."""
    return [(state, begun) for name, state, begun in read_tasks(place) if name == "write_anchor"]


def test_a_task_whose_worker_is_killed_in_the_middle_is_run_by_another(
    place: Installation, office: SlowPostOffice
) -> None:
    with running_worker(place) as killed:
        eventually(lambda: office.asked == 1, "the worker waits for the mail server")
        killed.kill()
        killed.wait(30)
    assert read_anchors(place) == [("RUNNING", 1)]
    office.opened.set()
    with running_worker(place) as next_one:
        eventually(lambda: bool(office.mails), "the mail of the next worker")
        eventually(lambda: read_anchors(place) == [("SUCCESSFUL", 2)], "the end of the task")
        next_one.terminate()
        assert next_one.wait(30) == 0
    assert [mail["to"] for mail in office.mails] == ["log@chat.example"]


def test_a_server_runs_tasks_unless_workers_of_their_own_do(
    place: Installation, office: SlowPostOffice
) -> None:
    office.opened.set()
    idle = place.server("idle", TASKS_WORKER="0")
    idle.start()
    eventually(lambda: len(read_tasks(place)) > 2, "the schedule")
    assert {(state, begun) for _name, state, begun in read_tasks(place)} == {("READY", 0)}
    works = place.server("works")
    works.start()
    eventually(lambda: len(office.mails) == 1, "the mail")
    eventually(lambda: read_anchors(place) == [("SUCCESSFUL", 1)], "the end of the task")
