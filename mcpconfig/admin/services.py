"""Services in the admin: configure, test, fetch and confirm tools."""

from collections.abc import Callable
from functools import partial
from typing import Any, cast

from asgiref.sync import async_to_sync
from django.contrib import admin, messages
from django.contrib.auth.models import AbstractUser
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.db.models import Count, Q, QuerySet
from django.forms import ModelForm
from django.http import Http404, HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import URLPattern, path
from django.views.decorators.http import require_http_methods

from mcpconfig import ledger
from mcpconfig.acting import Acting
from mcpconfig.console import Json, tool_values
from mcpconfig.errors import OperationError
from mcpconfig.models import Service
from mcpconfig.on_first_use import operations
from mcpconfig.retries import retry_now

from . import confirming, health, importing, service_status, sign_ins
from .service_form import ServiceForm
from .tools import CurrentToolsInline, ToolSettingInline

NAME = "mcpconfig_service_{}"


@admin.register(Service)
class ServiceAdmin(admin.ModelAdmin):
    form = ServiceForm
    list_display = ("name", "state", "title", "address", "seen_by", "tools", "is_enabled")
    list_filter = (
        *("is_enabled", "authentication", "visibility"),
        ("owner", admin.RelatedOnlyFieldListFilter),
    )
    search_fields = ("name", "title", "description", "url")
    actions = ("enable", "disable", "export_chosen")
    inlines = (ToolSettingInline, CurrentToolsInline)
    readonly_fields = (
        "state",
        "last_failure",
        "next_try",
        "last_success_at",
        "known_transport",
        "known_era",
        "tools_listed_at",
        "not_used",
    )
    fieldsets = (
        (
            "What it is",
            {
                "fields": ("name", "title", "description", ("icon", "colour"), "is_enabled")
                + ("guidance",)
            },
        ),
        ("Address", {"fields": ("url", "transport", "allows_private_addresses")}),
        (
            "Sign-in",
            {
                "fields": ("authentication", "bearer", "headers", "identity_provider")
                + ("client_id", "client_secret", "scopes"),
            },
        ),
        ("Who may use it", {"fields": ("visibility", "groups", "owner", "shares_tools")}),
        (
            "Behaviour",
            {
                "fields": (("is_trusted", "is_open"), "starts_on", "new_tools")
                + (("reconnects", "most_retries"),)
            },
        ),
        ("Apps", {"fields": ("allows_apps", "app_origins")}),
        ("How it does", {"fields": readonly_fields}),
    )

    def get_fieldsets(self, request: HttpRequest, obj: Service | None = None) -> Any:
        """A service that is being added has not done anything yet."""
        return self.fieldsets if obj is not None else self.fieldsets[:-1]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Service]:
        current = Count("definitions", filter=Q(definitions__is_current=True))
        services: QuerySet[Service] = super().get_queryset(request)
        return services.select_related("owner").annotate(tool_count=current)

    def get_urls(self) -> list[URLPattern]:
        revoke, forget = partial(sign_ins.revoke, self), partial(sign_ins.forget, self)
        confirm = partial(confirming.confirm, self)
        own = [
            path("health/", self.admin_site.admin_view(self.health), name=NAME.format("health")),
            self._page_of_all("import", partial(importing.opened, self)),
            self._page_of_all("export", partial(importing.export, self)),
            self.address_of("test/", "test", self.test, "POST"),
            self.address_of("retry/", "retry", self.retry, "POST"),
            self.address_of("fetch-tools/", "fetch_tools", self.fetch, "POST"),
            self.address_of("confirm-tools/", "confirm_tools", confirm, "POST"),
            self.address_of("tools/", "tools", self.offered),
            self.address_of("sign-ins/", "sign_ins", partial(sign_ins.listed, self)),
            self.address_of("sign-ins/revoke/", "revoke", revoke, "POST"),
            self.address_of("sign-ins/forget/", "forget_registration", forget, "POST"),
        ]
        return own + super().get_urls()

    def _page_of_all(self, name: str, view: Callable[[HttpRequest], HttpResponse]) -> URLPattern:
        return path(f"{name}/", self.admin_site.admin_view(view), name=NAME.format(name))

    def address_of(
        self, route: str, name: str, view: Callable[..., HttpResponse], methods: str = "GET HEAD"
    ) -> URLPattern:
        """A page or a button of one service: the view gets the request and the service, of somebody
        who has the right to change it."""

        def opened(request: HttpRequest, pk: int, **given: Any) -> HttpResponse:
            service = self.get_object(request, str(pk))
            if service is None:
                raise Http404("No such service.")
            if not self.has_change_permission(request, service):
                raise PermissionDenied
            return view(request, service, **given)

        guarded = self.admin_site.admin_view(require_http_methods(methods.split())(opened))
        return path(f"<int:pk>/{route}", guarded, name=NAME.format(name))

    def save_model(self, request: HttpRequest, obj: Service, form: ModelForm, change: bool) -> None:
        """Only what the form holds is stored: facts may have been learned since it was shown. What
        was changed may be the cure, so an earlier failure does not stand."""
        if change:
            for field, value in obj.forgotten_failure().items():
                setattr(obj, field, value)
            edited = {field.name for field in self.opts.concrete_fields} & set(form.fields)
            obj.save(update_fields=edited | set(obj.forgotten_failure()))
        else:
            super().save_model(request, obj, form, change)
        if isinstance(form, ServiceForm):
            form.store_secrets()
        if change and "url" in form.changed_data:
            text = "The URL is new: the old credentials and what was known are gone."
            messages.warning(request, f"{text} Fetch the tools again.")

    @admin.display(description="URL")
    def address(self, service: Service) -> str:
        """As text: a stored URL is never made into a link."""
        return service.url

    @admin.display(description="State")
    def state(self, service: Service) -> str:
        return service_status.state(service)

    @admin.display(description="For")
    def seen_by(self, service: Service) -> str:
        """Who may use it, in a word."""
        if service.visibility == Service.Visibility.PRIVATE:
            return str(service.owner or "admins")
        return service.get_visibility_display().lower()

    @admin.display(description="Next try")
    def next_try(self, service: Service) -> str:
        return service_status.next_try(service)

    @admin.display(description="Last failure")
    def last_failure(self, service: Service) -> str:
        return service_status.last_failure(service)

    @admin.display(description="Tools", ordering="tool_count")
    def tools(self, service: Service) -> int:
        return int(getattr(service, "tool_count", 0))

    @admin.display(description="Tools left out")
    def not_used(self, service: Service) -> str:
        return "; ".join(f"{tool['name']}: {tool['reason']}" for tool in service.left_out) or "–"

    @admin.action(description="Enable selected services", permissions=["change"])
    def enable(self, request: HttpRequest, chosen: QuerySet[Service]) -> None:
        count = _switch(chosen, is_enabled=True)
        messages.success(request, f"{count} services are enabled.")

    @admin.action(description="Disable selected services", permissions=["change"])
    def disable(self, request: HttpRequest, chosen: QuerySet[Service]) -> None:
        count = _switch(chosen, is_enabled=False)
        messages.success(request, f"{count} services are disabled.")

    @admin.action(description="Export selected services as server.json", permissions=["view"])
    def export_chosen(self, request: HttpRequest, chosen: QuerySet[Service]) -> HttpResponse | None:
        return importing.export_chosen(request, chosen)

    def test(self, request: HttpRequest, service: Service) -> HttpResponse:
        try:
            report = async_to_sync(operations.test_connection)(service, acting=_acting(request))
        except OperationError as error:
            return self._result(request, service, "The connection failed", error=error)
        return self._result(request, service, "The connection works", report=report)

    def retry(self, request: HttpRequest, service: Service) -> HttpResponse:
        error = async_to_sync(retry_now)(service, _acting(request))
        if "health" in request.POST:
            return health.retried(request, service, error)
        title = "It still fails" if error else "It works again"
        return self._result(request, service, title, error=error)

    def fetch(self, request: HttpRequest, service: Service) -> HttpResponse:
        try:
            tools = async_to_sync(ledger.fetch_tools)(
                service, acting=_acting(request), refresh=True
            )
        except OperationError as error:
            return self._result(request, service, "The tools could not be fetched", error=error)
        return self.tools_page(request, service, f"{len(tools)} tools were fetched")

    def offered(self, request: HttpRequest, service: Service) -> HttpResponse:
        """The tools as they were listed last."""
        return self.tools_page(request, service, f"Tools of {service}")

    def health(self, request: HttpRequest) -> HttpResponse:
        if not self.has_change_permission(request):
            raise PermissionDenied
        return health.page(self, request)

    def tools_page(
        self, request: HttpRequest, service: Service, title: str, status: int = 200, **said: Any
    ) -> HttpResponse:
        """The tools with a tick at each that waits: those in `ticked`, or all where it is not said.
        `problem` is what went wrong with the ticks."""
        tools = self.listed(service)
        said |= {"tab": "tools", "tools": tools, "waits": any(tool["waits"] for tool in tools)}
        return self._result(request, service, title, status, **said)

    def listed(self, service: Service) -> list[Json]:
        """What the page of tools shows of each."""
        known = ledger.known_tools(service)
        waiting = {tool.hash for tool in ledger.unconfirmed(service, known)}
        values = tool_values(service, known)
        return [{**value, "waits": value["hash"] in waiting} for value in values]

    def _result(
        self, request: HttpRequest, service: Service, title: str, status: int = 200, **found: Any
    ) -> HttpResponse:
        context = {"service": service, "title": title, **found}
        return self.page(request, "result", context, status)

    def page(
        self, request: HttpRequest, name: str, context: dict[str, Any], status: int = 200
    ) -> HttpResponse:
        """A page of the workbench, in the admin's frame."""
        framed = {**self.admin_site.each_context(request), "opts": self.opts, **context}
        template = f"admin/mcpconfig/service/{name}.html"
        return TemplateResponse(request, template, framed, status=status)


def _switch(chosen: QuerySet[Service], *, is_enabled: bool) -> int:
    """Row by row, because whoever follows changes hears of saved rows only."""
    with transaction.atomic():
        for service in chosen:
            service.is_enabled = is_enabled
            service.save(update_fields=["is_enabled"])
    return len(chosen)


def _acting(request: HttpRequest) -> Acting:
    """The admin at the button: a service that is told who acts is told of him."""
    return Acting.of(cast(AbstractUser, request.user))
