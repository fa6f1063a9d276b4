"""Notifications: what each person is told and how, the devices that get push messages, the webhooks
of admins, and what was told already."""

import uuid
from typing import Self

from django.conf import settings
from django.contrib.auth.models import Group
from django.db import models
from django.utils.translation import gettext_lazy as _

from chatapp.models.conversations.conversation import Conversation
from chatapp.models.people.member import Member
from chatapp.models.turns.tool_call import ToolCall
from chatapp.models.turns.turn import Turn
from mcpconfig.models.sealed_field import SealedField
from mcpconfig.secrets import encryption


class NotificationPreference(models.Model):
    """What a person is told. Without a row the defaults apply. Mail has a preference of its own."""

    person = models.OneToOneField(
        settings.AUTH_USER_MODEL,
        on_delete=models.CASCADE,
        primary_key=True,
        related_name="notification_preference",
    )
    pushes_waiting = models.BooleanField(default=True)
    pushes_answers = models.BooleanField(default=True)
    shows_titles = models.BooleanField(default=True)
    uses_webhooks = models.BooleanField(default=True)

    def __str__(self) -> str:
        return f"notifications of {self.person_id}"

    @classmethod
    def of(cls, person: Member) -> Self:
        """Return the preference of this person, which may not be stored yet."""
        return cls.objects.filter(person=person).first() or cls(person=person)


class PushKey(models.Model):
    """The key pair (VAPID) by which push services know this server.

    A device is bound to the key that it subscribed with, so an earlier key is kept while devices
    use it. The newest key is for new devices.
    """

    public_key = models.CharField(max_length=100, unique=True)
    sealed_private_key = SealedField(default=b"")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["pk"]

    def __str__(self) -> str:
        return f"push key {self.pk}"

    def set_private_key(self, key: str) -> None:
        self.sealed_private_key = encryption.encrypt(key, place=self._place())
        self.save(update_fields=["sealed_private_key"])

    def read_private_key(self) -> str:
        """Return the private key; raise DecryptionError."""
        return encryption.decrypt(bytes(self.sealed_private_key), place=self._place())

    def _place(self) -> str:
        return f"chatapp_pushkey:{self.pk}:sealed_private_key"


