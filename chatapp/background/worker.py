"""The worker of tasks: a thread of `serve`, or the process of `manage.py run_tasks`."""

import asyncio
import logging
import os
import socket
import threading
import time
from typing import Any

from django.conf import settings
from django.db import InterfaceError, OperationalError, connection, connections, transaction
from django.utils.crypto import get_random_string
from django_tasks import DEFAULT_TASK_BACKEND_ALIAS
from django_tasks.signals import task_enqueued
from django_tasks_db.management.commands.db_worker import Worker

from chatapp.audit.audit_log import SERVER, acting_as
from chatapp.server.database import keep_connection

from .results import find_ready, is_in_database, recover_lost
from .schedule import Rests, enqueue_due

log = logging.getLogger(__name__)
JOIN_SECONDS = 0.1


class BackgroundWorker:
    """Enqueues recurring tasks and, if `runs_tasks`, runs what is ready, one task at a time."""

    def __init__(self, *, runs_tasks: bool) -> None:
        self._runs_tasks = runs_tasks and is_in_database()
        self._ends = threading.Event()
        self._has_work = threading.Event()
        self._waits_at_shutdown = True
        self._recovers_at = 0.0
        self._rests = Rests()
        self.is_running_task = False
        self._thread = threading.Thread(target=self.run, name="background", daemon=True)
        # In batch mode the library's worker returns once no task is ready.
        self._worker = Worker(
            queue_names=["*"],
            interval=1,
            batch=True,
            backend_name=DEFAULT_TASK_BACKEND_ALIAS,
            startup_delay=False,
            max_tasks=None,
            worker_id=f"{socket.gethostname()[:40]}-{os.getpid()}-{get_random_string(8)}",
            excluded_queue_names=[],
        )

    # --- life ------------------------------------------------------------------------------
    def start(self) -> None:
        """Run in a thread of its own."""
        self._thread.start()

    def begin_shutdown(self, *, at_once: bool = False) -> None:
        """Begin no other task. Safe to call more than once, but not from a signal handler of the
        thread that runs the tasks: it may hold the locks of these events."""
        if at_once:
            self._waits_at_shutdown = False
        self._worker.running = False
        self._ends.set()
        self._has_work.set()

    def join(self, seconds: float) -> bool:
        """Wait for the thread of the worker. Return whether it has ended."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    async def close(self, *, wait_seconds: float) -> None:
        """Wait until the task that runs has ended. One that takes longer is cut off with the
        process, and a worker runs it again."""
        self.begin_shutdown()
        end = time.monotonic() + wait_seconds
        while self._thread.is_alive() and self._waits_at_shutdown and time.monotonic() < end:
            await asyncio.to_thread(self._thread.join, JOIN_SECONDS)

    # --- the loop --------------------------------------------------------------------------
    def run(self) -> None:
        """Work until `begin_shutdown`. In the audit log its changes are the server's own."""
        keep_connection()
        task_enqueued.connect(self._announce, dispatch_uid=id(self))
        try:
            with acting_as(lambda: SERVER):
                while not self._ends.is_set():
                    self._has_work.clear()
                    self._work_guarded()
                    if not self._ends.is_set():
                        self._has_work.wait(settings.TASKS_POLL_SECONDS)
        finally:
            task_enqueued.disconnect(dispatch_uid=id(self))
            connections.close_all()

    def _announce(self, **_signal: Any) -> None:
        """Look for tasks once the transaction that enqueued one has committed."""
        transaction.on_commit(self._has_work.set)

    def _work_guarded(self) -> None:
        try:
            self._work()
        except (InterfaceError, OperationalError) as error:
            # The next look starts with a new connection.
            connection.close()
            log.warning("Tasks wait for the database (%s)", type(error).__name__)
        except Exception:
            log.exception("Looking for tasks failed; it is tried again")

    def _work(self) -> None:
        # Lets the first statement notice a connection that was closed while it was idle.
        connection.health_check_done = False  # type: ignore[attr-defined]  # the stubs lack it
        enqueue_due(self._rests)
        if not self._runs_tasks:
            return
        if time.monotonic() >= self._recovers_at:
            recover_lost()
            self._recovers_at = time.monotonic() + min(60.0, settings.TASKS_MAX_SECONDS / 2)
        # The library's worker takes SQLite's write lock to look, so it is asked only when needed.
        if find_ready(DEFAULT_TASK_BACKEND_ALIAS):
            self.is_running_task = True
            try:
                self._worker.run()
            finally:
                self.is_running_task = False
