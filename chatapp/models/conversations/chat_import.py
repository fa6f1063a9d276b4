"""Imports of chats from a file of another program, and the chats that the file has."""

import uuid
from typing import Self

from django.conf import settings
from django.db import models
from django.http import Http404
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from chatapp.models.people.member import Member

from .conversation import Conversation

NAME_CHARACTERS = 255
ORIGIN_CHARACTERS = 120


class ChatImport(models.Model):
    """One uploaded file. `source` names the program that exported it. `problem` says why the file,
    or the rest of it, could not be read. `progress` counts chats that were
    read or imported, of `total`. `begun_at` is when the file was sent, then when
    the import of its chats was started. A person has at most one that is open."""

    class State(models.TextChoices):
        READING = "reading", _("being read")
        READY = "ready", _("ready to import")
        IMPORTING = "importing", _("being imported")
        DONE = "done", _("imported")
        REFUSED = "refused", _("could not be read")
        UNDONE = "undone", _("undone")

    OPEN = (State.READING, State.READY, State.IMPORTING)
    WORKING = (State.READING, State.IMPORTING)

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    person = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="chat_imports"
    )
    file_name = models.CharField(max_length=NAME_CHARACTERS)
    size = models.PositiveBigIntegerField()
    source = models.CharField(max_length=20, blank=True)
    state = models.CharField(max_length=9, choices=State.choices, default=State.READING)
    problem = models.TextField(blank=True)
    progress = models.PositiveBigIntegerField(default=0)
    total = models.PositiveBigIntegerField(default=0)
    begun_at = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ["-begun_at"]
        constraints = [
            models.UniqueConstraint(
                fields=["person"],
                condition=models.Q(state__in=("reading", "ready", "importing")),
                name="one_open_import_of_a_person",
            )
        ]

    def __str__(self) -> str:
        return f"{self.file_name} ({self.state})"

    @classmethod
    def of(cls, person: Member, import_id: uuid.UUID) -> Self:
        """Return an import of this person, or raise 404."""
        found = cls.objects.filter(person=person, pk=import_id).first()
        if found is None:
            raise Http404("No such import.")
        return found

    @property
    def is_working(self) -> bool:
        return self.state in self.WORKING

    @property
    def percent(self) -> int:
        return min(100, self.progress * 100 // self.total) if self.total else 0


class ImportPiece(models.Model):
    """A piece of the uploaded file, which any worker can read. Deleted when nobody needs it."""

    chat_import = models.ForeignKey(ChatImport, on_delete=models.CASCADE, related_name="pieces")
    number = models.PositiveIntegerField()
    data = models.BinaryField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["chat_import", "number"], name="one_piece_at_a_place")
        ]

    def __str__(self) -> str:
        return f"piece {self.number} of {self.chat_import_id}"


class ListedChat(models.Model):
    """A chat of the file, by its place there. `origin` is the program and its id for the chat, by
    which it is recognised in another file. `losses` are numbers of what is left out (`Loss`), and
    of pictures and files that come along or do not (`name_count`). `problem` says why it cannot be
    imported. `twin` is the chat that an earlier import made of it, and `conversation` the one that
    this import made."""

    chat_import = models.ForeignKey(ChatImport, on_delete=models.CASCADE, related_name="chats")
    number = models.PositiveIntegerField()
    origin = models.CharField(max_length=ORIGIN_CHARACTERS, db_index=True)
    source = models.CharField(max_length=20)
    title = models.CharField(max_length=80, blank=True)
    begun_at = models.DateTimeField(null=True)
    active_at = models.DateTimeField(null=True)
    messages = models.PositiveIntegerField(default=0)
    losses = models.JSONField(default=dict)
    problem = models.CharField(max_length=200, blank=True)
    is_selected = models.BooleanField(default=False)
    twin = models.ForeignKey(Conversation, on_delete=models.SET_NULL, null=True, related_name="+")
    # Its title goes with the chat.
    conversation = models.ForeignKey(
        Conversation, on_delete=models.CASCADE, null=True, related_name="+"
    )

    class Meta:
        ordering = ["number"]
        constraints = [
            models.UniqueConstraint(fields=["chat_import", "number"], name="one_chat_at_a_place")
        ]

    def __str__(self) -> str:
        return self.title
