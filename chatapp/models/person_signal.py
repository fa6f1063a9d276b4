"""That something changed for a person, wherever they have a page open."""

from django.conf import settings
from django.db import models


class PersonSignal(models.Model):
    """One change. Rows are only added and, once every process has looked, taken away: a number in
    one row for each person would be locked by two transactions in two orders."""

    person = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    created_at = models.DateTimeField(auto_now_add=True, db_index=True)

    def __str__(self) -> str:
        return f"signal {self.pk} to {self.person_id}"
