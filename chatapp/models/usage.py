"""What people use of the models per day, and the allowances of admins."""

from decimal import Decimal

from django.conf import settings
from django.contrib.auth.models import Group
from django.core.validators import MinValueValidator
from django.db import models
from django.db.models import Q
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from .model_provider import check_currency


class UsageOfDay(models.Model):
    """What one person used of one model on one day (UTC). It stays when conversations are deleted.

    `cost` uses the prices at the time of each call; `unpriced_tokens` are those of calls whose
    model had no price.
    """

    person = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        verbose_name=_("member"),
        on_delete=models.CASCADE,
        related_name="usage",
    )
    day = models.DateField(_("day"))
    model = models.CharField(_("model"), max_length=200, db_index=True)
    currency = models.CharField(_("currency"), max_length=3, blank=True)
    calls = models.PositiveIntegerField(_("calls"), default=0)
    input_tokens = models.PositiveBigIntegerField(_("input tokens"), default=0)
    cached_tokens = models.PositiveBigIntegerField(_("of which cached"), default=0)
    output_tokens = models.PositiveBigIntegerField(_("output tokens"), default=0)
    unpriced_tokens = models.PositiveBigIntegerField(_("tokens without a price"), default=0)
    cost = models.DecimalField(_("cost"), max_digits=16, decimal_places=8, default=Decimal(0))

    class Meta:
        verbose_name = _("daily usage")
        verbose_name_plural = _("usage")
        ordering = ["-day", "person", "model"]
        indexes = [models.Index(fields=["-day", "person", "model"], name="usage_by_day")]
        constraints = [
            models.UniqueConstraint(
                fields=["person", "day", "model", "currency"], name="one_usage_of_a_day"
            )
        ]

    def __str__(self) -> str:
        return gettext("%(model)s on %(day)s") % {"model": self.model, "day": self.day}


class Allowances(models.QuerySet["Allowance"]):
    """Allowances by whom they limit."""

    def for_member(self, person_id: int) -> "Allowances":
        """Return the allowances that count for this person."""
        groups = Group.objects.filter(user=person_id)
        nobody = Q(person=None, group=None)
        return self.filter(nobody | Q(person=person_id) | Q(group__in=groups))


class Allowance(models.Model):
    """How much of the models may be used in a calendar month (UTC): by one person, by each
    member of a group or all of them together, or by each member."""

    person = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        verbose_name=_("member"),
        on_delete=models.CASCADE,
        null=True,
        blank=True,
    )
    group = models.ForeignKey(
        Group, verbose_name=_("group"), on_delete=models.CASCADE, null=True, blank=True
    )
    is_shared = models.BooleanField(
        _("shared"),
        default=False,
        help_text=_("The group shares one allowance. If off, each member has a separate one."),
    )
    tokens = models.PositiveBigIntegerField(
        _("tokens"),
        null=True,
        blank=True,
        validators=[MinValueValidator(1)],
        help_text=_("Input and output tokens per month (UTC). If empty, tokens are not limited."),
    )
    cost = models.DecimalField(
        _("cost"),
        max_digits=12,
        decimal_places=2,
        null=True,
        blank=True,
        validators=[MinValueValidator(Decimal("0.01"))],
        help_text=_(
            "Per month (UTC), in the currency below. Only models priced in that currency count. "
            "If empty, costs are not limited."
        ),
    )
    currency = models.CharField(
        _("currency"), max_length=3, default="USD", validators=[check_currency]
    )

    objects = Allowances.as_manager()

    class Meta:
        verbose_name = _("allowance")
        verbose_name_plural = _("allowances")
        constraints = [
            models.CheckConstraint(
                condition=Q(person=None) | Q(group=None), name="allowance_of_one_holder"
            ),
            models.CheckConstraint(
                condition=Q(tokens__isnull=False) | Q(cost__isnull=False),
                name="allowance_of_something",
            ),
        ]

    def __str__(self) -> str:
        if self.group is not None:
            text = (
                gettext("%(group)s, shared")
                if self.is_shared
                else gettext("each member of %(group)s")
            )
            return text % {"group": self.group}
        return str(self.person or gettext("every member"))
