"""The files in which the workers of one server keep their values."""

import fcntl
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.mmap_dict import MmapedDict, mmap_key
from prometheus_client.multiprocess import MultiProcessCollector

from chatapp.telemetry import metrics

pytestmark = pytest.mark.gate
GONE = 4_194_305  # above the greatest number of a process


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv(metrics.FOLDER_VARIABLE, "")
    yield metrics.open_shared_folder(tmp_path / "metrics")


def write(folder: Path, kind: str, pid: int, value: float, name: str = "x_total") -> None:
    file = MmapedDict(str(folder / f"{kind}_{pid}.db"))  # type: ignore[no-untyped-call]
    file.write_value(mmap_key(name, name, [], [], "text"), value, 0)  # type: ignore[no-untyped-call]
    file.close()  # type: ignore[no-untyped-call]


def read(folder: Path) -> list[str]:
    registry = CollectorRegistry()
    MultiProcessCollector(registry, str(folder))  # type: ignore[no-untyped-call]
    lines = generate_latest(registry).decode().splitlines()
    return [line for line in lines if not line.startswith("#")]


def test_the_counts_of_workers_that_ended_are_kept_in_one_file(folder: Path) -> None:
    for number in range(30):
        pid = GONE + number
        write(folder, "counter", pid, 2)
        write(folder, "gauge_max", pid, number, "seen")
        write(folder, "gauge_livesum", pid, 5, "open")
        (folder / f"histogram_{pid}.db").touch()  # killed while it made the file
        assert metrics.forget_process(pid)
    write(folder, "counter", 1, 3)
    assert {each.name for each in folder.glob("*.db")} <= {
        *("counter_ended.db", "gauge_max_ended.db", "histogram_ended.db", "counter_1.db")
    }
    assert set(read(folder)) == {"x_total 63.0", "seen 29.0"}


def test_nothing_is_merged_while_an_answer_is_written(folder: Path) -> None:
    write(folder, "counter", GONE, 2)
    with metrics._locked(folder, fcntl.LOCK_SH):
        assert not metrics.forget_process(GONE)
        assert read(folder) == ["x_total 2.0"]
    assert metrics.forget_process(GONE)
    assert read(folder) == ["x_total 2.0"]


def test_a_second_server_leaves_the_files_of_the_first_alone(folder: Path) -> None:
    parent = folder.parent
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        running, ended = parent / str(other.pid), parent / str(GONE)
        for each in (running, ended, folder):
            each.mkdir(exist_ok=True)
            write(each, "counter", 1, 2)
        assert metrics.open_shared_folder(parent) == folder
        assert {each.name for each in parent.iterdir()} == {running.name, str(os.getpid())}
        assert read(running) == ["x_total 2.0"]
        assert read(folder) == []
        other.send_signal(signal.SIGKILL)
