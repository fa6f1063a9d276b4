"""Second signatures: who must sign for somebody else's call, and the delegates of approvers."""

from django.conf import settings
from django.contrib.auth.models import Group
from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models

MOST_HOURS = 24 * 365


class SecondSignature(models.Model):
    """What a rule, or the policy for everybody, may demand beside the requester's own approval.

    It cannot be deleted once a call has asked for it: the call would then need one person only.
    """

    name = models.CharField(max_length=120, unique=True, help_text="People read it on the card.")
    approvers = models.ForeignKey(
        Group,
        on_delete=models.PROTECT,
        related_name="second_signatures",
        help_text="Each member may sign, but never for a call of their own.",
    )
    deadline_hours = models.PositiveIntegerField(
        "hours to sign",
        default=24,
        validators=[MinValueValidator(1), MaxValueValidator(MOST_HOURS)],
        help_text="Then the call expires, and nothing is sent.",
    )
    escalation = models.ForeignKey(
        Group,
        on_delete=models.PROTECT,
        null=True,
        blank=True,
        related_name="escalations",
        help_text="Its members may sign, too, once nobody has for a while. Empty: nobody else.",
    )
    escalates_after_hours = models.PositiveIntegerField(
        "hours until then", null=True, blank=True, help_text="Less than the hours to sign."
    )

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name

    def clean(self) -> None:
        hours, has_others = self.escalates_after_hours, self.escalation_id is not None
        if has_others != (hours is not None):
            raise ValidationError(
                {"escalates_after_hours": "Say both who may sign, too, and after how many hours."}
            )
        if hours is not None and self.deadline_hours and hours >= self.deadline_hours:
            raise ValidationError(
                {"escalates_after_hours": "By then it has expired. Say fewer hours."}
            )


class StandIn(models.Model):
    """A delegate, who may sign wherever an approver may, between two days, both included."""

    approver = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="stand_ins"
    )
    stand_in = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="stands_in_for"
    )
    begins_on = models.DateField("from")
    ends_on = models.DateField("until", help_text="The last day.")

    class Meta:
        verbose_name = "stand-in"
        ordering = ["begins_on", "pk"]

    def __str__(self) -> str:
        return f"{self.stand_in} for {self.approver}"

    def clean(self) -> None:
        if self.begins_on and self.ends_on and self.ends_on < self.begins_on:
            raise ValidationError({"ends_on": "The last day is before the first one."})
        if self.approver_id is not None and self.approver_id == self.stand_in_id:
            raise ValidationError({"stand_in": "Nobody stands in for themselves."})
