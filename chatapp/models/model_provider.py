"""Model providers and models, as admins configure them beside what the environment offers."""

import json
from collections.abc import Iterable
from typing import Self

from django.contrib.auth.models import Group
from django.core.validators import MaxValueValidator, MinValueValidator, RegexValidator
from django.db import models
from django.db.models import Q
from django.db.models.base import ModelBase
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from chatapp.models.people.member import Member
from mcpconfig.models.draft import Draft
from mcpconfig.models.sealed_field import SealedField
from mcpconfig.secrets import encryption

check_currency = RegexValidator(
    r"^[A-Z]{3}$", _("Enter a three-letter currency code, such as USD.")
)


# Of the provider's name for a model.
NAME_CHARACTERS = 150


def is_model_name(text: str) -> bool:
    """Return whether a provider may have a model of this name."""
    return 0 < len(text) <= NAME_CHARACTERS and text.isprintable()


class ModelProvider(models.Model):
    """One account at a provider, or a model server. `slug` begins the ids of its models.

    The key and the headers are encrypted for this row. They are set by `set_key` and `set_headers`,
    and deleted when the address or the kind changes, because that is another server.
    """

    class Kind(models.TextChoices):
        OPENAI = "openai", "OpenAI (Responses)"
        OPENAI_CHAT = "openai-chat", _("OpenAI-compatible server (Chat Completions)")
        ANTHROPIC = "anthropic", "Anthropic"
        GOOGLE = "google", "Google Gemini"
        BEDROCK = "bedrock", "Amazon Bedrock"

    class KeyPlace(models.TextChoices):
        STORED = "stored", _("Stored here, encrypted")
        ENVIRONMENT = "environment", _("From the server’s environment (key and address)")
        NONE = "none", _("No key needed")

    slug = models.SlugField(
        _("short name"),
        max_length=40,
        unique=True,
        help_text=_("Comes before the colon in model IDs, such as openai in openai:MODEL."),
    )
    kind = models.CharField(_("kind"), max_length=11, choices=Kind.choices)
    label = models.CharField(_("name"), max_length=80, help_text=_("The name that members see."))
    is_enabled = models.BooleanField(_("enabled"), default=True)
    position = models.PositiveSmallIntegerField(
        _("position"),
        default=10,
        help_text=_("Lower numbers come first in the list of models."),
    )
    base_url = models.CharField(
        _("address"),
        max_length=2000,
        blank=True,
        help_text=_(
            "If empty, the usual address of this kind of provider. For a compatible server it "
            "usually ends in /v1."
        ),
    )
    region = models.CharField(
        _("region"), max_length=40, blank=True, help_text=_("The AWS region, such as eu-central-1.")
    )
    key_place = models.CharField(
        _("key location"), max_length=11, choices=KeyPlace.choices, default=KeyPlace.STORED
    )
    key_id = models.CharField(
        _("key ID"),
        max_length=200,
        blank=True,
        help_text=_("The AWS access key ID. If empty, the key is a Bedrock bearer token."),
    )
    sealed_key = SealedField(_("sealed key"), default=b"")
    sealed_headers = SealedField(_("sealed headers"), default=b"")
    key_changed_at = models.DateTimeField(_("key changed at"), null=True, editable=False)
    offers_unlisted = models.BooleanField(
        _("allow unlisted models"),
        default=False,
        help_text=_(
            "Members may also enter the ID of a model that is not listed. Warning: if the provider "
            "offers a restricted model under another ID, members can use it there without the "
            "restrictions."
        ),
    )

    class Meta:
        verbose_name = _("provider")
        verbose_name_plural = _("providers")
        ordering = ["position", "slug"]

    def __str__(self) -> str:
        return self.label

    def save(
        self,
        *,
        force_insert: bool | tuple[ModelBase, ...] = False,
        force_update: bool = False,
        using: str | None = None,
        update_fields: Iterable[str] | None = None,
    ) -> None:
        """Delete the key and the headers if the address or the kind changes."""
        fields = None if update_fields is None else set(update_fields)
        if self.pk and (fields is None or fields & {"base_url", "kind"}) and self._has_moved():
            self.sealed_key = self.sealed_headers = b""
            fields = None if fields is None else fields | {"sealed_key", "sealed_headers"}
        super().save(
            force_insert=force_insert,
            force_update=force_update,
            using=using,
            update_fields=fields,
        )

    def _has_moved(self) -> bool:
        same = Q(kind=self.kind, base_url=self.base_url)
        return ModelProvider.objects.filter(pk=self.pk).exclude(same).exists()

    def set_key(self, key: str) -> None:
        self._store("sealed_key", key)

    def set_headers(self, headers: dict[str, str]) -> None:
        self._store("sealed_headers", json.dumps(headers) if headers else "")

    def _store(self, field: str, secret: str) -> None:
        token = encryption.encrypt(secret, place=self._place(field)) if secret else b""
        setattr(self, field, token)
        self.key_changed_at = timezone.now()
        self.save(update_fields=[field, "key_changed_at"])

    def stored_key(self) -> str:
        """Return the key; raise secrets.Undecryptable."""
        return self._stored("sealed_key")

    def stored_headers(self) -> dict[str, str]:
        """Return the headers; raise secrets.Undecryptable."""
        read: dict[str, str] = json.loads(self._stored("sealed_headers") or "{}")
        return read

    def _stored(self, field: str) -> str:
        token = bytes(getattr(self, field))
        return encryption.decrypt(token, place=self._place(field)) if token else ""

    def _place(self, field: str) -> str:
        return f"chatapp_modelprovider:{self.pk}:{field}"


