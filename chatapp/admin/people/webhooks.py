"""The admin of webhooks: where they post, about whom, and whether they arrive."""

from typing import Any

from asgiref.sync import async_to_sync
from django import forms
from django.conf import settings
from django.contrib import admin, messages
from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import QuerySet
from django.forms import ModelForm
from django.http import HttpRequest
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as _lazy

from chatapp.admin.badges import EMPTY
from chatapp.audit.admin_entries import Kind, log_act
from chatapp.models import Webhook
from chatapp.notifications import outbound, webhooks
from mcpconfig.secrets.encryption import DecryptionError, get_visible_suffix

Format = Webhook.Format
MIN_SECRET_CHARACTERS = 16
NO_SECRET = (Format.SLACK, Format.TEAMS)


class WebhookForm(forms.ModelForm):
    """A webhook with its secrets. An empty address or secret keeps the stored one."""

    address = forms.CharField(
        label=_lazy("Address"),
        required=False,
        max_length=outbound.MAX_ADDRESS_CHARACTERS,
        widget=forms.PasswordInput(attrs={"autocomplete": "off", "class": "vTextField"}),
    )
    secret = forms.CharField(
        label=_lazy("Secret"),
        required=False,
        max_length=500,
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password", "class": "vTextField"}),
    )

    class Meta:
        model = Webhook
        fields = (
            *("name", "format", "is_enabled", "room"),
            *("audience", "groups", "members", "sends_waiting", "sends_answers"),
        )
        widgets = {"groups": forms.CheckboxSelectMultiple}

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if "address" not in self.fields:  # a person with view permission only
            return
        self.fields["address"].help_text = _(
            "Slack and Teams: the URL of the incoming webhook. Matrix: the URL of the homeserver. "
            "It must begin with https://. Currently: %(state)s."
        ) % {"state": describe_address(self.instance)}
        self.fields["secret"].help_text = _(
            "Matrix: an access token that may post in the room. JSON: the secret of the signature, "
            "at least %(count)d characters. Stored encrypted and never shown again. "
            "Currently: %(state)s."
        ) % {
            "count": MIN_SECRET_CHARACTERS,
            "state": _("stored") if self.instance.sealed_secret else _("not set"),
        }

    def clean_address(self) -> str:
        address: str = self.cleaned_data["address"].strip()
        if address:
            try:
                outbound.check_address(address, settings.WEBHOOK_PRIVATE_HOSTS)
            except outbound.BadAddress as error:
                raise ValidationError(str(error)) from error
        elif not self.instance.sealed_address:
            raise ValidationError(_("Enter the address."))
        return address

    def clean_secret(self) -> str:
        secret: str = self.cleaned_data["secret"].strip()
        if not (secret.isascii() and (secret.isprintable() or not secret)):
            raise ValidationError(_("The secret contains invalid characters. Copy it again."))
        return secret

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        keeps_members = (
            "members" not in self.fields and self.instance.pk and self.instance.members.exists()
        )
        if cleaned.get("audience") == Webhook.Audience.CHOSEN and not (
            cleaned.get("groups") or cleaned.get("members") or keeps_members
        ):
            self.add_error("groups", _("Choose a group or a member. Otherwise nothing is posted."))
        if not cleaned.get("sends_waiting") and not cleaned.get("sends_answers"):
            self.add_error("sends_waiting", _("Choose what is posted."))
        self._check_format(cleaned)
        return cleaned

    def _check_format(self, cleaned: dict[str, Any]) -> None:
        kind, secret = cleaned.get("format"), cleaned.get("secret", "")
        keeps_secret = bool(self.instance.sealed_secret) and not self.is_moved
        if kind in (Format.MATRIX, Format.JSON) and not secret and not keeps_secret:
            text = _("Enter the secret. A stored one is not reused for a new address or format.")
            self.add_error("secret", text)
        if kind in NO_SECRET and secret:
            self.add_error("secret", _("Leave this empty. The address is the secret."))
        if kind == Format.MATRIX and not cleaned.get("room", "").startswith("!"):
            self.add_error(
                "room", _("Enter the ID of the room. It begins with an exclamation mark.")
            )
        if kind == Format.JSON and secret:
            try:
                is_long = len(webhooks.decode_secret(secret)) >= MIN_SECRET_CHARACTERS
            except ValueError:
                self.add_error("secret", _("After whsec_, the secret must be base64."))
            else:
                if not is_long:
                    self.add_error("secret", _("The secret is too short."))

    @property
    def is_moved(self) -> bool:
        """Whether it goes to another place, to which no stored secret is sent."""
        return not {"address", "format"}.isdisjoint(self.changed_data)

    def store_secrets(self) -> None:
        """Encrypt and store what was entered, after the row was saved."""
        webhook, cleaned = self.instance, self.cleaned_data
        if cleaned["address"]:
            webhook.set_address(cleaned["address"])
        if cleaned["secret"] or self.is_moved:
            webhook.set_secret(cleaned["secret"])