class PushDevice(models.Model):
    """One browser that gets push messages while the session that turned them on lasts.

    The address at the push service and the keys of the browser are sealed: who has them could send
    messages to it. Their hash finds the row.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    person = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="push_devices"
    )
    key = models.ForeignKey(PushKey, on_delete=models.CASCADE, related_name="devices")
    address_hash = models.CharField(max_length=64, unique=True)
    sealed_subscription = SealedField(default=b"")
    session_key = models.CharField(max_length=40, db_index=True)
    name = models.CharField(max_length=100)
    is_phone = models.BooleanField(default=False)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["-created_at"]

    def __str__(self) -> str:
        return f"push device {self.pk}"

    def seal(self, subscription: str) -> None:
        self.sealed_subscription = encryption.encrypt(subscription, place=self._place())

    def read_subscription(self) -> str:
        """Return the JSON of the subscription; raise DecryptionError."""
        return encryption.decrypt(bytes(self.sealed_subscription), place=self._place())

    def _place(self) -> str:
        return f"chatapp_pushdevice:{self.pk}:sealed_subscription"


class Webhook(models.Model):
    """A place in another program that is told what waits for people.

    The address alone is enough to post there, so it is sealed. So is the secret: the signing secret
    of a JSON webhook, or the access token at a Matrix server.
    """

    class Format(models.TextChoices):
        SLACK = "slack", "Slack"
        TEAMS = "teams", "Microsoft Teams"
        MATRIX = "matrix", "Matrix"
        JSON = "json", _("JSON, signed")

    class Audience(models.TextChoices):
        EVERYONE = "everyone", _("Every member")
        CHOSEN = "chosen", _("Certain groups and members")

    name = models.CharField(_("name"), max_length=80, unique=True)
    format = models.CharField(_("format"), max_length=6, choices=Format.choices)
    is_enabled = models.BooleanField(_("enabled"), default=True)
    host = models.CharField(_("host"), max_length=255, editable=False)
    room = models.CharField(
        _("room"),
        max_length=255,
        blank=True,
        help_text=_("The ID of the Matrix room, such as !room:example.org."),
    )
    sealed_address = SealedField(_("sealed address"), default=b"")
    sealed_secret = SealedField(_("sealed secret"), default=b"")
    audience = models.CharField(
        _("whose events"), max_length=8, choices=Audience.choices, default=Audience.EVERYONE
    )
    groups = models.ManyToManyField(
        Group, blank=True, related_name="webhooks", verbose_name=_("groups")
    )
    members = models.ManyToManyField(
        settings.AUTH_USER_MODEL, blank=True, related_name="webhooks", verbose_name=_("members")
    )
    sends_waiting = models.BooleanField(
        _("requests that wait"),
        default=True,
        help_text=_("Approvals, questions, sign-ins, reviews and unknown outcomes."),
    )
    sends_answers = models.BooleanField(
        _("finished answers"),
        default=False,
        help_text=_("Answers that ended while their chat was not open."),
    )
    sent_at = models.DateTimeField(_("last sent"), null=True, editable=False)
    failed_at = models.DateTimeField(_("last failure"), null=True, editable=False)
    failure = models.CharField(_("reason of the failure"), max_length=300, blank=True, default="")

    class Meta:
        verbose_name = _("webhook")
        verbose_name_plural = _("webhooks")
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name

    @property
    def is_failing(self) -> bool:
        return bool(self.failed_at and (self.sent_at is None or self.sent_at < self.failed_at))

    def set_address(self, address: str) -> None:
        self._store("sealed_address", address)

    def set_secret(self, secret: str) -> None:
        self._store("sealed_secret", secret)

    def read_address(self) -> str:
        """Return the address; raise DecryptionError."""
        return self._read("sealed_address")

    def read_secret(self) -> str:
        """Return the secret; raise DecryptionError."""
        return self._read("sealed_secret")

    def _store(self, field: str, secret: str) -> None:
        token = encryption.encrypt(secret, place=self._place(field)) if secret else b""
        setattr(self, field, token)
        self.save(update_fields=[field])

    def _read(self, field: str) -> str:
        token = bytes(getattr(self, field))
        return encryption.decrypt(token, place=self._place(field)) if token else ""

    def _place(self, field: str) -> str:
        return f"chatapp_webhook:{self.pk}:{field}"


class Notification(models.Model):
    """Something that the devices of a person, or a webhook, were told or are being told: that a
    call waits (`thing` identifies the item among several of the same call), or that a turn ended.
    Each is told once."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    person = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, null=True, related_name="+"
    )
    webhook = models.ForeignKey(Webhook, on_delete=models.CASCADE, null=True, related_name="+")
    conversation = models.ForeignKey(Conversation, on_delete=models.CASCADE, related_name="+")
    call = models.ForeignKey(ToolCall, on_delete=models.CASCADE, null=True, related_name="+")
    thing = models.CharField(max_length=60, blank=True, default="")
    turn = models.ForeignKey(Turn, on_delete=models.CASCADE, null=True, related_name="+")
    created_at = models.DateTimeField(auto_now_add=True)
    sent_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["person", "call", "thing"], name="one_push_about_a_thing"
            ),
            models.UniqueConstraint(
                fields=["webhook", "call", "thing"], name="one_post_about_a_thing"
            ),
            models.UniqueConstraint(fields=["person", "turn"], name="one_push_about_a_turn"),
            models.UniqueConstraint(fields=["webhook", "turn"], name="one_post_about_a_turn"),
        ]

    def __str__(self) -> str:
        return f"notification {self.pk}"