class ProviderDraft(Draft):
    """One provider that is being added, with the result of its check. No chat uses it. Its secrets
    are the key and the headers."""

    CHANGING = ("typed", "secrets", "secrets_for", "report")

    # The kind and the address to which the secrets may be sent.
    secrets_for = models.CharField(max_length=2100, blank=True)

    class Meta(Draft.Meta):
        verbose_name = _("provider draft")
        verbose_name_plural = _("provider drafts")

    def __str__(self) -> str:
        return str(self.typed.get("label") or self.pk)


class ChatModels(models.QuerySet["ChatModel"]):
    """Models by who may use them."""

    def for_member(self, person: Member | None) -> Self:
        """Return the models that this person may use now. Lists and turns use no other query."""
        Audience = ChatModel.Audience
        usable = Q(audience=Audience.EVERYONE)
        if person is not None:
            shared = ChatModel.objects.filter(audience=Audience.GROUPS, groups__user=person.pk)
            usable |= Q(pk__in=shared.values("pk"))
        return self.filter(usable, is_enabled=True, provider__is_enabled=True)


class ChatModel(models.Model):
    """A model of a provider: its abilities, its prices, who may use it and its parameters.

    An ability is None if unknown: the model is then asked, and what it refuses is left out.
    """

    class Audience(models.TextChoices):
        EVERYONE = "everyone", _("Every member")
        GROUPS = "groups", _("Members of certain groups")

    class Effort(models.TextChoices):
        PROVIDER = "", _("Provider default")
        OFF = "off", _("Off")
        LOW = "low", _("Low")
        MEDIUM = "medium", _("Medium")
        HIGH = "high", _("High")

    provider = models.ForeignKey(
        ModelProvider,
        verbose_name=_("provider"),
        on_delete=models.CASCADE,
        related_name="chat_models",
    )
    name = models.CharField(
        _("name"),
        max_length=NAME_CHARACTERS,
        help_text=_("The provider’s name for the model. For Azure OpenAI, the deployment name."),
    )
    label = models.CharField(
        _("display name"), max_length=100, blank=True, help_text=_("Shown instead of the name.")
    )
    is_enabled = models.BooleanField(_("enabled"), default=True)
    position = models.PositiveSmallIntegerField(
        _("position"),
        default=10,
        help_text=_("Lower numbers come first among the models of the provider."),
    )

    context_tokens = models.PositiveIntegerField(
        _("context"), null=True, blank=True, help_text=_("Maximum tokens in one request.")
    )
    output_tokens = models.PositiveIntegerField(
        _("model’s maximum answer (tokens)"), null=True, blank=True
    )
    takes_pictures = models.BooleanField(_("accepts images"), null=True, blank=True)
    takes_documents = models.BooleanField(_("accepts PDFs"), null=True, blank=True)
    takes_tools = models.BooleanField(_("uses tools"), default=True)
    reasons = models.BooleanField(_("can reason"), null=True, blank=True)

    input_price = models.DecimalField(
        _("input price"),
        max_digits=12,
        decimal_places=6,
        null=True,
        blank=True,
        help_text=_("Per million input tokens."),
    )
    cached_price = models.DecimalField(
        _("cache read price"),
        max_digits=12,
        decimal_places=6,
        null=True,
        blank=True,
        help_text=_(
            "Per million input tokens from the provider’s cache. If empty, the input price."
        ),
    )
    cache_write_price = models.DecimalField(
        _("cache write price"),
        max_digits=12,
        decimal_places=6,
        null=True,
        blank=True,
        help_text=_(
            "Per million input tokens written to the provider’s cache. If empty, the "
            "input price, or 1.25 times the input price for Claude."
        ),
    )
    output_price = models.DecimalField(
        _("output price"),
        max_digits=12,
        decimal_places=6,
        null=True,
        blank=True,
        help_text=_("Per million output tokens."),
    )
    currency = models.CharField(
        _("currency"), max_length=3, default="USD", validators=[check_currency]
    )

    audience = models.CharField(
        _("who may use it"), max_length=8, choices=Audience.choices, default=Audience.EVERYONE
    )
    groups = models.ManyToManyField(
        Group, blank=True, related_name="chat_models", verbose_name=_("groups")
    )

    effort = models.CharField(
        _("reasoning"), max_length=6, choices=Effort.choices, blank=True, default=""
    )
    asked_tokens = models.PositiveIntegerField(
        _("stop answers after (tokens)"),
        null=True,
        blank=True,
        validators=[MinValueValidator(1)],
        help_text=_("If empty, the provider default."),
    )
    temperature = models.FloatField(
        _("temperature"),
        null=True,
        blank=True,
        validators=[MinValueValidator(0.0), MaxValueValidator(2.0)],
        help_text=_("How varied answers are, from 0 to 2. If empty, the provider default."),
    )
    system_prompt = models.TextField(
        _("system prompt"),
        blank=True,
        help_text=_("Added to the prompt of every chat with this model."),
    )

    objects = ChatModels.as_manager()

    class Meta:
        verbose_name = _("model")
        verbose_name_plural = _("models")
        ordering = ["provider__position", "provider__slug", "position", "name"]
        constraints = [
            models.UniqueConstraint(fields=["provider", "name"], name="one_model_of_a_name")
        ]

    def __str__(self) -> str:
        return self.label or self.name

    @property
    def id_in_chat(self) -> str:
        return f"{self.provider.slug}:{self.name}"
