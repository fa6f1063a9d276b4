"""Every metric of a server, for Prometheus. `docs/monitoring.md` lists them.

No label has a value that grows with people, chats or calls. The names of models, services and tasks
come from the configuration or a provider's list; `BoundedNames` bounds them too. A model that a
person named is `other`.
"""

import fcntl
import os
import shutil
import struct
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.mmap_dict import MmapedDict
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead
from prometheus_client.registry import Collector

# prometheus_client reads it on import, and then keeps each value in a file of this folder.
FOLDER_VARIABLE = "PROMETHEUS_MULTIPROC_DIR"
# In the names of files, instead of the number of a process: the counts of those that have ended.
ENDED = "ended"
CONTENT_TYPE = CONTENT_TYPE_LATEST
OTHER = "other"
MAX_NAMES = 200
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})

FAST = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
REQUESTS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
ANSWERS = (0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0)
PEOPLE = (5.0, 15.0, 60.0, 300.0, 900.0, 3600.0, 14_400.0, 86_400.0, 259_200.0, 604_800.0)
SIZES = (1, 2, 5, 10, 20, 50, 100, 200, 500)

REGISTRY = CollectorRegistry()


def _counter(name: str, text: str, *labels: str) -> Counter:
    return Counter(f"countersign_{name}", text, labels, registry=REGISTRY)


def _gauge(name: str, text: str, *labels: str, mode: Any) -> Gauge:
    return Gauge(f"countersign_{name}", text, labels, registry=REGISTRY, multiprocess_mode=mode)


def _histogram(name: str, text: str, buckets: Iterable[float], *labels: str) -> Histogram:
    return Histogram(f"countersign_{name}", text, labels, registry=REGISTRY, buckets=tuple(buckets))


# --- turns ---------------------------------------------------------------------------------
TURNS_TAKEN = _counter(
    "turns_taken_total", "Turns that a worker began to move: new, continued or abandoned.", "how"
)
TURNS_ENDED = _counter("turns_ended_total", "Turns that ended, by the reason.", "reason")
TURN_QUEUE_SECONDS = _histogram(
    "turn_queue_seconds", "Time from a message until a worker takes its turn.", FAST
)
SWEEP_SUCCESS = _gauge(
    "sweep_last_success_timestamp_seconds",
    "When a worker last looked for turns without a worker.",
    mode="max",
)
TASK_FAILURES = _counter("task_failures_total", "Background tasks that failed.", "task")

# --- model calls ---------------------------------------------------------------------------
MODEL_CALLS = _counter(
    "model_calls_total",
    "Model calls that ended, summaries included.",
    "provider",
    "model",
    "outcome",
)
MODEL_CALLS_RUNNING = _gauge(
    "model_calls_running", "Model calls that run now.", "provider", mode="livesum"
)
MODEL_FIRST_EVENT_SECONDS = _histogram(
    "model_first_event_seconds",
    "Time from a request to a model until the first part of its answer.",
    REQUESTS,
    "provider",
    "model",
)
MODEL_CALL_SECONDS = _histogram(
    "model_call_seconds", "Time of a whole model call.", ANSWERS, "provider", "model"
)
MODEL_TOKENS = _counter(
    "model_tokens_total",
    "Tokens as providers reported them. Cached tokens are also input, reasoning is also output.",
    "provider",
    "model",
    "kind",
)
MODEL_COST = _counter(
    "model_cost_total", "Cost at the prices that an admin set.", "provider", "model", "currency"
)

# --- tool calls ----------------------------------------------------------------------------
TOOL_CALLS = _counter(
    "tool_calls_total",
    "Tool calls that ended. An outcome that is unknown counts when it becomes so.",
    "service",
    "risk",
    "decision",
    "outcome",
)
TOOL_CALL_SECONDS = _histogram(
    "tool_call_seconds",
    "Time from the last sending of a tool call until its end.",
    ANSWERS,
    "service",
)
TOOL_CALLS_RESOLVED = _counter(
    "tool_calls_resolved_total", "Unknown outcomes that a person resolved.", "verdict"
)
ANSWER_SECONDS = _histogram(
    "answer_seconds",
    "Time until a request to a person was answered or closed.",
    PEOPLE,
    "kind",
    "answer",
)

