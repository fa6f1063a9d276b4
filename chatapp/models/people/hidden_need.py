"""Items of the admin overview that one admin has hidden."""

from django.conf import settings
from django.db import models
from django.utils.translation import gettext_lazy as _


class HiddenNeed(models.Model):
    """One item that this admin has dismissed or snoozed. Others still see it.

    A dismissed item comes back when it no longer says the same (`facts` is the hash of that), or
    when it was gone in between. A snoozed one comes back at `until`, or before that when it gets
    more urgent than `rank`.
    """

    person = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    name = models.CharField(max_length=200)
    facts = models.CharField(max_length=64)
    rank = models.SmallIntegerField()
    until = models.DateTimeField(null=True)

    class Meta:
        verbose_name = _("hidden item of the overview")
        verbose_name_plural = _("hidden items of the overview")
        constraints = [
            models.UniqueConstraint(fields=["person", "name"], name="one_hidden_need_of_a_name")
        ]

    def __str__(self) -> str:
        return self.name
