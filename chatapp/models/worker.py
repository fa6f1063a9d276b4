"""The processes that run now, and when something last ran and how it ended."""

from django.db import models
from django.db.models.functions import Now


class Worker(models.Model):
    """One process of the server or of background tasks. It writes `beat_at` twice a minute, and
    others delete the row when it stops (`background.heartbeat`)."""

    class Kind(models.TextChoices):
        SERVER = "server"
        TASKS = "tasks"

    id = models.UUIDField(primary_key=True)
    kind = models.CharField(max_length=6, choices=Kind.choices)
    host = models.CharField(max_length=64)
    pid = models.PositiveIntegerField()
    version = models.CharField(max_length=40)
    turns = models.PositiveIntegerField(default=0)
    runs_task = models.BooleanField(default=False)
    started_at = models.DateTimeField(db_default=Now())
    beat_at = models.DateTimeField(db_default=Now())

    class Meta:
        ordering = ["started_at"]

    def __str__(self) -> str:
        return f"{self.host} {self.pid}"


class LastRun(models.Model):
    """When something last ran that this server does not repeat by itself, or that may fail unseen:
    a place of the log's anchors, and a backup. `problem` is empty if it succeeded."""

    name = models.CharField(max_length=300, primary_key=True)
    at = models.DateTimeField()
    problem = models.CharField(max_length=500, blank=True, default="")
    succeeded_at = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return f"{self.name} at {self.at}"
