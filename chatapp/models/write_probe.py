"""The row that the readiness probe writes."""

from django.db import models


class WriteProbe(models.Model):
    """One row, overwritten by `/readyz`: a database with a full disk reads and does not write."""

    written_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"written at {self.written_at}"
