"""Services in the admin: configure, test, fetch and confirm tools."""

from collections.abc import Callable
from typing import Any

from asgiref.sync import async_to_sync
from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import Count, Q, QuerySet
from django.forms import ModelForm
from django.http import Http404, HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import URLPattern, path
from django.views.decorators.http import require_POST

from mcpconfig import ledger
from mcpconfig.console import tool_values
from mcpconfig.errors import OperationError
from mcpconfig.models import Service
from mcpconfig.operations import test_connection

from .service_form import ServiceForm
from .tools import CurrentToolsInline, ToolSettingInline

RESULT = "admin/mcpconfig/service/result.html"


@admin.register(Service)
class ServiceAdmin(admin.ModelAdmin):
    form = ServiceForm
    list_display = ("name", "title", "address", "state", "known_era", "tools", "is_enabled")
    list_filter = ("is_enabled", "authentication", "known_transport")
    search_fields = ("name", "title", "description", "url")
    actions = ("enable", "disable", "confirm_tools")
    inlines = (ToolSettingInline, CurrentToolsInline)
    readonly_fields = (
        "state",
        "known_transport",
        "known_era",
        "tools_listed_at",
        "last_success_at",
        "last_failure",
        "not_used",
    )
    fieldsets = (
        (None, {"fields": ("name", "title", "description", "is_enabled")}),
        ("Connection", {"fields": ("url", "transport", "allows_private_addresses")}),
        ("Credentials", {"fields": ("authentication", "bearer", "headers")}),
        ("Trust", {"fields": ("is_trusted",)}),
        ("What is known", {"fields": readonly_fields}),
    )

    def get_queryset(self, request: HttpRequest) -> QuerySet[Service]:
        current = Count("definitions", filter=Q(definitions__is_current=True))
        services: QuerySet[Service] = super().get_queryset(request)
        return services.annotate(tool_count=current)

    def get_urls(self) -> list[URLPattern]:
        name = "mcpconfig_service_{}".format
        own = [
            path("<int:pk>/test/", self._post(self.test), name=name("test")),
            path("<int:pk>/fetch-tools/", self._post(self.fetch), name=name("fetch_tools")),
            path("<int:pk>/confirm-tools/", self._post(self.confirm), name=name("confirm_tools")),
        ]
        return own + super().get_urls()

    def save_model(self, request: HttpRequest, obj: Service, form: ModelForm, change: bool) -> None:
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
        return service.state

    @admin.display(description="Tools", ordering="tool_count")
    def tools(self, service: Service) -> int:
        return int(getattr(service, "tool_count", 0))

    @admin.display(description="Last failure")
    def last_failure(self, service: Service) -> str:
        failed = service.last_error
        return f"{failed['at']}: {failed['message']} {failed['hint']}" if failed else "–"

    @admin.display(description="Tools left out")
    def not_used(self, service: Service) -> str:
        return "; ".join(f"{tool['name']}: {tool['reason']}" for tool in service.left_out) or "–"

    @admin.action(description="Enable selected services", permissions=["change"])
    def enable(self, request: HttpRequest, chosen: QuerySet[Service]) -> None:
        count = chosen.update(is_enabled=True)
        messages.success(request, f"{count} services are enabled.")

    @admin.action(description="Disable selected services", permissions=["change"])
    def disable(self, request: HttpRequest, chosen: QuerySet[Service]) -> None:
        count = chosen.update(is_enabled=False)
        messages.success(request, f"{count} services are disabled.")

    @admin.action(description="Confirm the tools of selected services", permissions=["change"])
    def confirm_tools(self, request: HttpRequest, chosen: QuerySet[Service]) -> None:
        count = sum(ledger.confirm(ledger.known_tools(service)) for service in chosen)
        messages.success(request, f"{count} tools are confirmed.")

    def _post(
        self, view: Callable[[HttpRequest, Service], HttpResponse]
    ) -> Callable[..., HttpResponse]:
        """The view behind a button: it posts, needs the right to change, and gets the service."""

        def posted(request: HttpRequest, pk: int) -> HttpResponse:
            service = self.get_object(request, str(pk))
            if service is None:
                raise Http404("No such service.")
            if not self.has_change_permission(request, service):
                raise PermissionDenied
            return view(request, service)

        wrapped: Callable[..., HttpResponse] = self.admin_site.admin_view(require_POST(posted))
        return wrapped

    def test(self, request: HttpRequest, service: Service) -> HttpResponse:
        try:
            report = async_to_sync(test_connection)(service)
        except OperationError as error:
            return self._result(request, service, "The connection failed", error=error)
        return self._result(request, service, "The connection works", report=report)

    def fetch(self, request: HttpRequest, service: Service) -> HttpResponse:
        try:
            tools = async_to_sync(ledger.fetch_tools)(service, refresh=True)
        except OperationError as error:
            return self._result(request, service, "The tools could not be fetched", error=error)
        title = f"{len(tools)} tools were fetched"
        return self._result(request, service, title, tools=tool_values(service, tools))

    def confirm(self, request: HttpRequest, service: Service) -> HttpResponse:
        """Confirms the definitions that the page showed, not what may have come since."""
        shown = service.definitions.filter(
            is_current=True, hash__in=request.POST.getlist("definition")
        )
        count = ledger.confirm(shown)
        values = tool_values(service, ledger.known_tools(service))
        return self._result(request, service, f"{count} tools are confirmed", tools=values)

    def _result(
        self, request: HttpRequest, service: Service, title: str, **found: Any
    ) -> HttpResponse:
        context = {
            **self.admin_site.each_context(request),
            "opts": self.opts,
            "title": title,
            "service": service,
            **found,
        }
        return TemplateResponse(request, RESULT, context)
