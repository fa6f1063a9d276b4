"""Search by meaning: the model for embeddings, and the vectors of passages."""

from typing import Any, Self

from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from chatapp.models.model_provider import check_currency

from .project_file import ProjectPassage

LEAST_DIMENSIONS, MOST_DIMENSIONS = 64, 4_096


class EmbeddingSettings(models.Model):
    """The model for embeddings, for all projects: one row. Without a model, files are searched by
    words only. `version` counts the models; vectors of another version are not compared."""

    id = models.PositiveSmallIntegerField(primary_key=True, default=1, editable=False)
    model = models.CharField(
        _("model for embeddings"),
        max_length=200,
        blank=True,
        help_text=_(
            "PROVIDER:MODEL, such as openai:text-embedding-3-small. The text of all project files, "
            "and each search in them, is sent to it. If empty, files are searched by words only."
        ),
    )
    dimensions = models.PositiveSmallIntegerField(
        _("dimensions"),
        null=True,
        blank=True,
        validators=[MinValueValidator(LEAST_DIMENSIONS), MaxValueValidator(MOST_DIMENSIONS)],
        help_text=_(
            "Numbers in a vector, for models that can shorten it. Fewer need less space and find "
            "a little less. If empty, the model’s own."
        ),
    )
    price = models.DecimalField(
        _("price"),
        max_digits=12,
        decimal_places=6,
        null=True,
        blank=True,
        validators=[MinValueValidator(0)],
        help_text=_("Per million tokens. Without it, usage counts tokens without a cost."),
    )
    currency = models.CharField(
        _("currency"), max_length=3, default="USD", validators=[check_currency]
    )
    version = models.PositiveIntegerField(default=1, editable=False)

    class Meta:
        verbose_name = _("search by meaning")
        verbose_name_plural = _("search by meaning")

    def __str__(self) -> str:
        return gettext("Search by meaning")

    def save(self, *args: Any, **kwargs: Any) -> None:
        """Begin a version with each change of what makes vectors comparable."""
        self.id = 1
        stored = EmbeddingSettings.current()
        is_same = (stored.model, stored.dimensions) == (self.model, self.dimensions)
        self.version = stored.version if is_same else stored.version + 1
        super().save(*args, **kwargs)

    @classmethod
    def current(cls) -> Self:
        """Return the row, or one without a model if no admin has saved it."""
        return cls.objects.filter(pk=1).first() or cls()


class EmbeddingProgress(models.Model):
    """What the task that makes vectors stores of itself: one row. `problem` is the last failure, in
    English, until a request succeeds; `raw` is the provider's text."""

    id = models.PositiveSmallIntegerField(primary_key=True, default=1, editable=False)
    claimed_until = models.DateTimeField(null=True)
    problem = models.TextField(blank=True)
    raw = models.TextField(blank=True)
    failures = models.PositiveIntegerField(default=0)
    failed_at = models.DateTimeField(null=True)
    retry_at = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return "progress of embeddings"


class PassageVector(models.Model):
    """The vector of a passage by one version of the settings. `numbers` are 32-bit floats, little
    endian, of length 1; `signs` has a bit for each, set if it is positive. Both are empty if the
    provider refused the text."""

    passage = models.OneToOneField(
        ProjectPassage, on_delete=models.CASCADE, primary_key=True, related_name="vector"
    )
    version = models.PositiveIntegerField()
    signs = models.BinaryField()
    numbers = models.BinaryField()

    def __str__(self) -> str:
        return f"vector of passage {self.passage_id}"
