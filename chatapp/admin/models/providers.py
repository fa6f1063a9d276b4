"""Model providers in the admin: configure, test, fetch models, and find servers on this machine."""

from collections.abc import Callable
from typing import Any

from asgiref.sync import async_to_sync
from django import forms
from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied, ValidationError
from django.db.models import Count, QuerySet
from django.forms import ModelForm
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.decorators import method_decorator
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.views.decorators.http import require_POST, require_safe

from chatapp.models import ChatModel, ModelProvider
from chatapp.providers import local_servers
from chatapp.providers.account import ListedModel
from chatapp.providers.default_models import end_of
from chatapp.providers.events import ProviderError
from chatapp.providers.words import LARGEST_COUNT
from chatapp.turns import fetched_models
from chatapp.turns.accounts import account_of, key_place_of

from . import preflight
from .environment_accounts import environment_accounts
from .provider_form import ProviderForm
from .read_only import ReadOnly

FOLDER = "admin/chatapp/modelprovider"
SEES_SERVICES = "mcpconfig.view_service"
SIZE = forms.IntegerField(required=False, min_value=1, max_value=LARGEST_COUNT)
UNSIZED = (
    "{} cuts long chats without a word. Enter on the page of each of its models how much it reads "
    "(“context”), and chats are shortened in time and visibly."
)


class ModelsInline(ReadOnly, admin.TabularInline):
    """The models of a provider; each has a page of its own."""

    model = ChatModel
    verbose_name_plural = "models"
    fields = ("link", "label", "is_enabled", "audience", "context_tokens", "ends")
    readonly_fields = fields
    extra = 0

    @admin.display(description="Model")
    def link(self, model: ChatModel) -> SafeString:
        address = reverse("admin:chatapp_chatmodel_change", args=[model.pk])
        return format_html('<a href="{}">{}</a>', address, model.name)

    @admin.display(description="Ends")
    def ends(self, model: ChatModel) -> str:
        return str(end_of(model.name) or "–")


