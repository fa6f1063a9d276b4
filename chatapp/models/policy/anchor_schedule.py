"""When the end of the log is written elsewhere again."""

from django.db import models


class AnchorSchedule(models.Model):
    """One row, which a process moves on to write the anchor that is due."""

    next_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"next anchor at {self.next_at}"
