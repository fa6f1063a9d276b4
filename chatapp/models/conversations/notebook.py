"""The notes of the demo service: a small shared notebook."""

import re
from typing import Self

from django.db import models
from django.db.models.functions import Concat, Length
from django.utils import timezone

ITEM = "- "
# Markers of a list item, a heading or a quotation; an excerpt is shown inside another list.
MARKERS = re.compile(r"^\s*(?:(?:[-+*>]|#+|\d+[.)])\s+)*")


class Note(models.Model):
    """One note of the shared demo notebook."""

    TITLE_MAX = 120
    TEXT_MAX = 20_000
    NOTES_MAX = 200

    title = models.CharField(max_length=120, unique=True)
    text = models.TextField(max_length=20_000)
    created_at = models.DateTimeField(auto_now_add=True)
    changed_at = models.DateTimeField(auto_now=True)

    class Meta:
        ordering = ["title"]

    def __str__(self) -> str:
        return self.title

    @classmethod
    def find(cls, title: str) -> Self | None:
        """Return the note of this title: an exact match first, otherwise one that ignores case."""
        title = title.strip()
        same = cls.objects.filter(title__iexact=title)
        return same.filter(title=title).first() or same.first()

    @classmethod
    def search(cls, words: str) -> models.QuerySet[Self]:
        """Return the notes whose title or text has all of the words."""
        found = cls.objects.all()
        for word in words.split():
            found = found.filter(models.Q(title__icontains=word) | models.Q(text__icontains=word))
        return found

    def append(self, text: str) -> bool:
        """Append a line, as the next item if the text ends with a list. Return False if there is no
        room.

        The database concatenates the text, so that concurrent appends lose nothing.
        """
        is_list = self.text.rpartition("\n")[2].startswith(ITEM)
        line = f"\n{ITEM}{text}" if is_list and not text.startswith(ITEM) else f"\n{text}"
        has_room = (
            type(self)
            .objects.annotate(size=Length("text"))
            .filter(pk=self.pk, size__lte=self.TEXT_MAX - len(line))
        )
        written = has_room.update(
            text=Concat("text", models.Value(line)), changed_at=timezone.now()
        )
        self.refresh_from_db()
        return bool(written)

    def excerpt(self, about: str = "") -> str:
        """Return the first line with one of the words `about`, otherwise the first line."""
        lines = [MARKERS.sub("", line) for line in self.text.splitlines() if line.strip()]
        words = about.lower().split()
        fitting = [line for line in lines if any(word in line.lower() for word in words)]
        line = next(iter(fitting or lines), "")
        return line if len(line) <= 120 else line[:119] + "…"
