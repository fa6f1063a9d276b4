"""Files of projects: their bytes, and their text in passages that are searched."""

import uuid

from django.conf import settings
from django.db import models
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from chatapp.files.kinds import LABELS
from chatapp.models.conversations.attachment import StoredObject

from .project import Project

FILES_PER_PROJECT = 200
PROJECT_MAX_BYTES = 200 * 2**20
# The files of all projects of one owner with their text, also of projects that can be restored.
OWNER_MAX_BYTES = 2**30
# Of the text of one file; the rest is not searched.
MAX_FILE_CHARACTERS = 1_000_000


class ProjectFile(models.Model):
    """A file of a project. Its text is searched once it is ready. `problem` says why it is not, in
    English; `characters` also counts text beyond the limit. `pages` is 0 if it has none. All of its
    passages have vectors of version `vectors_version`; 0 while some have none."""

    class State(models.TextChoices):
        READING = "reading", _("Reading…")
        READY = "ready", _("Searchable")
        FAILED = "failed", _("Not searchable")

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="files")
    added_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+"
    )
    name = models.CharField(max_length=255)
    media_type = models.CharField(max_length=200, blank=True)
    size = models.PositiveBigIntegerField()
    state = models.CharField(max_length=7, choices=State.choices, default=State.READING)
    problem = models.TextField(blank=True)
    pages = models.PositiveIntegerField(default=0)
    characters = models.PositiveIntegerField(default=0)
    vectors_version = models.PositiveIntegerField(default=0, db_default=0)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        verbose_name = _("project file")
        verbose_name_plural = _("project files")
        ordering = ["-created_at", "pk"]

    def __str__(self) -> str:
        return self.name

    @property
    def kind(self) -> str:
        return LABELS.get(self.media_type, "")

    @property
    def left_out_characters(self) -> int:
        return max(0, self.characters - MAX_FILE_CHARACTERS)


class ProjectFileData(models.Model):
    """The bytes of a file, in `data` or in the object `stored`. It is a row of its own, so that
    lists do not read them."""

    file = models.OneToOneField(
        ProjectFile, on_delete=models.CASCADE, primary_key=True, related_name="content"
    )
    data = models.BinaryField(blank=True)
    stored = models.ForeignKey(
        StoredObject, on_delete=models.PROTECT, null=True, related_name="project_files"
    )

    def __str__(self) -> str:
        return str(self.file_id)


class ProjectPassage(models.Model):
    """A piece of the text of a file. `number` counts from 1; `place` is the page, row, slide,
    sheet or heading at which it begins."""

    class PlaceKind(models.TextChoices):
        NONE = "", ""
        PAGE = "page", _("page")
        ROW = "row", _("row")
        HEADING = "heading", _("heading")
        SLIDE = "slide", _("slide")
        SHEET = "sheet", _("sheet")

    file = models.ForeignKey(ProjectFile, on_delete=models.CASCADE, related_name="passages")
    number = models.PositiveIntegerField()
    place_kind = models.CharField(max_length=7, choices=PlaceKind.choices, blank=True)
    place = models.CharField(max_length=200, blank=True)
    text = models.TextField()

    class Meta:
        ordering = ["file", "number"]
        constraints = [
            models.UniqueConstraint(fields=["file", "number"], name="one_passage_of_a_number")
        ]

    def __str__(self) -> str:
        return f"passage {self.number} of {self.file_id}"

    @property
    def anchor(self) -> str:
        return f"c{self.number}"

    def describe_place(self) -> str:
        """Return the place in the active language."""
        match self.place_kind:
            case self.PlaceKind.PAGE:
                return gettext("Page %(number)s") % {"number": self.place}
            case self.PlaceKind.ROW:
                return gettext("Row %(number)s") % {"number": self.place}
            case self.PlaceKind.SLIDE:
                return gettext("Slide %(number)s") % {"number": self.place}
            case self.PlaceKind.SHEET:
                return gettext("Sheet %(name)s") % {"name": self.place}
        return self.place
