"""Services: what an admin configured about one MCP server, and what was learned of it."""

import unicodedata
from collections.abc import Iterable
from datetime import datetime
from typing import Any, Self

from django.conf import settings as project_settings
from django.contrib.auth.models import AbstractUser, Group
from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator
from django.db import models, transaction
from django.db.models import Q
from django.db.models.base import ModelBase
from django.utils import timezone

from mcpconfig.models.identity_provider import IdentityProvider
from mcpconfig.models.sealed_field import SealedField
from mcpconfig.values.tool_apps import ORIGIN

MAX_ORIGINS = 50


def parse_origins(text: str) -> frozenset[str]:
    """The origins of a text with one a line; what has not the form of one is left out."""
    lines = (line.strip().lower().rstrip("/") for line in text.splitlines())
    return frozenset(line for line in lines if ORIGIN.fullmatch(line))


def check_origins(text: str) -> None:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if len(lines) > MAX_ORIGINS:
        raise ValidationError(f"Name at most {MAX_ORIGINS} origins.")
    for line in lines:
        if not parse_origins(line):
            raise ValidationError(
                "“%(line)s” is not an origin. Write https://host, https://host:port or https://*.host.",
                params={"line": line[:100]},
            )


class Colour(models.TextChoices):
    GREY = "grey", "grey"
    BLUE = "blue", "blue"
    GREEN = "green", "green"
    AMBER = "amber", "amber"
    RED = "red", "red"
    VIOLET = "violet", "violet"


_JOINER = "\u200d"
_FLAG_LETTERS = range(0x1F1E6, 0x1F200)
# What may follow a drawn character: the coloured form, a colour of skin, the tags of a region.
_FOLLOWING = (*range(0xFE0E, 0xFE10), *range(0x1F3FB, 0x1F400), *range(0xE0020, 0xE0080))
_KEYCAP = "\u20e3"


def check_icon(icon: str) -> None:
    """One emoji or one letter: more would be a word, or hide something in a word's place."""
    if len(icon) == 1 and icon.isalnum():
        return
    is_keycap = icon[:1] in "0123456789#*" and icon[1:].removeprefix("\ufe0f") == _KEYCAP
    if not is_keycap and not all(_is_drawn(part) for part in icon.split(_JOINER)):
        raise ValidationError("Give one emoji or one letter.")


def _is_drawn(part: str) -> bool:
    """Whether this is one drawn character, or a flag's two letters, with what belongs to it."""
    drawn = [character for character in part if ord(character) not in _FOLLOWING]
    is_flag = len(drawn) == 2 and all(ord(letter) in _FLAG_LETTERS for letter in drawn)
    is_symbol = len(drawn) == 1 and unicodedata.category(drawn[0]) == "So"
    return (is_flag or is_symbol) and part.startswith(drawn[0])


# services have `settings` of their own


# What a person or an admin may say about one service or one tool: it is read in every answer.
MAX_GUIDANCE_CHARACTERS = 1_000
# What decides as whom calls run there, beside the secrets themselves.
SIGN_IN_FIELDS = ("authentication", "identity_provider", "client_id")


class Services(models.QuerySet["Service"]):
    """Services by who asks."""

    def for_member(self, member: AbstractUser) -> Self:
        """The services that this person may use now. Pages, mentions and turns ask nothing else.

        A private service is its owner's alone, also before admins: it acts with his credentials.
        One without an owner belongs to the admins. Nobody uses what a deactivated member left.
        """
        if not member.is_active:
            return self.none()
        return self.usable_by(member.pk, is_staff=member.is_staff)

    def usable_by(self, member_id: int, *, is_staff: bool = False) -> Self:
        """The same for an active member."""
        Visibility = Service.Visibility
        shared = Service.objects.filter(visibility=Visibility.GROUPS, groups__user=member_id)
        usable = Q(visibility=Visibility.EVERYONE) | Q(pk__in=shared.values("pk"))
        usable |= Q(owner=member_id)
        if is_staff:
            usable |= Q(visibility=Visibility.PRIVATE, owner=None)
        return self.filter(usable, is_enabled=True).exclude(owner__is_active=False)


