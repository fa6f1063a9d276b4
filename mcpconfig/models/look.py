"""Looks that people had at services of their own, for as long as they count against another one."""

from django.conf import settings
from django.db import models


class Look(models.Model):
    """One connection that a person asked for by adding, changing or testing a service. It outlives
    the service, or one that is removed and added again would be looked at without end."""

    person = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    at = models.DateTimeField(auto_now_add=True)

    class Meta:
        indexes = [models.Index(fields=["person", "at"])]

    def __str__(self) -> str:
        return f"{self.person_id}, {self.at:%H:%M:%S}"
