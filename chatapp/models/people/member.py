"""Members, and the one-time links with which they sign in before they have a password."""

import hashlib
import secrets
from datetime import timedelta
from typing import Any, Self

from django.conf import settings
from django.contrib.auth.models import AbstractUser
from django.db import models, transaction
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from chatapp.server.languages import ENGLISH, choose_known


class Member(AbstractUser):
    """A person who chats; `is_staff` makes an admin, and `rights` say what this admin may do. A
    member without a usable password is asked to set one.

    Without a `language` the pages have the one that the browser asks for. `last_language` is what
    it asked for last: of mails and of what is written while no page is open. `preferred_model` is
    the model id that the person chose for new chats, empty for the default.
    """

    class Theme(models.TextChoices):
        LIGHT = "light", _("Light")
        DARK = "dark", _("Dark")

    language = models.CharField(_("language"), max_length=10, blank=True, default="", db_default="")
    last_language = models.CharField(
        max_length=10, default=ENGLISH, db_default=ENGLISH, editable=False
    )
    preferred_model = models.CharField(
        max_length=200, blank=True, default="", db_default="", editable=False
    )

    # Empty for that of the server.
    time_zone = models.CharField(
        _("time zone"), max_length=63, blank=True, default="", db_default=""
    )
    theme = models.CharField(
        max_length=10, choices=Theme.choices, blank=True, default="", db_default=""
    )
    # A provider's address never leads to an account whose address its member typed, or got from a
    # provider that does not link by address.
    is_email_self_given = models.BooleanField(default=False, db_default=False, editable=False)

    # Names in `chatapp.people.admin_rights`. A superuser has every right.
    rights = models.JSONField(
        _("rights"), default=list, db_default=models.Value([], models.JSONField()), blank=True
    )

    class Meta:
        verbose_name = _("member")
        verbose_name_plural = _("members")
        permissions = (("view_checks", "Can view the checks of the server"),)

    def save(self, *args: Any, **kwargs: Any) -> None:
        # Store the change and its log entry in one transaction.
        with transaction.atomic():
            super().save(*args, **kwargs)

    @property
    def reading_language(self) -> str:
        """The language of what is written for this person."""
        return choose_known(self.language, self.last_language)

    @property
    def display_name(self) -> str:
        return self.get_full_name() or self.username

    @property
    def initials(self) -> str:
        words = self.display_name.split() or ["?"]
        return "".join(word[0] for word in words[:2]).upper()


class SignInLink(models.Model):
    """A link that signs one member in once. Only the token's hash is stored."""

    LIFETIME = timedelta(days=1)

    member = models.ForeignKey(Member, on_delete=models.CASCADE)
    token_hash = models.CharField(max_length=64, unique=True)
    expires_at = models.DateTimeField()
    used_at = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return f"sign-in link for {self.member}"

    @classmethod
    def issue(cls, member: Member) -> str:
        """Return a new token for `member`, and delete the unused earlier ones."""
        cls.objects.filter(member=member, used_at=None).delete()
        token = secrets.token_urlsafe(32)
        cls.objects.create(
            member=member,
            token_hash=cls.hash_of(token),
            expires_at=timezone.now() + cls.LIFETIME,
        )
        return token

    @classmethod
    def redeem(cls, token: str) -> Member | None:
        """Return the member of this unused, unexpired token. A token works once."""
        now = timezone.now()
        links = cls.objects.filter(
            token_hash=cls.hash_of(token), used_at=None, expires_at__gt=now, member__is_active=True
        )
        link: Self | None = links.select_related("member").first()
        if link is None or not links.update(used_at=now):
            return None
        return link.member

    @staticmethod
    def hash_of(token: str) -> str:
        return hashlib.sha256(token.encode()).hexdigest()


class PersonSignal(models.Model):
    """One change. Rows are only added and, once every process has read them, deleted. A counter
    per person would be locked by two transactions in different orders."""

    person = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    created_at = models.DateTimeField(auto_now_add=True, db_index=True)

    def __str__(self) -> str:
        return f"signal {self.pk} to {self.person_id}"