class Service(models.Model):
    """One configured MCP server. What was learned of it is a hint, forgotten once it is wrong."""

    class Transport(models.TextChoices):
        AUTO = "auto", "Find out"
        STREAMABLE_HTTP = "streamable-http", "Streamable HTTP"
        SSE = "sse", "HTTP+SSE"

    class Authentication(models.TextChoices):
        NONE = "none", "None"
        BEARER = "bearer", "Bearer token"
        HEADERS = "headers", "Headers"
        OAUTH_USER = "oauth_user", "Each person signs in (OAuth)"
        OAUTH_SHARED = "oauth_shared", "One sign-in for all (OAuth)"
        CLIENT_CREDENTIALS = "client_credentials", "Client credentials (OAuth)"
        COMPANY = "company", "Company sign-in (each person)"

    class Visibility(models.TextChoices):
        PRIVATE = "private", "Only its owner"
        GROUPS = "groups", "Members of these groups"
        EVERYONE = "everyone", "Every member"

    class NewTools(models.TextChoices):
        WAIT = "wait", "wait for an admin"
        PASS = "pass", "count as confirmed"

    class State(models.TextChoices):
        OFF = "off", "off"
        CONFIGURED = "configured", "configured"
        CONNECTED = "connected", "connected"
        SIGN_IN_NEEDED = "sign-in needed", "sign-in needed"
        FAILING = "failing", "failing"

    OAUTH = (
        Authentication.OAUTH_USER,
        Authentication.OAUTH_SHARED,
        Authentication.CLIENT_CREDENTIALS,
        Authentication.COMPANY,
    )
    # Each person acts with a sign-in of their own.
    PERSONAL = (Authentication.OAUTH_USER, Authentication.COMPANY)

    name = models.SlugField(
        max_length=60, unique=True, help_text="Short: it begins the names of its tools."
    )
    title = models.CharField(max_length=100, blank=True, help_text="What people read.")
    description = models.TextField(blank=True)
    icon = models.CharField(
        max_length=16,
        blank=True,
        validators=[check_icon],
        help_text="An emoji or a letter. Without one it is the first letter of the title.",
    )
    colour = models.CharField(
        max_length=6, choices=Colour.choices, default=Colour.GREY, help_text="Behind a letter."
    )
    guidance = models.TextField(
        "what the assistant is told",
        max_length=MAX_GUIDANCE_CHARACTERS,
        blank=True,
        help_text="Told to the model in every answer that may use a tool of it. Your words, and "
        "never those of the service.",
    )
    starts_on = models.BooleanField(
        "on at first",
        default=True,
        help_text="For people who switched nothing there. Off: its tools are used once somebody "
        "switches them on or mentions them.",
    )
    url = models.CharField("URL", max_length=2000)
    transport = models.CharField(max_length=15, choices=Transport.choices, default=Transport.AUTO)
    authentication = models.CharField(
        "sign-in", max_length=18, choices=Authentication.choices, default=Authentication.NONE
    )
    client_id = models.CharField(
        "client ID",
        max_length=500,
        blank=True,
        help_text="Only where the service cannot register this application by itself.",
    )
    identity_provider = models.ForeignKey(
        IdentityProvider,
        on_delete=models.PROTECT,
        null=True,
        blank=True,
        related_name="services",
        help_text="For company sign-in: where people sign in once for all such services.",
    )
    scopes = models.CharField(
        max_length=1000,
        blank=True,
        help_text="Separated by spaces. Empty: what the service asks for.",
    )
    is_enabled = models.BooleanField("enabled", default=True)
    allows_private_addresses = models.BooleanField(
        "allow private addresses",
        default=False,
        help_text="For a server in your own network: permits http:// and private addresses. "
        "Never holds for a service whose owner is no admin.",
    )
    is_trusted = models.BooleanField(
        "trusted", default=False, help_text="What it says of its own tools may lower a risk."
    )
    is_open = models.BooleanField(
        "open to strangers",
        default=False,
        help_text="What it returns may be written by anybody, as web pages and mails are. Once it "
        "is in an answer, tools that do more than read ask again, and so do calls that send data "
        "to an address or a recipient.",
    )
    new_tools = models.CharField(
        "new and changed tools",
        max_length=4,
        choices=NewTools.choices,
        default=NewTools.WAIT,
        help_text="Until an admin has confirmed a tool as it is now, it asks each time. Where they "
        "count as confirmed, they do so from the next time that the tools are fetched.",
    )
    allows_apps = models.BooleanField(
        "show its apps",
        default=False,
        help_text="Its tools may bring a small app that is shown, sealed off, in the chat. "
        "Fetch the tools again after a change.",
    )
    app_origins = models.TextField(
        "origins for apps",
        blank=True,
        validators=[check_origins],
        help_text="Where its apps may load files from and talk to, one a line, as https://host. "
        "Empty: nowhere.",
    )

    owner = models.ForeignKey(
        project_settings.AUTH_USER_MODEL,
        on_delete=models.CASCADE,
        null=True,
        blank=True,
        related_name="services",
        help_text="Empty: it belongs to the admins. A service goes with its owner.",
    )
    # Who added it for themselves. What an admin made for somebody has the admin's secrets in it,
    # and is not its owner's to change.
    added_by = models.ForeignKey(
        project_settings.AUTH_USER_MODEL,
        on_delete=models.SET_NULL,
        null=True,
        editable=False,
        related_name="+",
    )
    visibility = models.CharField(
        "who may use it",
        max_length=8,
        choices=Visibility.choices,
        default=Visibility.EVERYONE,
    )
    groups = models.ManyToManyField(Group, blank=True, related_name="services")
    shares_tools = models.BooleanField(
        "others see its tools",
        default=True,
        help_text="Who may use it but does not own it sees its name and description, and with "
        "this its tools. The configuration is for admins only.",
    )

    reconnects = models.BooleanField(
        "reconnect by itself",
        default=True,
        help_text="Try again after 1, 2, 4, 8 and 16 seconds when it fails. "
        "A tool call is never tried again.",
    )
    most_retries = models.PositiveSmallIntegerField(
        "how often",
        default=5,
        validators=[MaxValueValidator(10)],
        help_text="After so many a person tries again by hand.",
    )

    sign_in_changed_at = models.DateTimeField(null=True, editable=False)
    known_transport = models.CharField(max_length=15, blank=True, editable=False)
    known_era = models.CharField(max_length=20, blank=True, editable=False)
    discovery = models.JSONField(null=True, editable=False)
    detected_at = models.DateTimeField(null=True, editable=False)
    left_out = models.JSONField(default=list, editable=False)
    tools_listed_at = models.DateTimeField(null=True, editable=False)
    tools_fresh_until = models.DateTimeField(null=True, editable=False)
    last_success_at = models.DateTimeField(null=True, editable=False)
    last_error = models.JSONField(null=True, editable=False)
    retries = models.PositiveSmallIntegerField(default=0, editable=False)
    next_retry_at = models.DateTimeField(null=True, editable=False, db_index=True)

    objects = Services.as_manager()

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.title or self.name

    def save(
        self,
        *,
        force_insert: bool | tuple[ModelBase, ...] = False,
        force_update: bool = False,
        using: str | None = None,
        update_fields: Iterable[str] | None = None,
    ) -> None:
        """A new URL is a new server: it gets neither the old one's credentials nor its tools."""
        fields = None if update_fields is None else set(update_fields)
        with transaction.atomic():
            if self.pk and (fields is None or "url" in fields) and self._has_moved():
                self._leave_old_server()
                if fields is not None:
                    fields |= set(self.forgotten_facts())
            if self.pk and self._signs_in_otherwise(fields):
                self.sign_in_changed_at = timezone.now()
                if fields is not None:
                    fields.add("sign_in_changed_at")
            super().save(
                force_insert=force_insert,
                force_update=force_update,
                using=using,
                update_fields=fields,
            )

    @property
    def endpoint(self) -> str:
        """The stable identity that approvals bind to: the URL, or `builtin:NAME`."""
        return self.url

    def signs_in_otherwise_since(self, moment: datetime) -> bool:
        """Whether an admin changed how it is signed in to, so that a call might act there as
        somebody else. Renewed tokens, rotated keys and people's own sign-ins do not count."""
        return self.sign_in_changed_at is not None and self.sign_in_changed_at > moment

    @property
    def is_personal(self) -> bool:
        """Whether a person without an admin's rights made it. It then has no way inside."""
        return self.owner is not None and not self.owner.is_staff

    @property
    def state(self) -> State:
        """How it does, in a word."""
        if not self.is_enabled:
            return self.State.OFF
        if self.last_error is None:
            return self.State.CONNECTED if self.last_success_at else self.State.CONFIGURED
        if self.last_error.get("kind") == "sign_in_needed":
            return self.State.SIGN_IN_NEEDED
        return self.State.FAILING

    def forgotten_facts(self) -> dict[str, Any]:
        """The fields that hold what was learned, as they are before anything is."""
        return {
            "known_transport": "",
            "known_era": "",
            "discovery": None,
            "detected_at": None,
            "left_out": [],
            "tools_listed_at": None,
            "tools_fresh_until": None,
            "last_success_at": None,
            **self.forgotten_failure(),
        }

    def forgotten_failure(self) -> dict[str, Any]:
        """The fields that hold how it failed, as they are while it does not."""
        return {"last_error": None, "retries": 0, "next_retry_at": None}

    def _has_moved(self) -> bool:
        return Service.objects.filter(pk=self.pk).exclude(url=self.url).exists()

    def _signs_in_otherwise(self, written: set[str] | None) -> bool:
        """By what is `written` of it; without names that is all."""
        way = {
            name: getattr(self, name)
            for name in SIGN_IN_FIELDS
            if written is None or written & {name, f"{name}_id"}
        }
        return bool(way) and not Service.objects.filter(pk=self.pk, **way).exists()

    def _leave_old_server(self) -> None:
        # Before the client's secret goes: giving back what the old server gave takes it.
        for left in (self.oauth_grants, self.oauth_challenges, self.oauth_clients):
            left.all().delete()
        self._state.fields_cache.pop("credential", None)
        if hasattr(self, "credential"):
            self.credential.delete()
        self._state.fields_cache.pop("credential", None)
        self.definitions.update(is_current=False)
        for field, value in self.forgotten_facts().items():
            setattr(self, field, value)


class Credential(models.Model):
    """The secrets of a service. Known to `credentials.py` only."""

    service = models.OneToOneField(Service, on_delete=models.CASCADE, related_name="credential")
    bearer = SealedField(default=b"")
    headers = SealedField(default=b"")
    client_secret = SealedField(default=b"")
    names_a_person = models.BooleanField(default=False)
    changed_at = models.DateTimeField(auto_now=True)

    def __str__(self) -> str:
        return f"credentials of {self.service_id}"


class Look(models.Model):
    """One connection that a person asked for by adding, changing or testing a service. It outlives
    the service, or one that is removed and added again would be looked at without end."""

    person = models.ForeignKey(
        project_settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+"
    )
    at = models.DateTimeField(auto_now_add=True)

    class Meta:
        indexes = [models.Index(fields=["person", "at"])]

    def __str__(self) -> str:
        return f"{self.person_id}, {self.at:%H:%M:%S}"
