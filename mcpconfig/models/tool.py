"""Tools: what services said about them, kept by content hash, and what admins decided."""

import secrets
from collections.abc import Collection, Iterable
from typing import Any, Self

from django.db import models
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from mcpconfig.models.service import MAX_GUIDANCE_CHARACTERS, Service

MARK_BITS = 40


def make_mark() -> int:
    """The sum of a million of them still is an integer to every database."""
    return secrets.randbits(MARK_BITS)


class ToolDefinition(models.Model):
    """What a service said about a tool. The same content is the same row, whenever it is said."""

    service = models.ForeignKey(
        Service, verbose_name=_("service"), on_delete=models.CASCADE, related_name="definitions"
    )
    hash = models.CharField(_("hash"), max_length=64)
    name = models.CharField(_("name"), max_length=255)
    title = models.CharField(_("title"), max_length=255, blank=True)
    description = models.TextField(_("description"), blank=True)
    input_schema = models.JSONField(_("input schema"), default=dict)
    output_schema = models.JSONField(_("output schema"), null=True)
    annotations = models.JSONField(_("annotations"), null=True)
    meta = models.JSONField(_("meta"), null=True)
    # A level that a second opinion found, with its model and reasons. It may raise the risk.
    opinion = models.JSONField(_("second opinion"), null=True, editable=False)
    is_current = models.BooleanField(_("current"), default=True)
    first_seen_at = models.DateTimeField(_("first seen at"), auto_now_add=True)

    class Meta:
        verbose_name = _("tool definition")
        verbose_name_plural = _("tool definitions")
        ordering = ["name"]
        # Counted by service in every turn, without reading what the tools say.
        indexes = [models.Index(fields=["service", "is_current"])]
        constraints = [
            models.UniqueConstraint(fields=["service", "hash"], name="one_definition_of_a_hash")
        ]

    def __str__(self) -> str:
        """For headings of the admin: what could turn or hide their words is drawn as its code."""
        called = self.title or self.name
        return "".join(
            letter if letter.isprintable() else f"⟨U+{ord(letter):04X}⟩" for letter in called
        )


class ChangeMark(models.BigIntegerField):  # type: ignore[type-arg]  # Django's takes none
    """Another number after each save: the sum over some rows tells whether one of them changed."""

    auto_now = True  # nobody decides it, so the log leaves it out

    def pre_save(self, model_instance: models.Model, add: bool) -> int:
        mark = make_mark()
        setattr(model_instance, self.attname, mark)
        return mark


class ToolSettings(models.QuerySet["ToolSetting"]):
    """Settings, whose marks change by an update as well."""

    def update(self, **values: Any) -> int:
        return super().update(mark=make_mark(), **values)


class ToolSetting(models.Model):
    """What admins decided about a tool of a service, whatever its definition."""

    class Level(models.TextChoices):
        LOW = "low", _("low")
        MEDIUM = "medium", _("medium")
        HIGH = "high", _("high")

    service = models.ForeignKey(
        Service, verbose_name=_("service"), on_delete=models.CASCADE, related_name="settings"
    )
    name = models.CharField(_("name"), max_length=255)
    is_enabled = models.BooleanField(_("enabled"), default=True)
    level = models.CharField(_("risk"), max_length=6, choices=Level.choices, blank=True)
    confirmed_hash = models.CharField(_("confirmed hash"), max_length=64, blank=True)
    is_safe_to_repeat = models.BooleanField(
        _("safe to repeat"),
        default=False,
        help_text=_(
            "Running it twice is harmless. After an unknown outcome it is retried automatically."
        ),
    )
    wants_review = models.BooleanField(
        _("review results"),
        default=False,
        help_text=_("The member reviews each result before the assistant sees it."),
    )
    guidance = models.TextField(_("instructions"), max_length=MAX_GUIDANCE_CHARACTERS, blank=True)
    mark = ChangeMark(_("change mark"), editable=False, default=0)
    # When an admin last switched it on again.
    switched_on_at = models.DateTimeField(_("switched on at"), editable=False, null=True)

    # Whether it was on when it was read.
    _was_enabled = True

    objects = ToolSettings.as_manager()

    class Meta:
        verbose_name = _("tool setting")
        verbose_name_plural = _("tool settings")
        indexes = [models.Index(fields=["service", "mark"])]
        constraints = [
            models.UniqueConstraint(fields=["service", "name"], name="one_setting_of_a_tool")
        ]

    def __str__(self) -> str:
        return self.name

    def save(self, *, update_fields: Iterable[str] | None = None, **options: Any) -> None:
        """What is saved in part has changed as well."""
        fields = None if update_fields is None else {*update_fields, "mark"}
        if self.is_enabled and not self._was_enabled and (fields is None or "is_enabled" in fields):
            self.switched_on_at = timezone.now()
            fields = fields and {*fields, "switched_on_at"}
        super().save(update_fields=fields, **options)
        if fields is None or "is_enabled" in fields:
            self._was_enabled = self.is_enabled

    @classmethod
    def from_db(
        cls,
        db: str | None,
        field_names: Collection[str],
        values: Collection[Any],
        **options: Any,
    ) -> Self:
        loaded = super().from_db(db, field_names, values, **options)
        loaded._was_enabled = loaded.__dict__.get("is_enabled", True)
        return loaded
