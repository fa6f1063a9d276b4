"""A long call that a service works on by itself."""

from django.db import models

from .tool_call import ToolCall


class RemoteTask(models.Model):
    """The service's task behind one call. No process waits for it: the sweep asks how it stands
    when `next_poll_at` has come, and moves that time first, so that only one process asks.

    `failures` counts polls that went wrong one after another; `is_cancelled` says that the service
    has heard of the wish to cancel. Past `deadline` nobody asks any more.
    """

    tool_call = models.OneToOneField(
        ToolCall, on_delete=models.CASCADE, primary_key=True, related_name="remote_task"
    )
    task_id = models.CharField(max_length=500)
    status = models.CharField(max_length=20, blank=True)
    message = models.CharField(max_length=200, blank=True)
    poll_seconds = models.FloatField()
    next_poll_at = models.DateTimeField(null=True)
    deadline = models.DateTimeField()
    failures = models.PositiveIntegerField(default=0)
    wants_cancel = models.BooleanField(default=False)
    is_cancelled = models.BooleanField(default=False)

    class Meta:
        indexes = [models.Index(fields=["next_poll_at"])]

    def __str__(self) -> str:
        return f"task of {self.tool_call_id} ({self.status})"