# --- operations on services ----------------------------------------------------------------
OPERATIONS = _counter(
    "operations_total", "Operations on services that ended.", "service", "operation", "outcome"
)
OPERATION_SECONDS = _histogram(
    "operation_seconds", "Time of an operation on a service.", ANSWERS, "operation"
)
OPERATION_REQUESTS = _counter(
    "operation_requests_total", "HTTP requests that operations on services sent.", "operation"
)
CONNECTIONS_REFUSED = _counter(
    "connections_refused_total",
    "Connections that this server refused to open, by what was wrong.",
    "reason",
)

# --- pages and storage ---------------------------------------------------------------------
HTTP_RESPONSES = _counter("http_responses_total", "Answers to HTTP requests.", "method", "status")
OPEN_SOCKETS = _gauge("open_sockets", "WebSockets that are open.", "kind", mode="livesum")
COMMIT_SECONDS = _histogram("commit_seconds", "Time of a group commit of answer text.", FAST)
COMMIT_TURNS = _histogram("commit_turns", "Answers that a group commit stored together.", SIZES)
PUBLISH_SECONDS = _histogram(
    "publish_seconds", "Time from a commit until its text is given to the open pages.", FAST
)
DATABASE_STATEMENTS = _counter(
    "database_statements_total", "Statements that this process sent to the database."
)
DATABASE_ERRORS = _counter(
    "database_errors_total", "Work that failed because the database was away.", "error"
)
# A counter that begins at 1 shows no increase, so those that alerts watch begin at 0.
for _error in ("InterfaceError", "OperationalError"):
    DATABASE_ERRORS.labels(_error)

# --- sign-in and the activity log ----------------------------------------------------------
SIGN_IN_FAILURES = _counter(
    "sign_in_failures_total", "Wrong passwords and wrong secrets of access tokens.", "kind"
)
SIGN_IN_LOCKS = _counter("sign_in_locks_total", "Locks after too many failures.", "kind")
ANCHOR_SUCCESS = _gauge(
    "log_anchor_last_success_timestamp_seconds",
    "When an anchor was last written to this kind of place, at first the start of the server.",
    "place",
    mode="max",
)
ANCHOR_FAILURES = _counter(
    "log_anchor_failures_total", "Anchors that could not be written.", "place"
)
ANCHOR_INTERVAL = _gauge(
    "log_anchor_interval_seconds", "Time between two anchors; 0 if none are written.", mode="max"
)

# --- computed when they are read -----------------------------------------------------------
# By name: the text and the labels. `chatapp/views/metrics.py` has their values.
READINGS: dict[str, tuple[str, tuple[str, ...]]] = {
    "countersign_database_up": ("1 if the database answered this request for metrics.", ()),
    "countersign_turns": ("Turns that are not over, by state.", ("state",)),
    "countersign_turns_abandoned": ("Running turns whose worker is gone.", ()),
    "countersign_tasks": ("Background tasks: due, running, or given up.", ("state",)),
    "countersign_open_requests": ("What waits for a person.", ("kind",)),
    "countersign_build_info": ("1, with the version.", ("version", "database")),
}


class BoundedNames:
    """Names that may be values of a label. Those after the first `most` become `other`."""

    def __init__(self, most: int = MAX_NAMES) -> None:
        self._most = most
        self._known: set[str] = set()
        self._lock = threading.Lock()

    def bound(self, name: str) -> str:
        if name in self._known:
            return name
        with self._lock:
            if len(self._known) >= self._most:
                return OTHER
            self._known.add(name)
        return name


MODEL_NAMES = BoundedNames()
SERVICE_NAMES = BoundedNames()


