"""The admin of identity providers, at which people sign in once for many services."""

from typing import Any

from django.conf import settings
from django.contrib import admin, messages
from django.db.models import Count, QuerySet
from django.forms import ModelForm
from django.http import HttpRequest
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as _lazy

from mcpconfig.models import IdentityProvider
from mcpconfig.oauth.servers.client_metadata import build_company_redirect_uri
from mcpconfig.services.identity_provider_form import IdentityProviderForm

PUBLIC_URL_MISSING = _lazy(
    "Set PUBLIC_URL in the server’s environment first. The redirect URI begins with it."
)


@admin.register(IdentityProvider)
class IdentityProviderAdmin(admin.ModelAdmin):
    empty_list = _lazy(
        "No identity providers yet. Add one if members sign in to services with a company account."
    )
    form = IdentityProviderForm
    list_display = ("name", "title", "issuer", "service_count", "people_count")
    search_fields = ("name", "title", "issuer")
    readonly_fields = ("redirect_uri", "service_count", "people_count")
    fieldsets = (
        (_lazy("Identity provider"), {"fields": ("name", "title")}),
        (_lazy("Address"), {"fields": ("issuer", "allows_private_addresses")}),
        (
            _lazy("Client registration"),
            {"fields": ("redirect_uri", "client_id", "client_secret")},
        ),
        (_lazy("Usage"), {"fields": ("service_count", "people_count")}),
    )

    def get_fieldsets(self, request: HttpRequest, obj: IdentityProvider | None = None) -> Any:
        return self.fieldsets if obj is not None else self.fieldsets[:-1]

    def get_queryset(self, request: HttpRequest) -> QuerySet[IdentityProvider]:
        providers: QuerySet[IdentityProvider] = super().get_queryset(request)
        return providers.annotate(
            service_count=Count("services", distinct=True),
            people_count=Count("sign_ins", distinct=True),
        )

    def save_model(
        self, request: HttpRequest, obj: IdentityProvider, form: ModelForm, change: bool
    ) -> None:
        if isinstance(form, IdentityProviderForm):
            form.store()
        if change and {"issuer", "client_id"} & set(form.changed_data):
            text = _(
                "All members must sign in again. The sign-ins of the old issuer or client are gone."
            )
            messages.warning(request, text)

    @admin.display(description=_lazy("Redirect URI"))
    def redirect_uri(self, provider: IdentityProvider) -> str:
        """Return the redirect URI that has to be registered at the provider."""
        if not settings.PUBLIC_URL:
            return str(PUBLIC_URL_MISSING)
        if not provider.name:
            uri = f"{settings.PUBLIC_URL}/oauth/company/NAME/callback"
            return _("%(uri)s, with NAME replaced by the short name above") % {"uri": uri}
        return build_company_redirect_uri(provider, settings.PUBLIC_URL)

    @admin.display(description=_lazy("Services"))
    def service_count(self, provider: IdentityProvider) -> int:
        return int(getattr(provider, "service_count", 0))

    @admin.display(description=_lazy("Members signed in"))
    def people_count(self, provider: IdentityProvider) -> int:
        return int(getattr(provider, "people_count", 0))
