"""The admin of services: settings, connection tests, and fetching and confirming tools."""

from functools import partial
from typing import Any, cast

from asgiref.sync import async_to_sync
from django.contrib import admin, messages
from django.contrib.auth.models import AbstractUser
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.db.models import Count, Q, QuerySet
from django.forms import ModelForm
from django.http import HttpRequest, HttpResponse
from django.template.defaultfilters import pluralize
from django.urls import URLPattern

from mcpconfig.models import Service
from mcpconfig.operations.lazy import operations
from mcpconfig.operations.service_retries import retry_now
from mcpconfig.operations.tool_listing import fetch_tools
from mcpconfig.output.services import Json, build_tool_values
from mcpconfig.services import tool_definitions
from mcpconfig.services.service_form import ServiceForm
from mcpconfig.values.acting import Acting
from mcpconfig.values.errors import OperationError

from . import health, import_export, sign_ins
from .display import EMPTY
from .service_pages import ServicePages
from .tools import CurrentToolsInline, ToolSettingInline


@admin.register(Service)
class ServiceAdmin(ServicePages):
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
        "left_out_tools",
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
        """Leave out the state of a service that is being added."""
        return self.fieldsets if obj is not None else self.fieldsets[:-1]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Service]:
        current = Count("definitions", filter=Q(definitions__is_current=True))
        services: QuerySet[Service] = super().get_queryset(request)
        return services.select_related("owner").annotate(tool_count=current)

    def get_urls(self) -> list[URLPattern]:
        revoke = partial(sign_ins.revoke_sign_in, self)
        forget = partial(sign_ins.forget_registration, self)
        own = [
            self.make_path("health", self.show_health),
            self.make_path("import", partial(import_export.show_import, self)),
            self.make_path("export", partial(import_export.download_services, self)),
            self.make_service_path("test/", "test", self.test, "POST"),
            self.make_service_path("retry/", "retry", self.retry, "POST"),
            self.make_service_path("fetch-tools/", "fetch_tools", self.fetch, "POST"),
            self.make_service_path("confirm-tools/", "confirm_tools", self.confirm, "POST"),
            self.make_service_path("tools/", "tools", self.show_tools),
            self.make_service_path("sign-ins/", "sign_ins", partial(sign_ins.show_sign_ins, self)),
            self.make_service_path("sign-ins/revoke/", "revoke", revoke, "POST"),
            self.make_service_path("sign-ins/forget/", "forget_registration", forget, "POST"),
        ]
        return own + super().get_urls()

    def save_model(self, request: HttpRequest, obj: Service, form: ModelForm, change: bool) -> None:
        """Save the fields of the form only, and clear an earlier failure.

        Other fields may have changed since the form was shown. The failure is cleared because the
        change may have removed its cause.
        """
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
        """Return the URL as text. A stored URL is never rendered as a link."""
        return service.url

    @admin.display(description="State")
    def state(self, service: Service) -> str:
        return health.render_state(service)

    @admin.display(description="For")
    def seen_by(self, service: Service) -> str:
        """Return who may use the service, in a word."""
        if service.visibility == Service.Visibility.PRIVATE:
            return str(service.owner or "admins")
        return service.get_visibility_display().lower()

    @admin.display(description="Next try")
    def next_try(self, service: Service) -> str:
        return health.describe_next_try(service)

    @admin.display(description="Last failure")
    def last_failure(self, service: Service) -> str:
        return health.describe_last_failure(service)

    @admin.display(description="Tools", ordering="tool_count")
    def tools(self, service: Service) -> int:
        return int(getattr(service, "tool_count", 0))

    @admin.display(description="Tools left out")
    def left_out_tools(self, service: Service) -> str:
        return "; ".join(f"{tool['name']}: {tool['reason']}" for tool in service.left_out) or EMPTY

    @admin.action(description="Enable selected services", permissions=["change"])
    def enable(self, request: HttpRequest, chosen: QuerySet[Service]) -> None:
        count = _set_enabled(chosen, is_enabled=True)
        messages.success(request, f"{count} services are enabled.")

    @admin.action(description="Disable selected services", permissions=["change"])
    def disable(self, request: HttpRequest, chosen: QuerySet[Service]) -> None:
        count = _set_enabled(chosen, is_enabled=False)
        messages.success(request, f"{count} services are disabled.")

    @admin.action(description="Export selected services as server.json", permissions=["view"])
    def export_chosen(self, request: HttpRequest, chosen: QuerySet[Service]) -> HttpResponse | None:
        return import_export.download_server_json(request, chosen)

    def test(self, request: HttpRequest, service: Service) -> HttpResponse:
        try:
            report = async_to_sync(operations.test_connection)(
                service, acting=_get_acting_admin(request)
            )
        except OperationError as error:
            return self.render_result(request, service, "The connection failed", error=error)
        return self.render_result(request, service, "The connection works", report=report)

    def retry(self, request: HttpRequest, service: Service) -> HttpResponse:
        error = async_to_sync(retry_now)(service, _get_acting_admin(request))
        if "health" in request.POST:
            return health.redirect_after_retry(request, service, error)
        title = "It still fails" if error else "It works again"
        return self.render_result(request, service, title, error=error)

    def fetch(self, request: HttpRequest, service: Service) -> HttpResponse:
        try:
            tools = async_to_sync(fetch_tools)(
                service, acting=_get_acting_admin(request), refresh=True
            )
        except OperationError as error:
            return self.render_result(
                request, service, "The tools could not be fetched", error=error
            )
        return self.render_tools(request, service, f"{len(tools)} tools were fetched")

    def show_tools(self, request: HttpRequest, service: Service) -> HttpResponse:
        """Show the tools of the last listing."""
        return self.render_tools(request, service, f"Tools of {service}")

    def show_health(self, request: HttpRequest) -> HttpResponse:
        if not self.has_change_permission(request):
            raise PermissionDenied
        return health.show_health(self, request)

    def confirm(self, request: HttpRequest, service: Service) -> HttpResponse:
        """Confirm the ticked definitions.

        The form names definitions by their hashes, so a definition that arrived after the page was
        shown is not confirmed. The page that follows keeps the ticks.
        """
        ticked = set(request.POST.getlist("definition"))
        if not ticked:
            problem = "Tick the tools that you want to confirm."
            title = f"Tools of {service}"
            return self.render_tools(
                request, service, title, status=422, ticked=ticked, problem=problem
            )
        confirmed = tool_definitions.confirm_tools(
            service.definitions.filter(is_current=True, hash__in=ticked)
        )
        return self.render_tools(
            request,
            service,
            f"{confirmed} tool{pluralize(confirmed, ' is,s are')} confirmed",
            ticked=ticked,
            problem=_describe_unconfirmed(len(ticked) - confirmed),
        )

    def render_tools(
        self, request: HttpRequest, service: Service, title: str, status: int = 200, **context: Any
    ) -> HttpResponse:
        """Render the tools, each unconfirmed one with a tick box.

        The boxes of the hashes in `ticked` are ticked. If `ticked` is not given, all boxes are
        ticked except those of tools with a high risk, which an admin ticks one by one.
        `problem` is an error about the ticks.
        """
        tools = self.list_tools(service)
        context |= {"tab": "tools", "tools": tools, "waits": any(tool["waits"] for tool in tools)}
        return self.render_result(request, service, title, status, **context)

    def list_tools(self, service: Service) -> list[Json]:
        """Return the values of each tool for the page of tools."""
        known = tool_definitions.list_current_tools(service)
        waiting = {tool.hash for tool in tool_definitions.list_unconfirmed(service, known)}
        values = build_tool_values(service, known)
        return [{**value, "waits": value["hash"] in waiting} for value in values]

    def render_result(
        self, request: HttpRequest, service: Service, title: str, status: int = 200, **context: Any
    ) -> HttpResponse:
        context = {"service": service, "title": title, **context}
        return self.render_page(request, "result", context, status)


def _set_enabled(chosen: QuerySet[Service], *, is_enabled: bool) -> int:
    """Save each service by itself, because `update()` sends no signal to the audit log."""
    with transaction.atomic():
        for service in chosen:
            service.is_enabled = is_enabled
            service.save(update_fields=["is_enabled"])
    return len(chosen)


def _get_acting_admin(request: HttpRequest) -> Acting:
    """Return the signed-in admin as the acting person of an operation."""
    return Acting.of(cast(AbstractUser, request.user))


def _describe_unconfirmed(count: int) -> str:
    if not count:
        return ""
    what = f"{count} tool{pluralize(count)} changed or went away since this page was opened, and"
    return f"{what} {pluralize(count, 'is,are')} not confirmed. Read below what is there now."
