"""The admin of model providers: settings, tests, fetching models, and finding local servers."""

from collections.abc import Callable
from functools import partial
from typing import Any, cast

from asgiref.sync import async_to_sync
from django import forms
from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied, ValidationError
from django.db.models import Count, QuerySet
from django.forms import ModelForm
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.decorators import method_decorator
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as _lazy
from django.utils.translation import ngettext
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from chatapp.admin.adding import list_groups
from chatapp.audit import audit_log
from chatapp.audit.admin_entries import log_act, log_model_test
from chatapp.audit.audit_log import Who
from chatapp.models import ChatModel, Member, ModelProvider
from chatapp.models.model_provider import is_model_name
from chatapp.providers.access import fetched_models, local_servers
from chatapp.providers.access.accounts import build_account, describe_key_place
from chatapp.providers.account import ListedModel
from chatapp.providers.events import ProviderError
from chatapp.providers.model_facts import find_end_date
from chatapp.providers.stream_reading import MAX_COUNT
from mcpconfig.admin.read_only import ReadOnlyMixin
from mcpconfig.admin.service_pages import may_change_credentials
from mcpconfig.services.own_services import TOO_OFTEN, claim_look

from . import model_rows, preflight
from .add_provider import add_provider
from .environment_accounts import list_environment_accounts
from .forms import ProviderForm
from .model_rows import TermsProblem
from .provider_usage import read_usage
from .sample_page import FOLDER, stream_page

VIEW_SERVICES = "mcpconfig.view_service"
CONTEXT_TOKENS_FIELD = forms.IntegerField(required=False, min_value=1, max_value=MAX_COUNT)
CONTEXT_SIZE_MISSING = _lazy(
    "%(server)s silently cuts long chats. Enter the context size on the page of each model. "
    "Countersign then shortens chats in time and shows it."
)


class ModelsInline(ReadOnlyMixin, admin.TabularInline):
    """The models of a provider. Each links to its own page."""

    model = ChatModel
    verbose_name_plural = _lazy("models")
    fields = ("link", "label", "is_enabled", "audience", "context_tokens", "ends")
    readonly_fields = fields
    extra = 0

    @admin.display(description=_lazy("Model"))
    def link(self, model: ChatModel) -> SafeString:
        url = reverse("admin:chatapp_chatmodel_change", args=[model.pk])
        return format_html('<a href="{}">{}</a>', url, model.name)

    @admin.display(description=_lazy("Retires on"))
    def ends(self, model: ChatModel) -> str:
        return str(find_end_date(model.name) or "–")


