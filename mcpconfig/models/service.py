"""Services: what an admin configured about one MCP server, and what was learned of it."""

import unicodedata
import uuid
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
from django.utils.translation import gettext_lazy as _

from mcpconfig.models.identity_provider import IdentityProvider
from mcpconfig.models.sealed_field import SealedField
from mcpconfig.values.service_admins import manages_services
from mcpconfig.values.tool_apps import ORIGIN

MAX_ORIGINS = 50


def parse_origins(text: str) -> frozenset[str]:
    """The origins of a text with one a line; what has not the form of one is left out."""
    lines = (line.strip().lower().rstrip("/") for line in text.splitlines())
    return frozenset(line for line in lines if ORIGIN.fullmatch(line))


def check_origins(text: str) -> None:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if len(lines) > MAX_ORIGINS:
        raise ValidationError(
            _("Enter at most %(number)s origins."), params={"number": MAX_ORIGINS}
        )
    for line in lines:
        if not parse_origins(line):
            raise ValidationError(
                _(
                    "“%(line)s” is not an origin. Enter https://host, https://host:port or "
                    "https://*.host."
                ),
                params={"line": line[:100]},
            )


class Colour(models.TextChoices):
    GREY = "grey", _("grey")
    BLUE = "blue", _("blue")
    GREEN = "green", _("green")
    AMBER = "amber", _("amber")
    RED = "red", _("red")
    VIOLET = "violet", _("violet")

    @classmethod
    def choose(cls, key: uuid.UUID) -> str:
        """Return the colour of a row that has none of its own: always the same for its key."""
        return str(cls.values[key.int % len(cls.values)])


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
        raise ValidationError(_("Enter one emoji or one letter."))


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
        return self.usable_by(member.pk, is_staff=manages_services(member))

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
        AUTO = "auto", _("Automatic")
        STREAMABLE_HTTP = "streamable-http", "Streamable HTTP"
        SSE = "sse", "HTTP+SSE"

    class Authentication(models.TextChoices):
        NONE = "none", _("None")
        BEARER = "bearer", _("Bearer token")
        HEADERS = "headers", _("Headers")
        OAUTH_USER = "oauth_user", _("Each member signs in (OAuth)")
        OAUTH_SHARED = "oauth_shared", _("One sign-in for all (OAuth)")
        CLIENT_CREDENTIALS = "client_credentials", _("Client credentials (OAuth)")
        COMPANY = "company", _("Company sign-in (each member)")

    class Visibility(models.TextChoices):
        PRIVATE = "private", _("Only the owner")
        GROUPS = "groups", _("Members of certain groups")
        EVERYONE = "everyone", _("Every member")

    class NewTools(models.TextChoices):
        WAIT = "wait", _("wait for an admin")
        PASS = "pass", _("are confirmed automatically")

    class State(models.TextChoices):
        OFF = "off", _("off")
        CONFIGURED = "configured", _("not used yet")
        CONNECTED = "connected", _("connected")
        SIGN_IN_NEEDED = "sign-in needed", _("sign-in needed")
        FAILING = "failing", _("failing")

    OAUTH = (
        Authentication.OAUTH_USER,
        Authentication.OAUTH_SHARED,
        Authentication.CLIENT_CREDENTIALS,
        Authentication.COMPANY,
    )
    # Each person acts with a sign-in of their own.
    PERSONAL = (Authentication.OAUTH_USER, Authentication.COMPANY)

    name = models.SlugField(
        _("short name"),
        max_length=60,
        unique=True,
        help_text=_("Prefix for its tool names."),
    )
    title = models.CharField(
        _("name"),
        max_length=100,
        blank=True,
        help_text=_("The name shown in Countersign. If empty, the short name is shown."),
    )
    description = models.TextField(_("description"), blank=True)
    icon = models.CharField(
        _("icon"),
        max_length=16,
        blank=True,
        validators=[check_icon],
        help_text=_("An emoji or a letter. If empty, the first letter of the name."),
    )
    colour = models.CharField(
        _("colour"),
        max_length=6,
        choices=Colour.choices,
        default=Colour.GREY,
        help_text=_("Background of the letter."),
    )
    guidance = models.TextField(
        _("instructions"),
        max_length=MAX_GUIDANCE_CHARACTERS,
        blank=True,
        help_text=_(
            "Added to the prompt whenever this service’s tools are available. Written "
            "by you, not by the service."
        ),
    )
    starts_on = models.BooleanField(
        _("on by default"),
        default=True,
        help_text=_(
            "Each member can change this for themselves. If off, its tools are used only "
            "when a member turns them on or mentions them."
        ),
    )
    url = models.CharField(_("URL"), max_length=2000)
    transport = models.CharField(
        _("transport"), max_length=15, choices=Transport.choices, default=Transport.AUTO
    )
    authentication = models.CharField(
        _("sign-in"), max_length=18, choices=Authentication.choices, default=Authentication.NONE
    )
    client_id = models.CharField(
        _("client ID"),
        max_length=500,
        blank=True,
        help_text=_(
            "Required for client credentials and company sign-in. For the other OAuth sign-ins, "
            "required only if the service does not support automatic registration."
        ),
    )
    identity_provider = models.ForeignKey(
        IdentityProvider,
        verbose_name=_("identity provider"),
        on_delete=models.PROTECT,
        null=True,
        blank=True,
        related_name="services",
        help_text=_("For company sign-in. Members sign in there once for all such services."),
    )
    scopes = models.CharField(
        _("scopes"),
        max_length=1000,
        blank=True,
        help_text=_(
            "Separated by spaces. If empty, Countersign requests the scopes that the service "
            "asks for."
        ),
    )
    is_enabled = models.BooleanField(_("enabled"), default=True)
    allows_private_addresses = models.BooleanField(
        _("allow private addresses"),
        default=False,
        help_text=_(
            "For a server in your own network. Allows http:// and private addresses. "
            "Has no effect if the owner is not an admin."
        ),
    )
    is_trusted = models.BooleanField(
        _("trusted"),
        default=False,
        help_text=_("If on, what the service says about its tools may lower their risk."),
    )
    is_open = models.BooleanField(
        _("returns untrusted content"),
        default=False,
        help_text=_(
            "Results may contain text from anyone, like web pages or email. After such a "
            "result, any tool that is not read-only needs approval. So do calls that send data to "
            "an address or a recipient outside the allowed hosts."
        ),
    )
    new_tools = models.CharField(
        _("new and changed tools"),
        max_length=4,
        choices=NewTools.choices,
        default=NewTools.WAIT,
        help_text=_(
            "Every call needs approval until the tool’s current definition is confirmed. "
            "Automatic confirmation starts the next time tools are fetched."
        ),
    )
    allows_apps = models.BooleanField(
        _("show apps"),
        default=False,
        help_text=_(
            "Its tools may show a small sandboxed app in the chat. Fetch the tools "
            "again after you change this."
        ),
    )
    app_origins = models.TextField(
        _("origins for apps"),
        blank=True,
        validators=[check_origins],
        help_text=_(
            "Origins that its apps may load files from and connect to, one per line, such as "
            "https://host. If empty, none."
        ),
    )

    owner = models.ForeignKey(
        project_settings.AUTH_USER_MODEL,
        verbose_name=_("owner"),
        on_delete=models.CASCADE,
        null=True,
        blank=True,
        related_name="services",
        help_text=_("If empty, it belongs to the admins. Deleting the owner deletes the service."),
    )
    # Who added it for themselves. What an admin made for somebody has the admin's secrets in it,
    # and is not its owner's to change.
    added_by = models.ForeignKey(
        project_settings.AUTH_USER_MODEL,
        verbose_name=_("creator"),
        on_delete=models.SET_NULL,
        null=True,
        editable=False,
        related_name="+",
    )
    visibility = models.CharField(
        _("who may use it"),
        max_length=8,
        choices=Visibility.choices,
        # Without an owner, only admins: nobody else uses a service before an admin chose who does.
        default=Visibility.PRIVATE,
        help_text=_("“Only the owner” without an owner: only admins."),
    )
    groups = models.ManyToManyField(
        Group, blank=True, related_name="services", verbose_name=_("groups")
    )
    shares_tools = models.BooleanField(
        _("show tools to members"),
        default=True,
        help_text=_(
            "Members who may use the service see its name and description. If on, "
            "they also see its tools. Only admins and the owner see the configuration."
        ),
    )

    reconnects = models.BooleanField(
        _("reconnect automatically"),
        default=True,
        help_text=_(
            "After a failure, retries after 1 second and doubles the wait each time, up to the "
            "maximum number of retries. Never retries a tool call."
        ),
    )
    most_retries = models.PositiveSmallIntegerField(
        _("maximum retries"),
        default=5,
        validators=[MaxValueValidator(10)],
        help_text=_("After that, someone must retry by hand."),
    )

    sign_in_changed_at = models.DateTimeField(_("sign-in changed at"), null=True, editable=False)
    known_transport = models.CharField(
        _("detected transport"), max_length=15, blank=True, editable=False
    )
    known_era = models.CharField(_("MCP protocol"), max_length=20, blank=True, editable=False)
    discovery = models.JSONField(_("discovery"), null=True, editable=False)
    # The names of what the service declared when it was detected last.
    capabilities = models.JSONField(_("capabilities"), null=True, editable=False)
    detected_at = models.DateTimeField(_("detected at"), null=True, editable=False)
    left_out = models.JSONField(_("tools skipped when fetching"), default=list, editable=False)
    tools_listed_at = models.DateTimeField(_("tools fetched at"), null=True, editable=False)
    tools_fresh_until = models.DateTimeField(_("tools fresh until"), null=True, editable=False)
    last_success_at = models.DateTimeField(_("last success at"), null=True, editable=False)
    last_error = models.JSONField(_("last error"), null=True, editable=False)
    # Kept when the service works again, unlike `last_error`.
    last_failure = models.JSONField(_("last failure"), null=True, editable=False)
    retries = models.PositiveSmallIntegerField(_("retries"), default=0, editable=False)
    next_retry_at = models.DateTimeField(
        _("next retry at"), null=True, editable=False, db_index=True
    )

    objects = Services.as_manager()

    class Meta:
        verbose_name = _("service")
        verbose_name_plural = _("services")
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
        return self.owner is not None and not manages_services(self.owner)

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
            "capabilities": None,
            "detected_at": None,
            "left_out": [],
            "tools_listed_at": None,
            "tools_fresh_until": None,
            "last_success_at": None,
            "last_failure": None,
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
