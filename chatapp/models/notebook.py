"""The demo service's notebook."""

from django.db import models


class Note(models.Model):
    """One note of the shared demo notebook."""

    title = models.CharField(max_length=120, unique=True)
    text = models.TextField(max_length=20_000)
    created_at = models.DateTimeField(auto_now_add=True)
    changed_at = models.DateTimeField(auto_now=True)

    class Meta:
        ordering = ["title"]

    def __str__(self) -> str:
        return self.title
