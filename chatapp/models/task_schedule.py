"""When recurring tasks are enqueued next."""

from django.db import models
from django.db.models.functions import Now


class TaskSchedule(models.Model):
    """One row for each recurring task, which a process moves on to enqueue the task."""

    name = models.CharField(max_length=100, primary_key=True)
    next_at = models.DateTimeField(db_default=Now())
    # The task that was enqueued last.
    last_result = models.CharField(max_length=64, blank=True, default="")

    def __str__(self) -> str:
        return f"{self.name}, next at {self.next_at}"