@admin.register(ModelProvider)
class ModelProviderAdmin(admin.ModelAdmin):
    form = ProviderForm
    list_display = ("label", "slug", "kind", "address", "key_is", "count", "is_enabled")
    list_filter = ("is_enabled", "kind")
    inlines = (ModelsInline,)
    fieldsets = (
        ("What it is", {"fields": ("label", "slug", "kind", "is_enabled", "position")}),
        ("Address", {"fields": ("base_url", "region")}),
        ("Key", {"fields": ("key_place", "key", "key_id", "headers")}),
        ("Beside its listed models", {"fields": ("offers_unlisted",)}),
    )

    def get_inlines(self, request: HttpRequest, obj: ModelProvider | None) -> Any:
        """A provider that is being added has no models yet."""
        return self.inlines if obj is not None else ()

    def get_queryset(self, request: HttpRequest) -> QuerySet[ModelProvider]:
        rows: QuerySet[ModelProvider] = super().get_queryset(request)
        return rows.annotate(model_count=Count("chat_models"))

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """The accounts of the environment stand above the list: they work without a row."""
        found: dict[str, Any] = {"accounts": environment_accounts(), **(extra_context or {})}
        response: HttpResponse = super().changelist_view(request, found)
        return response

    def get_urls(self) -> list[URLPattern]:
        name = "chatapp_modelprovider_{}".format
        own = [
            path("tools/", self.admin_site.admin_view(self.tools), name=name("tools")),
            path("look/", self._guarded(self.look), name=name("look")),
            path("add-server/", self._guarded(self.add_server), name=name("add_server")),
            path("<int:pk>/test/", self._of_provider(self.test), name=name("test")),
            path("<int:pk>/fetch/", self._of_provider(self.fetch), name=name("fetch")),
            path("<int:pk>/add-models/", self._of_provider(self.add_models), name=name("add")),
        ]
        return own + super().get_urls()

    def save_model(
        self, request: HttpRequest, obj: ModelProvider, form: ModelForm, change: bool
    ) -> None:
        super().save_model(request, obj, form, change)
        if not isinstance(form, ProviderForm):
            return
        form.store_secrets()
        if change and form.is_moved:
            what = "address" if "base_url" in form.changed_data else "kind"
            text = f"The {what} is new: the old key and headers are gone, if none were entered."
            messages.warning(request, text)

    @admin.display(description="Address")
    def address(self, provider: ModelProvider) -> str:
        """As text: a stored address is never made into a link."""
        return provider.base_url or "its own"

    @admin.display(description="Where the key is")
    def key_is(self, provider: ModelProvider) -> str:
        return key_place_of(provider)

    @admin.display(description="Models")
    def count(self, provider: ModelProvider) -> int:
        return int(getattr(provider, "model_count", 0))

    @method_decorator(require_safe)
    def tools(self, request: HttpRequest) -> HttpResponse:
        """What each provider takes of the tools of all services, or of one."""
        if not self.has_view_permission(request) or not request.user.has_perm(SEES_SERVICES):
            raise PermissionDenied
        context = {
            **self.admin_site.each_context(request),
            "opts": self.opts,
            **preflight.table(request.GET.get("service", "")),
        }
        return TemplateResponse(request, f"{FOLDER}/tools.html", context)

    def _guarded(self, view: Callable[..., HttpResponse]) -> Callable[..., HttpResponse]:
        """The view behind a button: it posts and needs the right to change."""

        def posted(request: HttpRequest, **found: Any) -> HttpResponse:
            if not self.has_change_permission(request):
                raise PermissionDenied
            return view(request, **found)

        wrapped: Callable[..., HttpResponse] = self.admin_site.admin_view(require_POST(posted))
        return wrapped

    def _of_provider(
        self, view: Callable[[HttpRequest, ModelProvider], HttpResponse]
    ) -> Callable[..., HttpResponse]:
        def found(request: HttpRequest, pk: int) -> HttpResponse:
            provider = self.get_object(request, str(pk))
            if provider is None:
                raise Http404("No such provider.")
            return view(request, provider)

        return self._guarded(found)

    def test(self, request: HttpRequest, provider: ModelProvider) -> HttpResponse:
        """To list the models takes the address and the key, and costs nothing."""
        try:
            listed = _listed_by(provider)
        except ProviderError as error:
            return self._page(request, "The test failed", provider=provider, error=error)
        title = f"It works: {_counted(len(listed))} listed"
        return self._page(request, title, provider=provider, listed=listed)

    def fetch(self, request: HttpRequest, provider: ModelProvider) -> HttpResponse:
        try:
            listed = _listed_by(provider)
        except ProviderError as error:
            title = "The models could not be fetched"
            return self._page(request, title, provider=provider, error=error)
        known = set(provider.chat_models.values_list("name", flat=True))
        rows = [(model, model.name in known, end_of(model.name)) for model in listed]
        return self._page(request, "Choose models", provider=provider, choices=rows)

    def add_models(self, request: HttpRequest, provider: ModelProvider) -> HttpResponse:
        """Adds what was chosen, with what the provider says of it now."""
        chosen = set(request.POST.getlist("model"))
        try:
            listed = _listed_by(provider)
        except ProviderError as error:
            title = "The models could not be fetched"
            return self._page(request, title, provider=provider, error=error)
        added = fetched_models.keep(provider, listed, chosen)
        messages.success(request, f"Added: {_counted(added)}.")
        return redirect("admin:chatapp_modelprovider_change", provider.pk)

    def look(self, request: HttpRequest) -> HttpResponse:
        servers = async_to_sync(local_servers.look)()
        return self._page(request, "Model servers on this machine", servers=servers)

    def add_server(self, request: HttpRequest) -> HttpResponse:
        server = async_to_sync(local_servers.ask)(request.POST.get("address", ""))
        if server is None:
            messages.error(request, "That server does not answer any more. Look again.")
            return redirect("admin:chatapp_modelprovider_changelist")
        try:
            server = server.sized(SIZE.clean(request.POST.get("context_tokens", "")))
        except ValidationError as error:
            messages.error(request, f"How much its models read: {' '.join(error.messages)}")
            return redirect("admin:chatapp_modelprovider_changelist")
        provider = fetched_models.keep_server(server)
        messages.success(request, f"{provider} was added with {_counted(len(server.models))}.")
        if server.cuts_silently and server.has_unsized:
            messages.warning(request, UNSIZED.format(server.label))
        return redirect("admin:chatapp_modelprovider_change", provider.pk)

    def _page(self, request: HttpRequest, title: str, **found: Any) -> HttpResponse:
        context = {
            **self.admin_site.each_context(request),
            "opts": self.opts,
            "title": title,
            **found,
        }
        return TemplateResponse(request, f"{FOLDER}/result.html", context)


def _listed_by(provider: ModelProvider) -> tuple[ListedModel, ...]:
    return async_to_sync(fetched_models.listed)(provider.kind, account_of(provider))


def _counted(models: int) -> str:
    return "1 model" if models == 1 else f"{models} models"
