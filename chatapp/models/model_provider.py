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

from chatapp.models.people.member import Member
from mcpconfig.models.sealed_field import SealedField
from mcpconfig.secrets import encryption

check_currency = RegexValidator(r"^[A-Z]{3}$", "Write the currency's three letters, such as USD.")


class ModelProvider(models.Model):
    """One account at a provider, or a model server. `slug` begins the ids of its models.

    The key and the headers are encrypted for this row. They are set by `set_key` and `set_headers`,
    and deleted when the address or the kind changes, because that is another server.
    """

    class Kind(models.TextChoices):
        OPENAI = "openai", "OpenAI (Responses)"
        OPENAI_CHAT = "openai-chat", "OpenAI-compatible server (Chat Completions)"
        ANTHROPIC = "anthropic", "Anthropic"
        GOOGLE = "google", "Google Gemini"
        BEDROCK = "bedrock", "Amazon Bedrock"

    class KeyPlace(models.TextChoices):
        STORED = "stored", "Stored here, encrypted"
        ENVIRONMENT = "environment", "In the server's environment, with the address"
        NONE = "none", "None is needed"

    slug = models.SlugField(
        "short name", max_length=40, unique=True, help_text="Begins the ids of its models."
    )
    kind = models.CharField(max_length=11, choices=Kind.choices)
    label = models.CharField("name", max_length=80, help_text="What people read.")
    is_enabled = models.BooleanField("enabled", default=True)
    position = models.PositiveSmallIntegerField(
        default=10, help_text="Smaller numbers come first where people choose a model."
    )
    base_url = models.CharField(
        "address",
        max_length=2000,
        blank=True,
        help_text="Empty: the provider's own. A compatible server's usually ends in /v1.",
    )
    region = models.CharField(max_length=40, blank=True, help_text="Amazon's, as in eu-central-1.")
    key_place = models.CharField(
        "where the key is", max_length=11, choices=KeyPlace.choices, default=KeyPlace.STORED
    )
    key_id = models.CharField(
        "key ID",
        max_length=200,
        blank=True,
        help_text="Amazon's, beside a secret key. Empty: the key is a bearer token of Bedrock.",
    )
    sealed_key = SealedField(default=b"")
    sealed_headers = SealedField(default=b"")
    key_changed_at = models.DateTimeField(null=True, editable=False)
    offers_unlisted = models.BooleanField(
        "any model",
        default=False,
        help_text="Members may also use models that are not in the list, by name. A model that "
        "only some may use can then be reached under another name, if the provider has one.",
    )

    class Meta:
        verbose_name = "provider"
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
        EVERYONE = "everyone", "Every member"
        GROUPS = "groups", "Members of these groups"

    class Effort(models.TextChoices):
        PROVIDER = "", "As the provider has it"
        OFF = "off", "Off"
        LOW = "low", "Low"
        MEDIUM = "medium", "Medium"
        HIGH = "high", "High"

    provider = models.ForeignKey(
        ModelProvider, on_delete=models.CASCADE, related_name="chat_models"
    )
    name = models.CharField(
        max_length=150, help_text="As the provider calls it. For Azure: the deployment."
    )
    label = models.CharField(
        "shown as", max_length=100, blank=True, help_text="What people read, if not the name."
    )
    is_enabled = models.BooleanField("enabled", default=True)
    position = models.PositiveSmallIntegerField(default=10)

    context_tokens = models.PositiveIntegerField(
        "context", null=True, blank=True, help_text="Tokens that it can read at once."
    )
    output_tokens = models.PositiveIntegerField(
        "longest answer", null=True, blank=True, help_text="Tokens that it can write at most."
    )
    takes_pictures = models.BooleanField(null=True, blank=True)
    takes_documents = models.BooleanField("takes PDF", null=True, blank=True)
    takes_tools = models.BooleanField("uses tools", default=True)
    reasons = models.BooleanField(null=True, blank=True)

    input_price = models.DecimalField(
        max_digits=12, decimal_places=6, null=True, blank=True, help_text="A million tokens read."
    )
    cached_price = models.DecimalField(
        max_digits=12,
        decimal_places=6,
        null=True,
        blank=True,
        help_text="A million tokens read from the provider's cache. Empty: as the others.",
    )
    cache_write_price = models.DecimalField(
        max_digits=12,
        decimal_places=6,
        null=True,
        blank=True,
        help_text="A million tokens read and written into the provider's cache. Empty: a quarter "
        "more than the others for Claude, else as the others.",
    )
    output_price = models.DecimalField(
        max_digits=12,
        decimal_places=6,
        null=True,
        blank=True,
        help_text="A million tokens written.",
    )
    currency = models.CharField(max_length=3, default="USD", validators=[check_currency])

    audience = models.CharField(
        "who may use it", max_length=8, choices=Audience.choices, default=Audience.EVERYONE
    )
    groups = models.ManyToManyField(Group, blank=True, related_name="chat_models")

    effort = models.CharField(
        "reasoning", max_length=6, choices=Effort.choices, blank=True, default=""
    )
    asked_tokens = models.PositiveIntegerField(
        "answer limit",
        null=True,
        blank=True,
        validators=[MinValueValidator(1)],
        help_text="Tokens after which an answer is cut. Empty: as the provider has it.",
    )
    temperature = models.FloatField(
        null=True, blank=True, validators=[MinValueValidator(0.0), MaxValueValidator(2.0)]
    )
    system_prompt = models.TextField(
        blank=True, help_text="What this model is told before every conversation, in addition."
    )

    objects = ChatModels.as_manager()

    class Meta:
        verbose_name = "model"
        ordering = ["provider__position", "provider__slug", "position", "name"]
        constraints = [
            models.UniqueConstraint(fields=["provider", "name"], name="one_model_of_a_name")
        ]

    def __str__(self) -> str:
        return self.label or self.name

    @property
    def id_in_chat(self) -> str:
        return f"{self.provider.slug}:{self.name}"
