"""`manage.py run_tasks`: run tasks in a process of their own."""

import signal
from types import FrameType
from typing import Any

from django.conf import settings

from chatapp.background.results import is_in_database
from chatapp.background.worker import BackgroundWorker
from mcpconfig.management.database import list_pending_migrations
from mcpconfig.management.failures import Failure
from mcpconfig.management.operator_command import OperatorCommand

# How soon a signal is noticed.
LOOK_SECONDS = 0.2


class Command(OperatorCommand):
    help = "Run tasks, such as mail and pruning, until SIGTERM or Ctrl+C."

    def handle(self, *args: object, **options: Any) -> None:
        if not is_in_database():
            raise Failure(
                "configuration",
                f"The tasks are not in the database: TASKS_BACKEND is {settings.TASKS_BACKEND}.",
                "Start the worker of that backend.",
            )
        if list_pending_migrations():
            raise Failure("database", "The database is not up to date.", "Run: manage.py migrate")
        worker = BackgroundWorker(runs_tasks=True)
        signals: list[int] = []

        def end(number: int, _frame: FrameType | None) -> None:
            # It interrupts this thread anywhere, so it takes no lock.
            signals.append(number)

        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, end)
        self.stdout.write("Running tasks")
        self.stdout.flush()
        worker.start()
        while not worker.join(LOOK_SECONDS):
            if signals:
                worker.begin_shutdown()
