"""The runtime: everything that one process holds in memory and changes while it runs.

Every process that sets up Django opens one (`ChatAppConfig.ready`): a server, each of its workers,
a command. A test opens one of its own. All threads of a process share it. It is lost when the
process ends: what must survive is a row.

The layers import downwards only, so a lower layer calls an upper one through this object. The
engine and the hub append their methods to the listeners when they start
(`chatapp/engine/runtime.py`) and remove them when they close. `journal.append` calls the journal
listeners after the commit, `people.signals` the person listeners, and `wake` the wake listeners.
This layer cannot name the types of upper layers; the module that uses a field documents its type.
"""

import asyncio
import threading
import uuid
from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

T = TypeVar("T")
CACHED_TOOLS = 10_000  # of some 3 kB each
REMEMBERED_OPTIONS = 1_000
CACHED_SIZES = 2_000
CACHED_FRAGMENTS = 2_000  # of some 1 kB each
CACHED_CHARTS = 100  # of some 10 kB each


class BoundedCache(Generic[T]):
    """Sequences by key, each with the state that it was made of. When they hold more than `limit`
    values together, the ones that were used least recently go."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._entries: OrderedDict[Hashable, tuple[object, Sequence[T]]] = OrderedDict()
        self._count = 0
        self._lock = threading.Lock()

    def get(self, key: Hashable, state: object) -> Sequence[T] | None:
        """Return the values of this key, or None if they were made of another state."""
        with self._lock:
            entry = self._entries.get(key)
            if entry is None or entry[0] != state:
                return None
            self._entries.move_to_end(key)
            return entry[1]

    def put(self, key: Hashable, state: object, values: Sequence[T]) -> None:
        with self._lock:
            _, replaced = self._entries.pop(key, (None, ()))
            self._entries[key] = (state, values)
            self._count += len(values) - len(replaced)
            while self._count > self._limit and len(self._entries) > 1:
                _, (_, oldest) = self._entries.popitem(last=False)
                self._count -= len(oldest)

    def __len__(self) -> int:
        return self._count


@dataclass(slots=True, kw_only=True, eq=False)
class Runtime:
    """The state of one process."""

    # Called with the id of a turn that has something to do; see `chatapp/journal/journal.py`.
    wake_listeners: list[Callable[[uuid.UUID], None]] = field(default_factory=list)
    # Called with the id of a new turn inside the transaction that stores it. Returns whether the
    # engine of this process moves it, without being woken; see `chatapp/engine/engine.py`.
    begin_new_turn: Callable[[uuid.UUID], bool] | None = None
    # Called with the journal's `Event`s after their commit; see `chatapp/journal/journal.py`.
    journal_listeners: list[Callable[[Sequence[Any]], None]] = field(default_factory=list)
    # Called with the ids of people whose pages may have changed; see `chatapp/people/signals.py`.
    person_listeners: list[Callable[[Iterable[int]], None]] = field(default_factory=list)
    # Called with the name of each fault point; see `chatapp/journal/fault_points.py`.
    fault_observers: list[Callable[[str], None]] = field(default_factory=list)
    # The tool calls that this process sends now, by their id; see `chatapp/calls/execution.py`.
    running_calls: dict[uuid.UUID, asyncio.Task[Any]] = field(default_factory=dict)
    # How many requests have their files examined now, by the access token; see
    # `chatapp/conversations/uploads.py`.
    file_examinations: Counter[uuid.UUID] = field(default_factory=Counter)
    # The counter of requests per minute, once one was counted; see
    # `chatapp/server/request_rates.py`.
    request_counts: object | None = None
    # The large request bodies that are being received; see `chatapp/server/request_bodies.py`.
    large_bodies: set[object] = field(default_factory=set)
    # How many sockets each person has open; see `chatapp/consumers.py`.
    open_sockets: Counter[int] = field(default_factory=Counter)
    # The `Rendering`s of what pages show beside a chat; see `chatapp/consumers.py`.
    rendered_fragments: BoundedCache[Any] = field(
        default_factory=lambda: BoundedCache(CACHED_FRAGMENTS)
    )
    # The `CatalogueTool`s of each service and audience; see `chatapp/tools/catalogue.py`.
    tool_cache: BoundedCache[Any] = field(default_factory=lambda: BoundedCache(CACHED_TOOLS))
    # The context sizes of models in tokens, by model id and person; see
    # `chatapp/live/page_facts.py`.
    context_sizes: BoundedCache[int | None] = field(
        default_factory=lambda: BoundedCache(CACHED_SIZES)
    )
    # The `ListKeeper` of the server at OPENAI_BASE_URL; see
    # `chatapp/providers/access/server_models.py`.
    server_list: object | None = None
    # The `Chart`s of the overview, by language, time zone and what its admin may view; see
    # `chatapp/admin/overview/charts.py`.
    overview_charts: BoundedCache[Any] = field(default_factory=lambda: BoundedCache(CACHED_CHARTS))
    # The options that models refused, by account and model; see `chatapp/providers/refusals.py`.
    refused_options: BoundedCache[Any] = field(
        default_factory=lambda: BoundedCache(REMEMBERED_OPTIONS)
    )
    # The end of the audit log that this process stored last; see `chatapp/audit/audit_log.py`.
    log_end: object | None = None
    # The `Hub` that sockets join, while a server runs; see `chatapp/live/hub.py`.
    hub: object | None = None
    # When the readiness probe last wrote to the database, in monotonic seconds.
    written_at: float = float("-inf")
    # When the metrics last read the `Backlog`, in monotonic seconds, and what they read; see
    # `chatapp/views/metrics.py`.
    backlog: tuple[float, object | None] = (float("-inf"), None)
    # A signal said that the process ends. It may still answer requests.
    is_stopping: bool = False
    # The process ends and waits for nothing more.
    is_closing: bool = False
    # The `Listener` of the demo service, once a command started it; see `chatapp/demo/listener.py`.
    demo_listener: object | None = None


_current: Runtime | None = None


def current_runtime() -> Runtime:
    """Return the runtime of this process."""
    if _current is None:
        raise RuntimeError("No runtime is open. Call django.setup() first.")
    return _current


def open_runtime(runtime: Runtime) -> None:
    """Make `runtime` the runtime of this process until it ends."""
    global _current
    _current = runtime


@contextmanager
def using_runtime(runtime: Runtime) -> Iterator[Runtime]:
    """Make `runtime` the runtime of this process inside the block."""
    global _current
    previous, _current = _current, runtime
    try:
        yield runtime
    finally:
        _current = previous
