"""The heartbeat of a process: a row that says that it runs, since when and whether it is busy. It
is for admins to see; no decision depends on it."""

import asyncio
import logging
import os
import socket
import threading
import uuid
from collections.abc import Callable
from datetime import timedelta

from django.db import DatabaseError, InterfaceError, connection, connections
from django.db.models.functions import Now

from chatapp.models import Worker
from chatapp.server.database import in_database, keep_connection
from mcpconfig.values.version import VERSION

log = logging.getLogger(__name__)
BEAT_SECONDS = 30.0
# A process that missed several beats is dead, or its database is away.
DEAD_AFTER = timedelta(seconds=120)
# Until then an admin can see which process has stopped reporting.
REMOVED_AFTER = timedelta(days=1)
# At each of so many beats, a process deletes old rows of dead ones.
BEATS_BETWEEN_REMOVALS = 4


class Heartbeat:
    """Writes one row of one process, one statement a beat. `count_turns` and `runs_task` say how
    busy it is at that moment."""

    def __init__(
        self,
        kind: Worker.Kind,
        *,
        count_turns: Callable[[], int] = lambda: 0,
        runs_task: Callable[[], bool] = lambda: False,
    ) -> None:
        self.id = uuid.uuid4()
        self._kind = kind
        self._count_turns = count_turns
        self._runs_task = runs_task
        self._beats = 0
        # A beat that was under way when its process ended must not write the row again.
        self._turn = threading.Lock()
        self._has_ended = False

    def beat(self) -> None:
        busy = {"turns": self._count_turns(), "runs_task": self._runs_task()}
        if not Worker.objects.filter(pk=self.id).update(beat_at=Now(), **busy):
            Worker.objects.create(
                id=self.id,
                kind=self._kind,
                host=socket.gethostname()[:64],
                pid=os.getpid(),
                version=VERSION[:40],
                **busy,
            )
        if self._beats % BEATS_BETWEEN_REMOVALS == 0:
            remove_dead()
        self._beats += 1

    def beat_guarded(self) -> None:
        """Beat, unless the database is away: the process works on without its row."""
        try:
            with self._turn:
                if not self._has_ended:
                    self.beat()
        except (DatabaseError, InterfaceError) as error:
            # The next beat starts with a new connection.
            if not connection.in_atomic_block:
                connection.close()
            log.warning("The heartbeat waits for the database (%s)", type(error).__name__)

    def end(self) -> None:
        """Delete the row of a process that ends."""
        try:
            with self._turn:
                self._has_ended = True
                Worker.objects.filter(pk=self.id).delete()
        except (DatabaseError, InterfaceError):
            log.warning("The row of this process is left for others to delete")

    # --- in a server -----------------------------------------------------------------------
    async def keep_beating(self, seconds: float = BEAT_SECONDS) -> None:
        """Beat until cancelled. A task that runs in another thread delays no beat."""
        try:
            while True:
                await in_database(self.beat_guarded)
                await asyncio.sleep(seconds)
        finally:
            await asyncio.shield(in_database(self.end))

    # --- in a process of tasks -------------------------------------------------------------
    def start_thread(self, seconds: float = BEAT_SECONDS) -> Callable[[], None]:
        """Beat in a thread of its own. Return what ends it and deletes the row."""
        has_ended = threading.Event()

        def run() -> None:
            keep_connection()
            try:
                self.beat_guarded()
                while not has_ended.wait(seconds):
                    self.beat_guarded()
                self.end()
            finally:
                connections.close_all()

        thread = threading.Thread(target=run, name="heartbeat", daemon=True)
        thread.start()

        def stop() -> None:
            has_ended.set()
            thread.join(BEAT_SECONDS)

        return stop


def remove_dead() -> int:
    """Delete the rows of processes that have stopped reporting for a day. Return how many there
    were."""
    return Worker.objects.filter(beat_at__lt=Now() - REMOVED_AFTER).delete()[0]