class LabelledService(Protocol):
    """What a label needs of a service."""

    name: str

    @property
    def owner_id(self) -> Any: ...


def label_service(service: LabelledService | None) -> str:
    """Return the service's name as a label: a person's own services are only `own`, since their
    names belong to one person."""
    if service is None:
        return "none"
    return "own" if service.owner_id is not None else SERVICE_NAMES.bound(service.name)


# --- reading -------------------------------------------------------------------------------
Readings = Iterable[tuple[str, tuple[str, ...], float]]


class _ReadingCollector(Collector):
    def __init__(self, readings: Readings) -> None:
        self._readings = readings

    def collect(self) -> Iterable[GaugeMetricFamily]:
        families: dict[str, GaugeMetricFamily] = {}
        for name, values, number in self._readings:
            text, labels = READINGS[name]
            family = families.setdefault(name, GaugeMetricFamily(name, text, labels=labels))
            family.add_metric(values, number)
        return families.values()


def render(readings: Readings) -> bytes:
    """Return all metrics of this server, those of its other processes included, with `readings`:
    the name, the values of the labels, and the number of each."""
    registry = CollectorRegistry()
    registry.register(_ReadingCollector(readings))
    if folder := os.environ.get(FOLDER_VARIABLE):
        MultiProcessCollector(registry)  # type: ignore[no-untyped-call]  # no types there
        with _locked(Path(folder), fcntl.LOCK_SH):
            return generate_latest(registry)
    return generate_latest(REGISTRY) + generate_latest(registry)


# --- several processes ---------------------------------------------------------------------
def open_shared_folder(parent: Path) -> Path:
    """Let the processes that this one starts keep their values in files of a folder of their own.
    Return it. Folders of servers that have ended are deleted."""
    parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    for folder in parent.iterdir():
        if folder.name == str(os.getpid()) or not _is_running(folder.name):
            remove_shared_folder(folder)
    folder = parent / str(os.getpid())
    folder.mkdir(mode=0o700)
    os.environ[FOLDER_VARIABLE] = str(folder)
    return folder


def remove_shared_folder(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)


def _is_running(name: str) -> bool:
    """Return whether there is a process with this number. Other names are left alone."""
    if not name.isdecimal():
        return True
    try:
        os.kill(int(name), 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def forget_process(pid: int) -> bool:
    """Remove what a process that ended said of its present state, and add its counts to those of
    all that ended before. Return False if an answer is being written; then try again."""
    folder = Path(os.environ[FOLDER_VARIABLE])
    try:
        with _locked(folder, fcntl.LOCK_EX | fcntl.LOCK_NB):
            mark_process_dead(pid)  # type: ignore[no-untyped-call]
            for file in folder.glob(f"*_{pid}.db"):
                # A process that was killed while it made the file leaves an empty one.
                with suppress(struct.error):
                    _merge(file, file.with_name(file.name.replace(f"_{pid}.db", f"_{ENDED}.db")))
                file.unlink()
    except BlockingIOError:
        return False
    return True


def _merge(source: Path, target: Path) -> None:
    """Add the values of one file to those of another. Of gauges, which all have the mode `max`
    here, keep the greater one."""
    is_gauge = source.name.startswith("gauge_")
    kept = MmapedDict(str(target))  # type: ignore[no-untyped-call]
    try:
        for key, value, timestamp, _position in MmapedDict.read_all_values_from_file(str(source)):  # type: ignore[no-untyped-call]
            before, at = kept.read_value(key)  # type: ignore[no-untyped-call]
            merged = max(before, value) if is_gauge else before + value
            kept.write_value(key, merged, max(at, timestamp))  # type: ignore[no-untyped-call]
    finally:
        kept.close()  # type: ignore[no-untyped-call]


@contextmanager
def _locked(folder: Path, how: int) -> Iterator[None]:
    """Keep an answer from seeing the counts of an ended process twice or not at all."""
    with (folder / "lock").open("a") as file:
        fcntl.flock(file, how)
        yield
