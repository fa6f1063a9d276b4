"""The demo service's notebook: a small shared set of notes."""

import re
from typing import Self

from django.db import models
from django.db.models.functions import Concat, Length
from django.utils import timezone

ITEM = "- "
# What begins a list item, a heading or a quotation: an excerpt stands inside another list.
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
    def called(cls, title: str) -> Self | None:
        """The note of this title: exactly, or else in any case."""
        title = title.strip()
        same = cls.objects.filter(title__iexact=title)
        return same.filter(title=title).first() or same.first()

    @classmethod
    def mentioning(cls, words: str) -> models.QuerySet[Self]:
        """The notes whose title or text has every one of the words."""
        found = cls.objects.all()
        for word in words.split():
            found = found.filter(models.Q(title__icontains=word) | models.Q(text__icontains=word))
        return found

    def append(self, text: str) -> bool:
        """Put a line at the end, as the next item if a list is there. False: there is no room.

        Nothing is lost when others add at the same time: the database joins the text, not this row.
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
        """The first line that has one of the words `about`, or the first line there is."""
        lines = [MARKERS.sub("", line) for line in self.text.splitlines() if line.strip()]
        words = about.lower().split()
        fitting = [line for line in lines if any(word in line.lower() for word in words)]
        line = next(iter(fitting or lines), "")
        return line if len(line) <= 120 else line[:119] + "…"
