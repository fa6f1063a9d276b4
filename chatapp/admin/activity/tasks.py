"""The admin of tasks; read-only."""

import django_tasks_db.admin  # noqa: F401  registers the model
from django.contrib import admin
from django.utils import timezone
from django.utils.formats import date_format
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _lazy
from django_tasks import TaskResultStatus
from django_tasks_db.models import DBTaskResult, get_date_max

from chatapp.admin.badges import EMPTY, render_badge
from mcpconfig.admin.display import draw_block
from mcpconfig.admin.read_only import ReadOnlyMixin

from .filters import DateFilter, StateFilter

# Names of states whose colours the badges have.
BADGES = {"READY": "queued", "RUNNING": "running", "FAILED": "failed", "SUCCESSFUL": "succeeded"}
admin.site.unregister(DBTaskResult)


@admin.register(DBTaskResult)
class TaskAdmin(ReadOnlyMixin, admin.ModelAdmin):
    empty_list = _lazy("No background tasks yet. Their runs and errors appear here.")
    list_display = ("name", "state", "failure", "attempts", "enqueued_at", "finished_at")
    list_filter = (("status", StateFilter), ("enqueued_at", DateFilter))
    ordering = ("-enqueued_at",)
    # The queue and the priority are the same for all, and no task of ours returns anything.
    fields = (
        "name",
        "state",
        "arguments",
        "attempts",
        "enqueued_at",
        "next_attempt",
        "started_at",
        "finished_at",
        "error",
    )
    readonly_fields = fields

    @admin.display(description=_lazy("Task"))
    def name(self, result: DBTaskResult) -> str:
        return str(result.task_name)

    @admin.display(description=_lazy("State"), ordering="status")
    def state(self, result: DBTaskResult) -> SafeString | str:
        return render_badge(BADGES[result.status], result.get_status_display())

    @admin.display(description=_lazy("Arguments"))
    def arguments(self, result: DBTaskResult) -> str:
        given = [*result.args_kwargs["args"], *result.args_kwargs["kwargs"].values()]
        return ", ".join(map(str, given)) or EMPTY

    @admin.display(description=_lazy("Attempts"))
    def attempts(self, result: DBTaskResult) -> int:
        return len(result.worker_ids)

    @admin.display(description=_lazy("Next attempt"))
    def next_attempt(self, result: DBTaskResult) -> str:
        if result.status != TaskResultStatus.READY or result.run_after == get_date_max():
            return EMPTY
        return date_format(timezone.localtime(result.run_after), "DATETIME_FORMAT")

    @admin.display(description=_lazy("Last error"))
    def failure(self, result: DBTaskResult) -> str:
        """The last line of the traceback. A task that waits for its next attempt has one too."""
        return result.traceback.strip().rpartition("\n")[2][:200] or EMPTY

    @admin.display(description=_lazy("Error"))
    def error(self, result: DBTaskResult) -> SafeString | str:
        return draw_block(result.traceback) if result.traceback else EMPTY