def describe_address(webhook: Webhook) -> str:
    """Return the host and the last characters of an address, which is a secret."""
    if not webhook.pk or not webhook.sealed_address:
        return _("not set")
    try:
        return f"{webhook.host} …{get_visible_suffix(webhook.read_address())}"
    except DecryptionError:
        return _("unreadable")


@admin.register(Webhook)
class WebhookAdmin(admin.ModelAdmin):
    empty_list = _lazy(
        "No webhooks yet. Add one, and a Slack, Teams or Matrix channel is told what waits."
    )
    form = WebhookForm
    list_display = ("name", "format", "host", "audience", "outcome", "sent_at", "is_enabled")
    list_filter = ("format", "is_enabled")
    search_fields = ("name",)
    autocomplete_fields = ("members",)
    readonly_fields = ("outcome", "sent_at", "failed_at")
    actions = ("send_test",)
    fieldsets = (
        (None, {"fields": ("name", "is_enabled")}),
        (_lazy("Place"), {"fields": ("format", "address", "secret", "room")}),
        (_lazy("Whose events"), {"fields": ("audience", "groups", "members")}),
        (_lazy("What is posted"), {"fields": ("sends_waiting", "sends_answers")}),
        (_lazy("Outcome"), {"fields": ("outcome", "sent_at", "failed_at")}),
    )

    def get_exclude(self, request: HttpRequest, obj: Webhook | None = None) -> tuple[str, ...]:
        """Leave out the field of members, unless the admin may see members."""
        return () if request.user.has_perm("chatapp.view_member") else ("members",)

    def get_fieldsets(self, request: HttpRequest, obj: Webhook | None = None) -> Any:
        hidden = self.get_exclude(request, obj)
        return [
            (title, {"fields": tuple(each for each in shown["fields"] if each not in hidden)})
            for title, shown in super().get_fieldsets(request, obj)
        ]

    def save_model(self, request: HttpRequest, obj: Webhook, form: ModelForm, change: bool) -> None:
        address = form.cleaned_data.get("address") if isinstance(form, WebhookForm) else ""
        if address:
            obj.host = outbound.check_address(address, settings.WEBHOOK_PRIVATE_HOSTS)
        with transaction.atomic():
            super().save_model(request, obj, form, change)
            if isinstance(form, WebhookForm):
                form.store_secrets()

    @admin.display(description=_lazy("Outcome"))
    def outcome(self, webhook: Webhook) -> str:
        if webhook.is_failing:
            return _("Failed: %(reason)s") % {"reason": webhook.failure}
        return _("Works") if webhook.sent_at else EMPTY

    @admin.action(description=_lazy("Send a test message"), permissions=["change"])
    def send_test(self, request: HttpRequest, queryset: QuerySet[Webhook]) -> None:
        for webhook in queryset:
            log_act(Kind.NOTIFICATIONS_TESTED, f"webhook {webhook.name}", "sent")
            names = {"name": webhook.name}
            try:
                async_to_sync(webhooks.post_test)(webhook)
            except outbound.NotSent as error:
                text = _("%(name)s: the test failed. %(reason)s")
                messages.error(request, text % {**names, "reason": error})
            else:
                messages.success(request, _("%(name)s: the test was accepted.") % names)
