"""`manage.py run_tasks`: run tasks in a process of their own."""

import signal
from types import FrameType
from typing import Any

from django.conf import settings
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from chatapp.background.heartbeat import Heartbeat
from chatapp.background.results import is_in_database
from chatapp.background.worker import BackgroundWorker
from chatapp.models import Worker
from mcpconfig.management.database import list_pending_migrations
from mcpconfig.management.failures import Failure
from mcpconfig.management.operator_command import OperatorCommand

# How soon a signal is noticed.
LOOK_SECONDS = 0.2


class Command(OperatorCommand):
    help = gettext_lazy("Run tasks, such as mail and pruning, until SIGTERM or Ctrl+C.")

    def handle(self, *args: object, **options: Any) -> None:
        if not is_in_database():
            raise Failure(
                "configuration",
                _("The tasks are not in the database: TASKS_BACKEND is %(backend)s.")
                % {"backend": settings.TASKS_BACKEND},
                _("Start that backend’s worker."),
            )
        if list_pending_migrations():
            raise Failure(
                "database",
                _("The database is not up to date."),
                _("Run: %(command)s") % {"command": "manage.py migrate"},
            )
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
        stop_beating = Heartbeat(
            Worker.Kind.TASKS, runs_task=lambda: worker.is_running_task
        ).start_thread()
        while not worker.join(LOOK_SECONDS):
            if signals:
                worker.begin_shutdown()
        stop_beating()
