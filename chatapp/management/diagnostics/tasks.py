"""Checks of background tasks: whether a worker runs them, and which ones were given up."""

from datetime import timedelta

from django.conf import settings
from django.db.models.functions import Now
from django.utils.translation import gettext as _
from django_tasks_db.models import DBTaskResult

from chatapp.background.results import filter_late, is_in_database

from .findings import Finding, report_doubtful, report_good, report_wrong

SUBJECT = "tasks"
RECENT = timedelta(days=1)


def check_tasks() -> list[Finding]:
    """Report tasks that nobody runs and tasks that failed in the last day."""
    if not is_in_database():
        return [
            report_good(SUBJECT, _("%(backend)s runs them.") % {"backend": settings.TASKS_BACKEND})
        ]
    if waiting := filter_late().count():
        hint = _("Run: %(command)s. Or set TASKS_WORKER=1 for the server.") % {
            "command": "manage.py run_tasks"
        }
        return [
            report_wrong(
                SUBJECT,
                _("No worker has started %(count)s tasks for ten minutes.") % {"count": waiting},
                hint,
            )
        ]
    failed = DBTaskResult.objects.failed().filter(finished_at__gt=Now() - RECENT)
    names = sorted({each.task_name for each in failed[:100]})
    if names:
        hint = _("The admin shows their errors under Background tasks.")
        return [
            report_doubtful(
                SUBJECT,
                _("Given up since yesterday: %(names)s.") % {"names": ", ".join(names)},
                hint,
            )
        ]
    return [report_good(SUBJECT, _("None are late, and none failed since yesterday."))]
