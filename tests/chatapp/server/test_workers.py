"""A worker that takes long to start is not taken for one that hangs."""

import itertools
import multiprocessing
from pathlib import Path
from typing import Any, cast

import pytest
import uvicorn
from uvicorn.supervisors.multiprocess import Process

from chatapp.server import serving
from chatapp.server.serving import Workers
from chatapp.telemetry import metrics


class Child:
    """What the parent knows of a process: it lives until it is killed."""

    exitcode: int | None = None

    def __init__(self, pid: int) -> None:
        self.pid = pid

    def is_alive(self) -> bool:
        return self.exitcode is None

    def kill(self) -> None:
        self.exitcode = -9

    def join(self) -> None:
        pass


class Worker(Process):
    """A worker whose process is not started. `answer` is what it answers to the parent: nothing,
    that it starts, or that it serves."""

    pids = itertools.count(1)

    def __init__(self, _config: uvicorn.Config, _sockets: list[Any]) -> None:
        self.parent_conn, self.child_conn = multiprocessing.Pipe()
        self.process = cast(Any, Child(next(self.pids)))
        self.answer: bool | None = None

    def start(self) -> None:
        pass

    def _healthcheck(self, timeout: float) -> bool | None:
        return self.answer


@pytest.fixture
def workers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Workers:
    """Two workers, of which none answers."""
    monkeypatch.setenv(metrics.FOLDER_VARIABLE, str(tmp_path))
    monkeypatch.setattr("uvicorn.supervisors.multiprocess.Process", Worker)
    monkeypatch.setattr("uvicorn.supervisors.multiprocess.SIGNALS", {})
    config = uvicorn.Config("nothing", workers=2)
    made = Workers(config, [], lambda: None)
    made.processes = [Worker(config, []), Worker(config, [])]
    return made


def kill(process: Any) -> None:
    process.process.kill()


def test_a_worker_that_starts_has_time(workers: Workers) -> None:
    before = list(workers.processes)
    for _ in range(5):
        workers.keep_subprocess_alive()
    assert set(workers.processes) == set(before)
    assert all(process.process.is_alive() for process in before)


def test_a_worker_that_never_starts_is_replaced(
    workers: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving, "WORKER_START_SECONDS", -1)
    before = list(workers.processes)
    workers.keep_subprocess_alive()
    assert set(workers.processes).isdisjoint(before)


def test_a_worker_that_died_while_it_started_is_replaced(workers: Workers) -> None:
    first, second = workers.processes
    kill(first)
    workers.keep_subprocess_alive()
    assert first not in workers.processes and second in workers.processes
    assert len(workers.processes) == 2


def test_a_worker_that_died_before_the_first_look_has_its_metrics_merged(
    workers: Workers, tmp_path: Path
) -> None:
    first, second = workers.processes
    left = [tmp_path / f"counter_{process.pid}.db" for process in (first, second)]
    for file in left:
        file.touch()
    kill(first)
    workers.keep_subprocess_alive()
    assert [file.exists() for file in left] == [False, True]


@pytest.mark.parametrize("answer", [True, False])
def test_a_worker_that_answered_and_hangs_is_replaced(workers: Workers, answer: bool) -> None:
    first, second = workers.processes
    assert isinstance(first, Worker)
    first.answer = answer
    workers.keep_subprocess_alive()
    assert first in workers.processes and second in workers.processes
    first.answer = None
    workers.keep_subprocess_alive()
    # While it starts it may be silent; once it has served it may not.
    assert (first in workers.processes) == (not answer)
    assert second in workers.processes
