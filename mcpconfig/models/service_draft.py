"""Drafts of services: what an admin typed on the page *Add a service*, and what the check of its
address found. A draft is never connected to by a chat."""

import uuid
from datetime import timedelta

from django.conf import settings
from django.db import models
from django.utils.translation import gettext_lazy as _

from .sealed_field import SealedField


class ServiceDraft(models.Model):
    """One service that is being added, of one admin. It is deleted when the service is saved."""

    LIFETIME = timedelta(days=1)

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    person = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    template = models.CharField(max_length=20, blank=True)
    # The fields of the form without secrets, as they were typed.
    typed = models.JSONField(default=dict)
    # The secrets of the form and of the registration, as one sealed JSON object.
    secrets = SealedField(default=b"")
    # The server to which the secrets may be sent. They are deleted when another one is typed.
    secrets_origin = models.CharField(max_length=2000, blank=True)
    report = models.JSONField(null=True)
    checked_url = models.CharField(max_length=2000, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        verbose_name = _("service draft")
        verbose_name_plural = _("service drafts")
        indexes = [models.Index(fields=["created_at"])]

    def __str__(self) -> str:
        return str(self.typed.get("url") or self.pk)
