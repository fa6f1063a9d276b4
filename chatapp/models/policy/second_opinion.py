"""Second opinions: what a model said about the risk of a tool's definition."""

from django.conf import settings
from django.db import models
from django.utils.translation import gettext_lazy as _

from mcpconfig.models import ToolDefinition


class SecondOpinion(models.Model):
    """The last opinion that was asked for about one definition. While it counts, the definition has
    a copy of its level and reasons. A new definition has none.

    `asked_by` is nobody if it was asked for automatically. `error` is a kind of failure.
    """

    class State(models.TextChoices):
        ASKED = "asked", _("asked")
        GIVEN = "given", _("given")
        FAILED = "failed", _("failed")
        SET_ASIDE = "set_aside", _("set aside")

    definition = models.OneToOneField(
        ToolDefinition, on_delete=models.CASCADE, related_name="second_opinion"
    )
    state = models.CharField(max_length=9, choices=State.choices)
    model = models.CharField(max_length=200)
    level = models.CharField(max_length=6, blank=True)
    reasons = models.JSONField(default=list)
    error = models.CharField(max_length=20, blank=True)
    error_text = models.CharField(max_length=500, blank=True)
    asked_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+"
    )
    asked_at = models.DateTimeField()
    answered_at = models.DateTimeField(null=True)

    class Meta:
        verbose_name = _("second opinion")
        verbose_name_plural = _("second opinions")
        indexes = [models.Index(fields=["asked_at"])]

    def __str__(self) -> str:
        return f"{self.definition_id} ({self.state})"
