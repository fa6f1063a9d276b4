"""Invitations: links with which people who have no account make one."""

import hashlib
import secrets
from datetime import timedelta
from typing import Any, Self

from django.conf import settings
from django.contrib.auth.models import Group
from django.core.signing import BadSignature, Signer
from django.db import models
from django.utils import timezone
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

_SIGNER = Signer(salt="chatapp.invitation", sep=".")


class Invitations(models.QuerySet["Invitation"]):
    def open(self) -> Self:
        """Return those that can be accepted now. Those of a deactivated admin cannot."""
        return self.filter(
            accepted_at=None,
            revoked_at=None,
            expires_at__gt=timezone.now(),
            invited_by__is_active=True,
        )


class Invitation(models.Model):
    """A link for one new member. Only the hash of its token is stored. `groups` are those that the
    member joins."""

    LIFETIME = timedelta(days=7)

    email = models.EmailField(
        _("email address"),
        blank=True,
        help_text=_("Tells invitations apart. If this server sends mail, the link is sent here."),
    )
    groups = models.ManyToManyField(
        Group, verbose_name=_("groups"), blank=True, help_text=_("The member joins these groups.")
    )
    token_hash = models.CharField(max_length=64, unique=True, editable=False)
    invited_by = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        verbose_name=_("invited by"),
        on_delete=models.CASCADE,
        related_name="+",
        editable=False,
    )
    created_at = models.DateTimeField(_("created at"), auto_now_add=True)
    expires_at = models.DateTimeField(_("expires at"), editable=False)
    accepted_at = models.DateTimeField(_("accepted at"), null=True, editable=False)
    accepted_by = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        verbose_name=_("accepted by"),
        on_delete=models.SET_NULL,
        null=True,
        related_name="+",
        editable=False,
    )
    revoked_at = models.DateTimeField(_("revoked at"), null=True, editable=False)

    objects = Invitations.as_manager()

    class Meta:
        verbose_name = _("invitation")
        verbose_name_plural = _("invitations")
        ordering = ["-created_at", "-pk"]

    def __str__(self) -> str:
        return self.email or gettext("Invitation %(number)s") % {"number": self.pk}

    @property
    def is_open(self) -> bool:
        is_ended = self.accepted_at is not None or self.revoked_at is not None
        return not is_ended and self.expires_at > timezone.now() and self.invited_by.is_active

    def set_token(self) -> str:
        """Choose the token and the last moment of a new invitation, and return the token."""
        token = _SIGNER.sign(secrets.token_urlsafe(32))
        self.token_hash = self.hash_of(token)
        self.expires_at = timezone.now() + self.LIFETIME
        return token

    @classmethod
    def find_open(cls, token: str) -> "Invitation | None":
        """Return the open invitation with this token."""
        try:
            _SIGNER.unsign(token)
        except BadSignature:
            return None
        found: Any = cls.objects.open().filter(token_hash=cls.hash_of(token))
        invitation: Invitation | None = found.select_related("invited_by").first()
        return invitation

    @staticmethod
    def hash_of(token: str) -> str:
        return hashlib.sha256(token.encode()).hexdigest()
