"""CPU time and memory of processes and of the whole machine, as Linux counts them."""

import contextlib
import os
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")


def read_cpu_seconds(pid: int) -> float:
    """User and system time of one process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def read_busy_seconds() -> float:
    """Seconds that all cores together have worked so far, without idling and waiting for disks."""
    fields = [int(field) for field in Path("/proc/stat").read_text().split("\n")[0].split()[1:9]]
    return (sum(fields) - fields[3] - fields[4]) / TICKS


def read_resident_mb(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) / 1024


def list_tree(pid: int) -> list[int]:
    """Return a process and all that it and its children have started and that still run."""
    found = [pid]
    for parent in found:
        for task in Path(f"/proc/{parent}/task").glob("*/children"):
            with contextlib.suppress(OSError):
                found.extend(map(int, task.read_text().split()))
    return found


def read_tree_seconds(pid: int) -> float:
    """User and system time of a process tree so far, with those of its processes that ended."""
    ticks = 0
    for each in list_tree(pid):
        fields = Path(f"/proc/{each}/stat").read_text().rpartition(")")[2].split()
        ticks += sum(map(int, fields[11:15]))
    return ticks / TICKS


def read_tree_mb(pid: int) -> float:
    """Resident memory of a process tree."""
    return sum(map(read_resident_mb, list_tree(pid)))
