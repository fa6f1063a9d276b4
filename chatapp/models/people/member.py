"""People: members, and the one-time links by which somebody signs in without a password yet."""

import hashlib
import secrets
from datetime import timedelta
from typing import Any, Self

from django.contrib.auth.models import AbstractUser
from django.db import models, transaction
from django.utils import timezone


class Member(AbstractUser):
    """A person who chats; `is_staff` makes an admin. Without a usable password the next page
    asks for one."""

    class Meta:
        verbose_name = "member"

    def save(self, *args: Any, **kwargs: Any) -> None:
        # What changes and its entry in the log are stored together.
        with transaction.atomic():
            super().save(*args, **kwargs)

    @property
    def display_name(self) -> str:
        return self.get_full_name() or self.username

    @property
    def initials(self) -> str:
        words = self.display_name.split() or ["?"]
        return "".join(word[0] for word in words[:2]).upper()


class SignInLink(models.Model):
    """A link that signs one member in, once. Only the token's hash is stored."""

    LIFETIME = timedelta(days=1)

    member = models.ForeignKey(Member, on_delete=models.CASCADE)
    token_hash = models.CharField(max_length=64, unique=True)
    expires_at = models.DateTimeField()
    used_at = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return f"sign-in link for {self.member}"

    @classmethod
    def issue(cls, member: Member) -> str:
        """A new token for `member`; the ones issued before stop working."""
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
        """The member whose unused, unexpired token this is; nobody gets it a second time."""
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
