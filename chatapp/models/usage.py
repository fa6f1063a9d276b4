"""What people use of the models per day, and the allowances of admins."""

from decimal import Decimal

from django.conf import settings
from django.contrib.auth.models import Group
from django.core.validators import MinValueValidator
from django.db import models
from django.db.models import Q

from .model_provider import check_currency


class UsageOfDay(models.Model):
    """What one person used of one model on one day (UTC). It stays when conversations are deleted.

    `cost` uses the prices at the time of each call; `unpriced_tokens` are those of calls whose
    model had no price.
    """

    person = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="usage"
    )
    day = models.DateField()
    model = models.CharField(max_length=200)
    currency = models.CharField(max_length=3, blank=True)
    calls = models.PositiveIntegerField(default=0)
    input_tokens = models.PositiveBigIntegerField("tokens read", default=0)
    cached_tokens = models.PositiveBigIntegerField("of these cached", default=0)
    output_tokens = models.PositiveBigIntegerField("tokens written", default=0)
    unpriced_tokens = models.PositiveBigIntegerField("tokens without a price", default=0)
    cost = models.DecimalField(max_digits=16, decimal_places=8, default=Decimal(0))

    class Meta:
        verbose_name = "usage of a day"
        verbose_name_plural = "usage"
        ordering = ["-day", "person", "model"]
        constraints = [
            models.UniqueConstraint(
                fields=["person", "day", "model", "currency"], name="one_usage_of_a_day"
            )
        ]

    def __str__(self) -> str:
        return f"{self.model} on {self.day}"


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
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, null=True, blank=True
    )
    group = models.ForeignKey(Group, on_delete=models.CASCADE, null=True, blank=True)
    is_shared = models.BooleanField(
        "together",
        default=False,
        help_text="All members of the group use it up together, instead of each their own.",
    )
    tokens = models.PositiveBigIntegerField(
        null=True,
        blank=True,
        validators=[MinValueValidator(1)],
        help_text="Read and written, in a month.",
    )
    cost = models.DecimalField(
        max_digits=12,
        decimal_places=2,
        null=True,
        blank=True,
        validators=[MinValueValidator(Decimal("0.01"))],
        help_text="In a month. Counts only models with a price in this currency.",
    )
    currency = models.CharField(max_length=3, default="USD", validators=[check_currency])

    objects = Allowances.as_manager()

    class Meta:
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
            return f"{'together' if self.is_shared else 'each'} of {self.group}"
        return str(self.person or "everybody")
