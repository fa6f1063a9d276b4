"""The admin page *Search by meaning*: the model for embeddings, how far the vectors are, and a
test."""

import time
from typing import Any, cast

from asgiref.sync import async_to_sync
from django import forms
from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied, ValidationError
from django.db import transaction
from django.forms import ModelForm
from django.forms.utils import flatatt
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import URLPattern, path
from django.utils.formats import number_format
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as _lazy
from django.views.decorators.http import require_POST

from chatapp.admin.single_row import SingleRowMixin
from chatapp.audit.admin_entries import log_model_test
from chatapp.audit.audit_log import Who
from chatapp.background import jobs
from chatapp.models import EmbeddingProgress, EmbeddingSettings, Member, ModelProvider
from chatapp.projects import vectors
from chatapp.providers import environment
from chatapp.providers.access.embeddings import build_embedder, embed
from chatapp.providers.events import ProviderError
from chatapp.providers.registry import PROVIDERS
from mcpconfig.services.own_services import TOO_OFTEN, claim_look

SAMPLE = "A short text, to test embeddings."
TEST_SECONDS = 20.0
MEANING_FIELDS = {"model", "dimensions"}


class ModelInput(forms.TextInput):
    """A text field that suggests the usual models of the providers that are set up."""

    def render(self, name: str, value: Any, attrs: Any = None, renderer: Any = None) -> SafeString:
        list_id = f"id_{name}_known"
        field = super().render(name, value, {**(attrs or {}), "list": list_id}, renderer)
        options = format_html_join("", '<option value="{}">', ((each,) for each in list_known()))
        return format_html("{}<datalist{}>{}</datalist>", field, flatatt({"id": list_id}), options)


def list_known() -> list[str]:
    """Return the ids of the usual models for embeddings of the providers that are set up."""
    rows = ModelProvider.objects.filter(is_enabled=True)
    prefixes = [(row.slug, row.kind) for row in rows]
    taken = {row.slug for row in rows}
    prefixes += [
        (kind, kind)
        for kind in environment.VARIABLES
        if kind not in taken and environment.is_offered(kind)
    ]
    return [
        f"{prefix}:{name}" for prefix, kind in prefixes for name in PROVIDERS[kind].embedding_models
    ]


class EmbeddingForm(ModelForm):
    class Meta:
        model = EmbeddingSettings
        fields = ("model", "dimensions", "price", "currency")
        widgets = {
            "model": ModelInput(
                attrs={"autocomplete": "off", "spellcheck": "false", "class": "vTextField code"}
            )
        }

    def clean_model(self) -> str:
        """Refuse a model that cannot be asked, without a request."""
        model: str = self.cleaned_data["model"]
        if model:
            try:
                build_embedder(EmbeddingSettings(model=model))
            except ProviderError as error:
                raise ValidationError(f"{error.message} {error.hint}".strip()) from error
        return model


@admin.register(EmbeddingSettings)
class EmbeddingSettingsAdmin(SingleRowMixin, admin.ModelAdmin):
    """The model for embeddings, with a test."""

    form = EmbeddingForm
    fieldsets = (
        (None, {"fields": ("model", "dimensions")}),
        (_lazy("Price"), {"fields": ("price", "currency")}),
    )
    change_form_template = "admin/chatapp/embeddingsettings/change_form.html"

    def get_urls(self) -> list[URLPattern]:
        test = self.admin_site.admin_view(require_POST(self.test))
        return [path("test/", test, name="chatapp_embeddingsettings_test"), *super().get_urls()]

    def change_view(
        self,
        request: HttpRequest,
        object_id: str,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        stored = EmbeddingSettings.current()
        context = {
            "is_on": bool(stored.model),
            "coverage": vectors.measure_coverage() if stored.model else None,
            "progress": EmbeddingProgress.objects.filter(pk=1).first(),
            **(extra_context or {}),
        }
        response: HttpResponse = super().change_view(request, object_id, form_url, context)
        return response

    def save_model(
        self, request: HttpRequest, obj: EmbeddingSettings, form: ModelForm, change: bool
    ) -> None:
        super().save_model(request, obj, form, change)
        if not MEANING_FIELDS & set(form.changed_data):
            return
        vectors.forget_failure()
        if obj.model:
            transaction.on_commit(jobs.make_missing_vectors.enqueue)
        else:
            vectors.remove_all()

    def test(self, request: HttpRequest) -> HttpResponse:
        """Ask the stored model for the vector of a short text. It costs a few tokens."""
        if not self.has_change_permission(request):
            raise PermissionDenied
        person = cast(Member, request.user)
        back = redirect("admin:chatapp_embeddingsettings_change", 1)
        stored = EmbeddingSettings.current()
        if not stored.model:
            messages.error(request, _("Choose a model and save, then test it."))
            return back
        if not claim_look(person):
            messages.error(request, str(TOO_OFTEN))
            return back
        log_model_test(stored.model, Who.of(person))
        _report_test(request, stored, person)
        return back


def _report_test(request: HttpRequest, stored: EmbeddingSettings, person: Member) -> None:
    began = time.monotonic()
    try:
        found = async_to_sync(embed)(
            build_embedder(stored), [SAMPLE], "query", payer_id=person.pk, seconds=TEST_SECONDS
        )
    except ProviderError as error:
        text = " ".join(filter(None, (error.message, error.hint)))
        if error.detail and error.detail not in text:
            text = f"{text} {error.detail}"
        messages.error(request, _("The test failed. %(reason)s") % {"reason": text})
        return
    values = {
        "model": stored.model,
        "count": number_format(len(found.vectors[0]), force_grouping=True),
        "milliseconds": number_format(round(1_000 * (time.monotonic() - began))),
    }
    text = _(
        "The test passed: %(model)s answered with %(count)s dimensions in %(milliseconds)s ms."
    )
    messages.success(request, text % values)
