"""What a company's directory says about people over SCIM: its tokens, accounts and groups."""

import secrets
from typing import ClassVar

from django.conf import settings
from django.db import models
from django.utils.translation import gettext_lazy as _

from .access_token import AccessToken

MARK = "scim"


class DirectoryToken(models.Model):
    """The credential of a directory. Only a hash of its secret is stored.

    The text is `scim_PREFIX_SECRET`. The prefix finds the row; it grants nothing.
    """

    name = models.CharField(_("name"), max_length=60)
    prefix = models.CharField(_("prefix"), max_length=16, unique=True)
    secret_hash = models.CharField(_("secret hash"), max_length=64)
    created_at = models.DateTimeField(_("created at"), auto_now_add=True)
    last_used_at = models.DateTimeField(_("last used at"), null=True)
    revoked_at = models.DateTimeField(_("revoked at"), null=True)

    class Meta:
        verbose_name = _("directory token")
        verbose_name_plural = _("directory tokens")
        ordering: ClassVar = ["pk"]

    def __str__(self) -> str:
        return f"{self.name} ({MARK}_{self.prefix}…)"

    @classmethod
    def make(cls, name: str) -> "tuple[DirectoryToken, str]":
        """Create a token, and return it with its text, which cannot be read again."""
        prefix, secret = secrets.token_hex(4), secrets.token_urlsafe(32)
        hashed = AccessToken.hash_of(secret)
        token = cls.objects.create(name=name, prefix=prefix, secret_hash=hashed)
        return token, f"{MARK}_{prefix}_{secret}"

    @classmethod
    def find_by_text(cls, text: str) -> "DirectoryToken | None":
        """Return the valid token with the prefix of this text. `is_opened_by` checks the secret."""
        mark, _underscore, rest = text.partition("_")
        prefix = rest.partition("_")[0]
        if mark != MARK or not prefix.isalnum():
            return None
        return cls.objects.filter(prefix=prefix, revoked_at=None).first()

    def is_opened_by(self, text: str) -> bool:
        secret = text.partition("_")[2].partition("_")[2]
        return secrets.compare_digest(self.secret_hash, AccessToken.hash_of(secret))


class DirectoryAccount(models.Model):
    """What the directory stored about a member.

    `has_left` is of a member whom the directory deleted. They stay here, deactivated, and the
    directory may create them again. `is_suspended` is of a member whom the directory deactivated,
    so that it may not activate somebody whom an admin deactivated.
    """

    member = models.OneToOneField(
        settings.AUTH_USER_MODEL,
        on_delete=models.CASCADE,
        primary_key=True,
        related_name="directory_account",
    )
    external_id = models.CharField(max_length=255, blank=True, default="")
    has_left = models.BooleanField(default=False)
    is_suspended = models.BooleanField(default=False)

    def __str__(self) -> str:
        return f"directory account of member {self.member_id}"


class DirectoryGroup(models.Model):
    """A group of the directory with its members here. By itself it grants nothing: `SCIM_GROUPS`
    says which group here it stands for."""

    display_name = models.CharField(max_length=255, unique=True)
    external_id = models.CharField(max_length=255, blank=True, default="")
    created_at = models.DateTimeField(auto_now_add=True)
    members = models.ManyToManyField(
        settings.AUTH_USER_MODEL, related_name="directory_groups", blank=True
    )

    class Meta:
        ordering: ClassVar = ["pk"]

    def __str__(self) -> str:
        return self.display_name
