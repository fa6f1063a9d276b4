"""Second signatures: who must sign for somebody else's call, and the delegates of approvers."""

from django.conf import settings
from django.contrib.auth.models import Group
from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

MOST_HOURS = 24 * 365


class SecondSignature(models.Model):
    """What a rule, or the policy for everybody, may demand beside the requester's own approval.

    It cannot be deleted once a call has asked for it: the call would then need one person only.
    """

    name = models.CharField(
        _("name"), max_length=120, unique=True, help_text=_("Shown on the approval card.")
    )
    approvers = models.ForeignKey(
        Group,
        verbose_name=_("approver group"),
        on_delete=models.PROTECT,
        related_name="second_signatures",
        help_text=_(
            "Members of this group may give this second approval, except for their own calls."
        ),
    )
    deadline_hours = models.PositiveIntegerField(
        _("hours to approve"),
        default=24,
        validators=[MinValueValidator(1), MaxValueValidator(MOST_HOURS)],
        help_text=_(
            "Counted from the first approval. When the time is up, the call expires and nothing "
            "is sent."
        ),
    )
    escalation = models.ForeignKey(
        Group,
        verbose_name=_("escalation group"),
        on_delete=models.PROTECT,
        null=True,
        blank=True,
        related_name="escalations",
        help_text=_(
            "Its members may also approve after the hours below. If empty, only the approvers and "
            "their delegates can approve."
        ),
    )
    escalates_after_hours = models.PositiveIntegerField(
        _("hours until escalation"),
        null=True,
        blank=True,
        help_text=_("Counted from the first approval. Must be less than the hours to approve."),
    )

    class Meta:
        verbose_name = _("second-approval requirement")
        verbose_name_plural = _("second-approval requirements")
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name

    def clean(self) -> None:
        hours, has_others = self.escalates_after_hours, self.escalation_id is not None
        if has_others != (hours is not None):
            raise ValidationError(
                {"escalates_after_hours": _("Enter both the escalation group and the hours.")}
            )
        if hours is not None and self.deadline_hours and hours >= self.deadline_hours:
            raise ValidationError(
                {"escalates_after_hours": _("The call has expired by then. Enter fewer hours.")}
            )


class StandIn(models.Model):
    """A delegate, who may sign wherever an approver may, between two days, both included."""

    approver = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        verbose_name=_("approver"),
        on_delete=models.CASCADE,
        related_name="stand_ins",
    )
    stand_in = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        verbose_name=_("delegate"),
        on_delete=models.CASCADE,
        related_name="stands_in_for",
    )
    begins_on = models.DateField(_("from"))
    ends_on = models.DateField(
        _("until"), help_text=_("The delegate may approve through the end of this day.")
    )

    ENDS_TOO_EARLY = _("The last day is before the first day.")
    OWN_DELEGATE = _("An approver cannot be their own delegate. Choose someone else.")

    class Meta:
        verbose_name = _("delegate")
        verbose_name_plural = _("delegates")
        ordering = ["begins_on", "pk"]

    def __str__(self) -> str:
        return gettext("%(delegate)s for %(approver)s") % {
            "delegate": self.stand_in,
            "approver": self.approver,
        }

    def clean(self) -> None:
        if self.begins_on and self.ends_on and self.ends_on < self.begins_on:
            raise ValidationError({"ends_on": self.ENDS_TOO_EARLY})
        if self.approver_id is not None and self.approver_id == self.stand_in_id:
            raise ValidationError({"stand_in": self.OWN_DELEGATE})
