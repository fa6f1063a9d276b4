"""Attachments of a person's message: a resource of a service as it was when the person read it,
or a file of the person's own."""

import uuid
from typing import Self

from django.conf import settings
from django.db import models
from django.http import Http404
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from chatapp.files.kinds import LABELS, is_read_as_text
from chatapp.models.people.member import Member
from mcpconfig.models import Service

from .conversation import Part


class Attachment(models.Model):
    """A draft of `owner` until it is sent with a message (`part`).

    For a resource, `contents` are the protocol's resource contents: objects with `uri`, `mimeType`,
    and either `text` or `blob` (base64). `hash` is the SHA-256 of their canonical JSON. The
    service's name is stored as well, because the service may be removed. `tainted_by` is that name
    if the service was open to strangers when it was read.

    A file of the person's own has no service, no service name, no URI and no contents: it has a
    `file`, and `hash` is the SHA-256 of its bytes.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="attachments"
    )
    part = models.OneToOneField(
        Part, on_delete=models.CASCADE, null=True, related_name="attachment"
    )
    service = models.ForeignKey(
        Service, on_delete=models.SET_NULL, null=True, related_name="attachments"
    )
    service_name = models.CharField(max_length=100)
    uri = models.TextField()
    name = models.CharField(max_length=255)
    mime_type = models.CharField(max_length=255, blank=True)
    size = models.PositiveIntegerField(help_text=_("Size in bytes."))
    hash = models.CharField(max_length=64)
    was_cut = models.BooleanField(default=False)
    contents = models.JSONField()
    tainted_by = models.CharField(max_length=100, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["created_at"]
        indexes = [models.Index(fields=["owner", "created_at"])]

    def __str__(self) -> str:
        return self.name or self.uri

    @property
    def is_own_file(self) -> bool:
        return not self.service_name

    @property
    def is_picture(self) -> bool:
        return self.is_own_file and self.mime_type.startswith("image/")

    @property
    def is_read_as_text(self) -> bool:
        """Whether models receive its text and not its bytes."""
        return self.is_own_file and is_read_as_text(self.mime_type)

    @property
    def is_pasted(self) -> bool:
        """Whether it was a long text in the message box, which still fits into a message."""
        is_named = self.name == gettext("Pasted text.txt")
        return self.is_own_file and is_named and self.size <= settings.MESSAGE_MAX_CHARACTERS

    @property
    def origin(self) -> str:
        """Where it is from, or its type, as a short label."""
        return self.service_name or LABELS.get(self.mime_type, gettext("Text"))

    @classmethod
    def of(cls, person: Member, attachment_id: uuid.UUID) -> Self:
        """Return an attachment of this person, or raise 404, also if its conversation is
        deleted."""
        mine = cls.objects.filter(owner=person, part__message__conversation__deleted_at=None)
        found = mine.filter(pk=attachment_id).first()
        if found is None:
            raise Http404("No such attachment.")
        return found


class StoredObject(models.Model):
    """Bytes outside the database: an object of the storage with this alias in STORAGES.

    The row is made before the object and deleted after it, so that no object is forgotten. Copies
    of a file share one object. It is deleted when no file refers to it any more; `is_deleted` says
    that it may be gone already.
    """

    name = models.CharField(max_length=100, unique=True)
    storage = models.CharField(max_length=20)
    is_deleted = models.BooleanField(default=False)
    created_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return f"{self.storage}: {self.name}"


class File(models.Model):
    """The content of a person's file, in a row of its own so that queries do not load it by
    accident. The bytes are in `data`, or in the object `stored`.

    `words` is the beginning of a text file or the text of a PDF or an office file, `characters` the
    length of the whole text as far as it is known, `pages` the number of pages of a PDF, sheets of
    a workbook or slides of a presentation, `rows` the rows of a workbook that were read.
    """

    attachment = models.OneToOneField(
        Attachment, on_delete=models.CASCADE, primary_key=True, related_name="file"
    )
    data = models.BinaryField(blank=True)
    stored = models.ForeignKey(
        StoredObject, on_delete=models.PROTECT, null=True, related_name="files"
    )
    words = models.TextField(blank=True)
    characters = models.PositiveIntegerField(default=0)
    pages = models.PositiveIntegerField(default=0)
    rows = models.PositiveIntegerField(default=0, db_default=0)

    def __str__(self) -> str:
        return str(self.attachment)
