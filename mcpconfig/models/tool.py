"""Tools: what services said about them, kept by content hash, and what admins decided."""

from django.db import models

from .service import Service


class ToolDefinition(models.Model):
    """What a service said about a tool. The same content is the same row, whenever it is said."""

    service = models.ForeignKey(Service, on_delete=models.CASCADE, related_name="definitions")
    hash = models.CharField(max_length=64)
    name = models.CharField(max_length=255)
    title = models.CharField(max_length=255, blank=True)
    description = models.TextField(blank=True)
    input_schema = models.JSONField(default=dict)
    output_schema = models.JSONField(null=True)
    annotations = models.JSONField(null=True)
    meta = models.JSONField(null=True)
    is_current = models.BooleanField(default=True)
    first_seen_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["name"]
        constraints = [
            models.UniqueConstraint(fields=["service", "hash"], name="one_definition_of_a_hash")
        ]

    def __str__(self) -> str:
        return self.title or self.name


class ToolSetting(models.Model):
    """What admins decided about a tool of a service, whatever its definition."""

    class Level(models.TextChoices):
        LOW = "low", "low"
        MEDIUM = "medium", "medium"
        HIGH = "high", "high"

    service = models.ForeignKey(Service, on_delete=models.CASCADE, related_name="settings")
    name = models.CharField(max_length=255)
    is_enabled = models.BooleanField("enabled", default=True)
    level = models.CharField(max_length=6, choices=Level.choices, blank=True)
    confirmed_hash = models.CharField(max_length=64, blank=True)
    is_safe_to_repeat = models.BooleanField(
        "safe to repeat",
        default=False,
        help_text="Running it twice does no harm, so an unknown outcome is tried again by itself.",
    )

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["service", "name"], name="one_setting_of_a_tool")
        ]

    def __str__(self) -> str:
        return self.name
