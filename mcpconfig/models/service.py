"""Services: what an admin configured about one MCP server, and what was learned of it."""

from collections.abc import Iterable
from typing import Any

from django.db import models, transaction
from django.db.models.base import ModelBase


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

    name = models.SlugField(max_length=60, unique=True)
    title = models.CharField(max_length=100, blank=True)
    description = models.TextField(blank=True)
    url = models.CharField("URL", max_length=2000)
    transport = models.CharField(max_length=15, choices=Transport.choices, default=Transport.AUTO)
    authentication = models.CharField(
        max_length=7, choices=Authentication.choices, default=Authentication.NONE
    )
    is_enabled = models.BooleanField("enabled", default=True)
    allows_private_addresses = models.BooleanField(
        "allow private addresses",
        default=False,
        help_text="For a server in your own network: permits http:// and private addresses.",
    )
    is_trusted = models.BooleanField(
        "trusted", default=False, help_text="What it says of its own tools may lower a risk."
    )

    known_transport = models.CharField(max_length=15, blank=True, editable=False)
    known_era = models.CharField(max_length=20, blank=True, editable=False)
    discovery = models.JSONField(null=True, editable=False)
    left_out = models.JSONField(default=list, editable=False)
    tools_listed_at = models.DateTimeField(null=True, editable=False)
    tools_fresh_until = models.DateTimeField(null=True, editable=False)
    last_success_at = models.DateTimeField(null=True, editable=False)
    last_error = models.JSONField(null=True, editable=False)

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

    @property
    def state(self) -> str:
        """How it does, in a word."""
        if not self.is_enabled:
            return "disabled"
        if self.last_error is not None:
            return "failing"
        return "working" if self.last_success_at is not None else "not tried"

    def forgotten_facts(self) -> dict[str, Any]:
        """The fields that hold what was learned, as they are before anything is."""
        return {
            "known_transport": "",
            "known_era": "",
            "discovery": None,
            "left_out": [],
            "tools_listed_at": None,
            "tools_fresh_until": None,
            "last_success_at": None,
            "last_error": None,
        }

    def _has_moved(self) -> bool:
        return Service.objects.filter(pk=self.pk).exclude(url=self.url).exists()

    def _leave_old_server(self) -> None:
        Credential.objects.filter(service_id=self.pk).delete()
        self._state.fields_cache.pop("credential", None)
        self.definitions.update(is_current=False)
        for field, value in self.forgotten_facts().items():
            setattr(self, field, value)


class Credential(models.Model):
    """The secrets that open a service, encrypted for this row. Known to `credentials.py` only."""

    service = models.OneToOneField(Service, on_delete=models.CASCADE, related_name="credential")
    bearer = models.BinaryField(default=b"")
    headers = models.BinaryField(default=b"")
    changed_at = models.DateTimeField(auto_now=True)

    def __str__(self) -> str:
        return f"credentials of {self.service_id}"
