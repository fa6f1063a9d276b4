"""Access tokens: a program acts for its person within the scopes of a token."""

import hashlib
import secrets
import uuid
from datetime import datetime
from typing import Any, Self

from django.conf import settings
from django.db import models
from django.http import Http404
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from chatapp.models.people.member import Member

MARK = "cs"


class Tokens(models.QuerySet["AccessToken"]):
    def live(self) -> Self:
        """Return the tokens that are valid now."""
        return self.filter(revoked_at=None, expires_at__gt=timezone.now(), person__is_active=True)


class AccessToken(models.Model):
    """The credential of a program. Only a hash of its secret is stored.

    The text is `cs_PREFIX_SECRET`. The prefix finds the row and names the token to people; it
    grants nothing.
    """

    class Scope(models.TextChoices):
        TOOLS = "tools", _("Use tools over REST")
        MCP = "mcp", _("Use tools over MCP")
        MCP_PLAN = "mcp:plan", _("Use read-only tools over MCP")
        CHAT = "chat", _("Chat through the OpenAI-compatible API")

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    person = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        verbose_name=_("member"),
        on_delete=models.CASCADE,
        related_name="access_tokens",
    )
    name = models.CharField(_("name"), max_length=60)
    scopes = models.JSONField(_("scopes"), default=list)
    prefix = models.CharField(_("prefix"), max_length=16, unique=True)
    secret_hash = models.CharField(_("secret hash"), max_length=64)
    created_at = models.DateTimeField(_("created at"), auto_now_add=True)
    expires_at = models.DateTimeField(_("expires at"))
    last_used_at = models.DateTimeField(_("last used at"), null=True)
    revoked_at = models.DateTimeField(_("revoked at"), null=True)

    objects = Tokens.as_manager()

    class Meta:
        verbose_name = _("access token")
        verbose_name_plural = _("access tokens")
        ordering = ["-created_at"]
        indexes = [models.Index(fields=["person", "-created_at"])]

    def __str__(self) -> str:
        return f"{self.name} ({MARK}_{self.prefix}…)"

    @classmethod
    def of(cls, person: Member, token_id: uuid.UUID) -> "AccessToken":
        """Return a token of this person, or raise 404."""
        found = AccessToken.objects.filter(pk=token_id, person=person).first()
        if found is None:
            raise Http404("No such token.")
        return found

    @classmethod
    def make(cls, *, expires_at: datetime, **values: Any) -> "tuple[AccessToken, str]":
        """Create a token, and return it with its text, which cannot be read again."""
        prefix, secret = secrets.token_hex(4), secrets.token_urlsafe(32)
        token = cls.objects.create(
            prefix=prefix, secret_hash=cls.hash_of(secret), expires_at=expires_at, **values
        )
        return token, f"{MARK}_{prefix}_{secret}"

    @classmethod
    def find_by_text(cls, text: str) -> "AccessToken | None":
        """Return the token with the prefix of this text. `is_opened_by` checks the secret."""
        mark, _, rest = text.partition("_")
        prefix = rest.partition("_")[0]
        if mark != MARK or not prefix.isalnum():
            return None
        return cls.objects.select_related("person").filter(prefix=prefix).first()

    def is_opened_by(self, text: str) -> bool:
        secret = text.partition("_")[2].partition("_")[2]
        return secrets.compare_digest(self.secret_hash, self.hash_of(secret))

    @property
    def has_ended(self) -> bool:
        return self.revoked_at is not None or self.expires_at <= timezone.now()

    @property
    def reaches(self) -> list[str]:
        """The labels of its scopes."""
        labels = dict(self.Scope.choices)
        return [str(labels[scope]) for scope in self.scopes]

    @staticmethod
    def hash_of(secret: str) -> str:
        # A plain hash: the secret has 256 random bits, so there is nothing to guess slowly.
        return hashlib.sha256(secret.encode()).hexdigest()