@admin.register(ModelProvider)
class ModelProviderAdmin(admin.ModelAdmin):
    empty_list = _lazy("No providers added here yet. Add one with its key, then fetch its models.")
    form = ProviderForm
    list_display = ("label", "slug", "kind", "address", "key_is", "model_count", "is_enabled")
    list_filter = ("is_enabled", "kind")
    inlines = (ModelsInline,)
    fieldsets = (
        (_lazy("Provider"), {"fields": ("label", "slug", "kind", "is_enabled", "position")}),
        (_lazy("Address"), {"fields": ("base_url", "region")}),
        (_lazy("Key"), {"fields": ("key_place", "key", "key_id", "headers")}),
        (_lazy("Unlisted models"), {"fields": ("offers_unlisted",)}),
    )

    def get_fieldsets(self, request: HttpRequest, obj: ModelProvider | None = None) -> Any:
        """Leave out the key for an admin who may not change credentials."""
        if may_change_credentials(request):
            return self.fieldsets
        public = (self.fieldsets[2][0], {"fields": ("key_place",)})
        return (*self.fieldsets[:2], public, *self.fieldsets[3:])

    def get_readonly_fields(self, request: HttpRequest, obj: ModelProvider | None = None) -> Any:
        shown = super().get_readonly_fields(request, obj)
        if may_change_credentials(request):
            return shown
        return (*shown, "key_place", "key_id", "key", "headers")

    def has_add_permission(self, request: HttpRequest) -> bool:
        return super().has_add_permission(request) and may_change_credentials(request)

    def get_inlines(self, request: HttpRequest, obj: ModelProvider | None) -> Any:
        """Leave out the models of a provider that is being added."""
        return self.inlines if obj is not None else ()

    def get_queryset(self, request: HttpRequest) -> QuerySet[ModelProvider]:
        rows: QuerySet[ModelProvider] = super().get_queryset(request)
        return rows.annotate(model_count=Count("chat_models"))

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Show the accounts of the environment above the list. They work without a stored row."""
        context = {"accounts": list_environment_accounts(), **(extra_context or {})}
        response: HttpResponse = super().changelist_view(request, context)
        return response

    def get_urls(self) -> list[URLPattern]:
        name = "chatapp_modelprovider_{}".format
        connect = self.admin_site.admin_view(
            require_http_methods(["GET", "HEAD", "POST"])(partial(add_provider, self))
        )
        own = [
            path("connect/", connect, name=name("connect")),
            path("connect/<uuid:draft_id>/", connect, name=name("connect_draft")),
            path("<int:pk>/answer/", self._make_provider_action(self.answer), name=name("answer")),
            path("tools/", self.admin_site.admin_view(self.tools), name=name("tools")),
            path("look/", self._make_action(self.show_local_servers), name=name("look")),
            path("add-server/", self._make_action(self.add_server), name=name("add_server")),
            path("<int:pk>/test/", self._make_provider_action(self.test), name=name("test")),
            path("<int:pk>/fetch/", self._make_provider_action(self.fetch), name=name("fetch")),
            path(
                "<int:pk>/add-models/",
                self._make_provider_action(self.add_models),
                name=name("add"),
            ),
        ]
        return own + super().get_urls()

    def save_model(
        self, request: HttpRequest, obj: ModelProvider, form: ModelForm, change: bool
    ) -> None:
        super().save_model(request, obj, form, change)
        if not isinstance(form, ProviderForm):
            return
        if "key" in form.fields:
            form.store_secrets()
        if change and form.is_moved:
            if "base_url" in form.changed_data:
                text = _(
                    "The address changed. Unless you entered new ones, key and headers are gone."
                )
            else:
                text = _("The kind changed. Unless you entered new ones, key and headers are gone.")
            messages.warning(request, text)

    @admin.display(description=_lazy("Address"))
    def address(self, provider: ModelProvider) -> str:
        """Return the address as text. A stored address is never rendered as a link."""
        return provider.base_url or _("default")

    @admin.display(description=_lazy("Key location"))
    def key_is(self, provider: ModelProvider) -> str:
        return describe_key_place(provider)

    @admin.display(description=_lazy("Models"))
    def model_count(self, provider: ModelProvider) -> int:
        return int(getattr(provider, "model_count", 0))

    @method_decorator(require_safe)
    def tools(self, request: HttpRequest) -> HttpResponse:
        """Show which tools each provider accepts, for one service or for all."""
        if not self.has_view_permission(request) or not request.user.has_perm(VIEW_SERVICES):
            raise PermissionDenied
        context = {
            **self.admin_site.each_context(request),
            "opts": self.opts,
            **preflight.build_table(request.GET.get("service", ""), request.GET.get("page", "")),
        }
        return TemplateResponse(request, f"{FOLDER}/tools.html", context)

    def _make_action(
        self, view: Callable[..., HttpResponseBase]
    ) -> Callable[..., HttpResponseBase]:
        """Wrap a view so that it accepts only POST and requires the permission to change."""

        def checked_view(request: HttpRequest, **captured: Any) -> HttpResponseBase:
            if not self.has_change_permission(request):
                raise PermissionDenied
            return view(request, **captured)

        action: Callable[..., HttpResponseBase] = self.admin_site.admin_view(
            require_POST(checked_view)
        )
        return action

    def _make_provider_action(
        self, view: Callable[[HttpRequest, ModelProvider], HttpResponseBase]
    ) -> Callable[..., HttpResponseBase]:
        """Wrap a view as `_make_action` does, and pass it the provider instead of its id."""

        def provider_view(request: HttpRequest, pk: int) -> HttpResponseBase:
            provider = self.get_object(request, str(pk))
            if provider is None:
                raise Http404("No such provider.")
            return view(request, provider)

        return self._make_action(provider_view)

    def test(self, request: HttpRequest, provider: ModelProvider) -> HttpResponse:
        """Test the address and the key by listing the models, which costs nothing."""
        _log(provider, "tested")
        try:
            listed = _fetch_models(provider)
        except ProviderError as error:
            return self._render_result(
                request, _("The test failed"), provider=provider, error=error
            )
        title = ngettext(
            "The test passed: %(number)s model listed",
            "The test passed: %(number)s models listed",
            len(listed),
        ) % {"number": len(listed)}
        return self._render_result(request, title, provider=provider, listed=listed)

    def answer(self, request: HttpRequest, provider: ModelProvider) -> HttpResponseBase:
        """Stream one short answer of a model, to see that it works. It costs a few tokens."""
        title = _("The test failed")
        model = request.POST.get("sample_model", "").strip()
        if not is_model_name(model):
            messages.error(request, _("Choose a model for the answer."))
            return redirect("admin:chatapp_modelprovider_change", provider.pk)
        person = cast(Member, request.user)
        if not claim_look(person):
            messages.error(request, str(TOO_OFTEN))
            return redirect("admin:chatapp_modelprovider_change", provider.pk)
        try:
            account = build_account(provider)
        except ProviderError as error:
            return self._render_result(request, title, provider=provider, error=error)
        log_model_test(f"{provider.slug}:{model}", Who.of(person))
        context = {
            **self.admin_site.each_context(request),
            "opts": self.opts,
            "title": _("A short answer of %(model)s") % {"model": model},
            "provider": provider,
            "back": reverse("admin:chatapp_modelprovider_change", args=[provider.pk]),
            "back_text": _("Back to %(provider)s") % {"provider": provider},
        }
        return stream_page(request, context, kind=provider.kind, account=account, model=model)

    def change_view(
        self,
        request: HttpRequest,
        object_id: str,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        """Show the usage of the provider above its settings."""
        context = dict(extra_context or {})
        provider = self.get_object(request, object_id)
        if provider is not None and request.user.has_perm("chatapp.view_usageofday"):
            context["usage"] = read_usage(provider, cast(Member, request.user))
        response: HttpResponse = super().change_view(request, object_id, form_url, context)
        return response

    def fetch(self, request: HttpRequest, provider: ModelProvider) -> HttpResponse:
        _log(provider, "models fetched")
        try:
            listed = _fetch_models(provider)
        except ProviderError as error:
            title = _("The models could not be fetched")
            return self._render_result(request, title, provider=provider, error=error)
        return self._render_choices(request, provider, listed)

    def _render_choices(
        self,
        request: HttpRequest,
        provider: ModelProvider,
        listed: tuple[ListedModel, ...],
        problem: str = "",
    ) -> HttpResponse:
        known = set(provider.chat_models.values_list("name", flat=True))
        posted = request.POST
        rows = model_rows.build_rows(
            listed, known, posted.getlist("model"), cast("dict[str, str]", posted)
        )
        return self._render_result(
            request,
            _("Choose models"),
            422 if problem else 200,
            provider=provider,
            choices=rows,
            problem=problem,
            may_type_prices=len(rows) <= model_rows.MAX_TYPED,
            access=model_rows.list_access(posted.get("access", "")),
            groups=list_groups(posted.getlist("groups")),
            currency=posted.get("currency") or "USD",
        )

    def add_models(self, request: HttpRequest, provider: ModelProvider) -> HttpResponse:
        """Add the chosen models with the facts that the provider lists now."""
        _log(provider, "models fetched")
        chosen = set(request.POST.getlist("model"))
        try:
            listed = _fetch_models(provider)
        except ProviderError as error:
            title = _("The models could not be fetched")
            return self._render_result(request, title, provider=provider, error=error)
        try:
            terms = model_rows.read_terms(request.POST, chosen)
        except TermsProblem as problem:
            return self._render_choices(request, provider, listed, str(problem))
        added = fetched_models.save_models(provider, listed, chosen, terms)
        messages.success(
            request,
            ngettext("Added %(number)s model.", "Added %(number)s models.", added)
            % {"number": added},
        )
        return redirect("admin:chatapp_modelprovider_change", provider.pk)

    def show_local_servers(self, request: HttpRequest) -> HttpResponse:
        log_act(audit_log.Kind.MODELS_CHECKED, "", "servers searched")
        servers = async_to_sync(local_servers.find_servers)()
        return self._render_result(
            request,
            _("Model servers on this machine"),
            servers=servers,
            server_access=model_rows.list_access("everyone"),
        )

    def add_server(self, request: HttpRequest) -> HttpResponse:
        log_act(audit_log.Kind.MODELS_CHECKED, "", "servers searched")
        server = async_to_sync(local_servers.find_server)(request.POST.get("address", ""))
        if server is None:
            messages.error(request, _("That server no longer responds. Search again."))
            return redirect("admin:chatapp_modelprovider_changelist")
        try:
            server = server.with_context(
                CONTEXT_TOKENS_FIELD.clean(request.POST.get("context_tokens", ""))
            )
        except ValidationError as error:
            messages.error(
                request, _("Context size: %(problem)s") % {"problem": " ".join(error.messages)}
            )
            return redirect("admin:chatapp_modelprovider_changelist")
        try:
            terms = model_rows.read_terms(request.POST, (), "everyone")
        except TermsProblem as problem:
            messages.error(request, str(problem))
            return redirect("admin:chatapp_modelprovider_changelist")
        provider = fetched_models.save_server(server, terms)
        count = len(server.models)
        text = ngettext(
            "Added %(provider)s with %(number)s model.",
            "Added %(provider)s with %(number)s models.",
            count,
        )
        messages.success(request, text % {"provider": provider, "number": count})
        if server.cuts_silently and server.has_unsized:
            messages.warning(request, CONTEXT_SIZE_MISSING % {"server": server.label})
        return redirect("admin:chatapp_modelprovider_change", provider.pk)

    def _render_result(
        self, request: HttpRequest, title: str, status: int = 200, **values: Any
    ) -> HttpResponse:
        context = {
            **self.admin_site.each_context(request),
            "opts": self.opts,
            "title": title,
            **values,
        }
        return TemplateResponse(request, f"{FOLDER}/result.html", context, status=status)


def _log(provider: ModelProvider, act: str) -> None:
    log_act(audit_log.Kind.MODELS_CHECKED, f"model provider {provider.slug}", act)


def _fetch_models(provider: ModelProvider) -> tuple[ListedModel, ...]:
    return async_to_sync(fetched_models.fetch_models)(provider.kind, build_account(provider))
