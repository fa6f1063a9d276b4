"""The forms of model providers and chat models. Stored secrets are never rendered."""

import re
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as _lazy

from chatapp.models import ChatModel, ModelProvider, ProviderDraft
from chatapp.providers import environment
from chatapp.providers.access.accounts import describe_key_place
from chatapp.providers.access.provider_drafts import FIELDS, SECRETS, open_secrets
from chatapp.providers.events import ProviderError

Kind = ModelProvider.Kind
KeyPlace = ModelProvider.KeyPlace
# Fields that an account in the environment sets itself.
ENVIRONMENT_FIELDS = ("base_url", "region", "key_id", "key", "headers")
HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


class ProviderForm(forms.ModelForm):
    """A provider with its secrets. An empty key or empty headers keep the stored ones."""

    key = forms.CharField(
        label=_lazy("Key"),
        required=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
    )
    headers = forms.CharField(
        label=_lazy("Headers"),
        required=False,
        widget=forms.Textarea(attrs={"rows": 3, "autocomplete": "off", "spellcheck": "false"}),
    )

    class Meta:
        model = ModelProvider
        fields = (
            *("label", "slug", "kind", "is_enabled", "position"),
            *("base_url", "region", "key_place", "key_id", "offers_unlisted"),
        )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if "key" not in self.fields:  # a person without the right to credentials
            return
        self.fields["key"].help_text = (
            _("Currently: %(state)s. Leave empty to keep it. It is never shown again.")
            % {"state": describe_key_place(self.instance)}
            if self.instance.pk
            else _("Stored encrypted and never shown again.")
        )
        has_headers = bool(self.instance.pk and self.instance.sealed_headers)
        self.fields["headers"].help_text = (
            _("Sent with every request, one per line, as “Name: value”. Replaces stored headers.")
            if has_headers
            else _("Sent with every request, one per line, as “Name: value”. Currently: not set.")
        )

    def clean_slug(self) -> str:
        slug: str = self.cleaned_data["slug"]
        if slug == "demo":
            raise ValidationError(_("The demo assistant uses this name. Choose another."))
        return slug

    def clean_base_url(self) -> str:
        url: str = self.cleaned_data["base_url"].strip()
        try:
            environment.check_address(url, _("This"))
        except ProviderError as error:
            raise ValidationError(error.message) from error
        return url

    def clean_key(self) -> str:
        key: str = self.cleaned_data["key"].strip()
        if not (key.isascii() and (key.isprintable() or not key)):
            raise ValidationError(_("The key contains invalid characters. Copy it again."))
        return key

    def clean_headers(self) -> dict[str, str]:
        """Parse lines of `Name: value` into a dictionary."""
        headers: dict[str, str] = {}
        for line in self.cleaned_data["headers"].splitlines():
            name, _colon, value = (part.strip() for part in line.partition(":"))
            if not line.strip():
                continue
            if not (HEADER_NAME.fullmatch(name) and value.isascii() and value.isprintable()):
                raise ValidationError(_("Enter one header per line, as “Name: value”."))
            headers[name] = value
        return headers

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        if "key" not in self.fields:
            self._check_without_key()
        elif cleaned.get("key_place") == KeyPlace.ENVIRONMENT:
            self._check_environment(cleaned)
        else:
            self._check_provider(cleaned)
        return cleaned

    def _check_without_key(self) -> None:
        """Refuse an admin without the right to credentials to send the key somewhere else."""
        for field in ("base_url", "kind", "slug", "region"):
            if field in self.changed_data:
                text = _("You need the right to change credentials to change this.")
                self.add_error(field, text)

    def _check_environment(self, cleaned: dict[str, Any]) -> None:
        for field in ENVIRONMENT_FIELDS:
            if cleaned.get(field):
                text = _("Leave this empty. The environment sets the key and the address.")
                self.add_error(field, text)
        slug = cleaned.get("slug")
        if slug in environment.VARIABLES and slug != cleaned.get("kind"):
            self.add_error("slug", _("This short name belongs to another kind of provider."))

    def _check_provider(self, cleaned: dict[str, Any]) -> None:
        kind, place = cleaned.get("kind"), cleaned.get("key_place")
        if cleaned.get("slug") in environment.VARIABLES:
            text = _("The account from the environment uses this short name. Choose another.")
            self.add_error("slug", text)
        if place == KeyPlace.STORED and not cleaned.get("key") and not self._keeps_key():
            text = _("Enter the key. A stored key is not reused for a new address or kind.")
            self.add_error("key", text)
        if place == KeyPlace.NONE and kind in environment.VARIABLES:
            if environment.VARIABLES[kind].needs_key:
                self.add_error("key_place", _("This kind of provider needs a key."))
            if cleaned.get("key"):
                self.add_error("key", _("Leave this empty, or choose to store the key."))
        if kind == Kind.BEDROCK and not cleaned.get("region"):
            self.add_error("region", _("Enter the AWS region, such as eu-central-1."))

    @property
    def is_moved(self) -> bool:
        """Whether the provider has a new address or kind, to which no stored secret is sent."""
        return not {"base_url", "kind"}.isdisjoint(self.changed_data)

    def _keeps_key(self) -> bool:
        """Return whether a stored key stays in use after this save."""
        has_stored_key = bool(self.instance.pk and self.instance.sealed_key)
        return has_stored_key and not self.is_moved

    def store_secrets(self) -> None:
        """Encrypt and store the entered secrets, and delete the ones that are no longer used.

        Call this after the provider was saved, because the encryption is bound to its row.
        """
        place = self.cleaned_data["key_place"]
        if self.cleaned_data["key"] or place != KeyPlace.STORED:
            self.instance.set_key(self.cleaned_data["key"])
        if self.cleaned_data["headers"] or place == KeyPlace.ENVIRONMENT:
            self.instance.set_headers(self.cleaned_data["headers"])


