"""Drafts of services: what an admin typed on the page *Add a service*, and what the check of its
address found. A draft is never connected to by a chat."""

from django.db import models
from django.utils.translation import gettext_lazy as _

from .draft import Draft


class ServiceDraft(Draft):
    """One service that is being added. Its secrets are those of the form and of the
    registration."""

    CHANGING = ("typed", "secrets", "secrets_origin", "report", "checked_url")

    template = models.CharField(max_length=20, blank=True)
    # The server to which the secrets may be sent. They are deleted when another one is typed.
    secrets_origin = models.CharField(max_length=2000, blank=True)
    checked_url = models.CharField(max_length=2000, blank=True)

    class Meta(Draft.Meta):
        verbose_name = _("service draft")
        verbose_name_plural = _("service drafts")

    def __str__(self) -> str:
        return str(self.typed.get("url") or self.pk)
