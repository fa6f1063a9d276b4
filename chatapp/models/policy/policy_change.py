"""Policy changes: a draft with its edits, which is applied, rejected or undone as a whole."""

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _


class PolicyChange(models.Model):
    """`checks` are the results of the policy tests and of the simulation. They belong to the
    version of the policy and of the edits in `checked_for` (`policy_changes.proposal`)."""

    class State(models.TextChoices):
        DRAFT = "draft", _("draft")
        WAITING = "waiting", _("waiting for approval")
        APPLIED = "applied", _("applied")
        REJECTED = "rejected", _("rejected")
        UNDONE = "undone", _("undone")
        DISCARDED = "discarded", _("discarded")

    title = models.CharField(
        _("title"), max_length=120, help_text=_("Such as: Let Support mail our own domain.")
    )
    reason = models.TextField(
        _("reason"),
        max_length=1_000,
        blank=True,
        help_text=_("Shown to the admin who approves, and kept with the change."),
    )
    state = models.CharField(
        _("state"), max_length=9, choices=State.choices, default=State.DRAFT, db_index=True
    )
    author = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        verbose_name=_("author"),
        on_delete=models.SET_NULL,
        null=True,
        related_name="+",
    )
    created_at = models.DateTimeField(_("created"), auto_now_add=True)
    submitted_at = models.DateTimeField(null=True)
    decided_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+"
    )
    decided_at = models.DateTimeField(null=True)
    note = models.CharField(max_length=500, blank=True)
    applied_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+"
    )
    applied_at = models.DateTimeField(_("applied"), null=True)
    undoes = models.ForeignKey(
        "self", on_delete=models.SET_NULL, null=True, related_name="undone_by"
    )
    checks = models.JSONField(default=dict)
    checked_for = models.CharField(max_length=64, blank=True)
    checked_at = models.DateTimeField(null=True)

    class Meta:
        verbose_name = _("policy change")
        verbose_name_plural = _("policy changes")
        ordering = ["-pk"]

    def __str__(self) -> str:
        return self.title


class PolicyEdit(models.Model):
    """One row of the policy in a change: its values before and after. Without values before, the
    row is added; without values after, it is deleted. `row_id` of an added row is set when the
    change is applied."""

    class Kind(models.TextChoices):
        RULE = "rule", _("rule")
        LIMIT = "limit", _("tool limit")
        SECOND = "second", _("second-approval requirement")
        HOUSE = "house", _("policy for everybody")

    change = models.ForeignKey(PolicyChange, on_delete=models.CASCADE, related_name="edits")
    kind = models.CharField(max_length=6, choices=Kind.choices)
    row_id = models.PositiveBigIntegerField(null=True)
    before = models.JSONField(null=True)
    after = models.JSONField(null=True)

    class Meta:
        ordering = ["pk"]
        constraints = [
            models.UniqueConstraint(
                fields=["change", "kind", "row_id"], name="one_edit_of_a_row_in_a_change"
            ),
            models.CheckConstraint(
                condition=Q(before__isnull=False) | Q(after__isnull=False),
                name="edit_has_values",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.row_id or 'new'}"
