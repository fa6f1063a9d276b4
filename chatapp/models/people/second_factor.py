"""The use of a member's codes: how many were tried, and the last one that was accepted."""

from datetime import timedelta

from django.conf import settings
from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Now


class CodeUse(models.Model):
    """One row for each member who typed a code. It is changed by conditional updates only, so that
    parallel requests of several processes cannot try more codes or use one twice."""

    TRIES = 5
    WINDOW = timedelta(minutes=5)

    member = models.OneToOneField(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, primary_key=True, related_name="+"
    )
    tries = models.PositiveIntegerField(default=0)
    window_ends_at = models.DateTimeField(default=None, null=True)
    # The time step of the last code of the app that was accepted (RFC 6238, section 5.2).
    last_step = models.BigIntegerField(default=0)

    def __str__(self) -> str:
        return f"codes of {self.member_id}"

    @classmethod
    def claim_try(cls, member_id: int) -> bool:
        """Count a try before the code is compared. Return whether one was left."""
        cls.objects.get_or_create(member_id=member_id)
        mine = cls.objects.filter(member_id=member_id)
        is_over = Q(window_ends_at=None) | Q(window_ends_at__lte=Now())
        if mine.filter(is_over).update(tries=1, window_ends_at=Now() + cls.WINDOW):
            return True
        return bool(mine.filter(tries__lt=cls.TRIES).update(tries=F("tries") + 1))

    @classmethod
    def forget_tries(cls, member_id: int) -> None:
        cls.objects.filter(member_id=member_id).update(tries=0, window_ends_at=None)

    @classmethod
    def claim_step(cls, member_id: int, step: int) -> bool:
        """Use the code of a time step. Return whether it is later than the last one used."""
        mine = cls.objects.filter(member_id=member_id, last_step__lt=step)
        return bool(mine.update(last_step=step))