class AddProviderForm(ProviderForm):
    """The fields of a new provider. An empty key or empty headers keep those of the draft."""

    # The page can be checked without a short name, which is then made from the name.
    use_required_attribute = False

    class Meta(ProviderForm.Meta):
        fields = FIELDS  # type: ignore[assignment]  # fewer than those of a stored provider

    def __init__(self, *args: Any, draft: ProviderDraft, **kwargs: Any) -> None:
        self.kept = open_secrets(draft)
        super().__init__(*args, initial=draft.typed, **kwargs)
        self.fields["key_place"].choices = [  # type: ignore[attr-defined]
            (place.value, place.label) for place in (KeyPlace.STORED, KeyPlace.NONE)
        ]
        for name in SECRETS:
            if name in self.kept:
                self.fields[name].help_text = _("Entered. Leave it empty to keep it.")

    def clean_key(self) -> str:
        self._add_kept("key")
        return super().clean_key()

    def clean_headers(self) -> dict[str, str]:
        self._add_kept("headers")
        return super().clean_headers()

    def _add_kept(self, name: str) -> None:
        self.cleaned_data[name] = self.cleaned_data[name] or self.kept.get(name, "")

    def clean(self) -> dict[str, Any]:
        """Forget a kept key that is not used any more."""
        if self.cleaned_data.get("key_place") == KeyPlace.NONE and not self.data.get("key"):
            self.cleaned_data["key"] = ""
        return super().clean()


class ModelForm(forms.ModelForm):
    class Meta:
        model = ChatModel
        fields = (
            *("provider", "name", "label", "is_enabled", "position", "audience", "groups"),
            *("context_tokens", "output_tokens", "takes_pictures", "takes_documents"),
            *("takes_tools", "reasons", "effort", "asked_tokens", "temperature", "system_prompt"),
            *("input_price", "cached_price", "cache_write_price", "output_price", "currency"),
        )
        widgets = {
            "groups": forms.CheckboxSelectMultiple,
            "system_prompt": forms.Textarea(attrs={"rows": 4}),
        }

    def clean_name(self) -> str:
        name: str = self.cleaned_data["name"]
        if not name.isprintable():
            raise ValidationError(_("The name contains invisible characters."))
        return name

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        if cleaned.get("audience") == ChatModel.Audience.GROUPS and not cleaned.get("groups"):
            self.add_error("groups", _("Choose a group. Otherwise no one can use the model."))
        limit, output_tokens = cleaned.get("asked_tokens"), cleaned.get("output_tokens")
        if limit and output_tokens and limit > output_tokens:
            self.add_error("asked_tokens", _("This is more than the model’s maximum answer."))
        return cleaned
