"""The admin of services: settings, connection tests, and fetching and confirming tools."""

from collections.abc import Collection
from functools import partial
from typing import Any, cast

from asgiref.sync import async_to_sync
from django.contrib import admin, messages
from django.contrib.auth.models import AbstractUser
from django.contrib.humanize.templatetags.humanize import intcomma
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.db.models import Count, Q, QuerySet
from django.forms import ModelForm
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import URLPattern, reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as _lazy
from django.utils.translation import ngettext

from mcpconfig.models import Service
from mcpconfig.operations.lazy import operations
from mcpconfig.operations.service_retries import retry_now
from mcpconfig.operations.tool_listing import fetch_tools
from mcpconfig.output.services import Json, build_tool_values
from mcpconfig.services import tool_definitions
from mcpconfig.services.service_form import SECRETS, ServiceForm
from mcpconfig.values.acting import Acting
from mcpconfig.values.errors import OperationError

from . import deletions, health, import_export, sign_ins
from .display import EMPTY
from .filters import AccessFilter, EmptyChoiceMixin
from .service_pages import (
    ServicePages,
    list_tab_rights,
    may_change_credentials,
    may_view_sign_ins,
)
from .tools import ToolSettingInline

# Definitions are long; those of more tools are not shown on one page.
MOST_REVIEWED = 2_000
SIGN_IN = _lazy("Sign-in")
PUBLIC_SIGN_IN = ("authentication", "identity_provider", "client_id", "scopes")


class OwnerFilter(EmptyChoiceMixin, admin.RelatedOnlyFieldListFilter):
    empty_choice = _lazy("Admins")


@admin.register(Service)
class ServiceAdmin(ServicePages):
    empty_list = _lazy("No services yet. Add an MCP server to give the assistant tools.")
    form = ServiceForm
    list_display = ("name", "state", "title", "address", "seen_by", "tools", "is_enabled")
    list_filter = (
        *("is_enabled", "authentication"),
        ("visibility", AccessFilter),
        ("owner", OwnerFilter),
    )
    search_fields = ("name", "title", "description", "url")
    actions = ("enable", "disable", "export_chosen")
    inlines = (ToolSettingInline,)
    readonly_fields = (
        "state",
        "failure_text",
        "next_try",
        "last_success_at",
        "detected_transport",
        "known_era",
        "tools_listed_at",
        "current_tools",
        "left_out_tools",
    )
    fieldsets = (
        (
            _lazy("Service"),
            {
                "fields": ("name", "title", "description", ("icon", "colour"), "is_enabled")
                + ("guidance",)
            },
        ),
        (_lazy("Address"), {"fields": ("url", "transport", "allows_private_addresses")}),
        (
            SIGN_IN,
            {
                "fields": ("authentication", "bearer", "headers", "identity_provider")
                + ("client_id", "client_secret", "scopes"),
            },
        ),
        (_lazy("Who has access"), {"fields": ("visibility", "groups", "owner", "shares_tools")}),
        (
            _lazy("Behaviour"),
            {
                "fields": (("is_trusted", "is_open"), "starts_on", "new_tools")
                + (("reconnects", "most_retries"),)
            },
        ),
        (_lazy("Apps"), {"fields": ("allows_apps", "app_origins")}),
        (_lazy("Status"), {"fields": readonly_fields}),
    )

    def get_fieldsets(self, request: HttpRequest, obj: Service | None = None) -> Any:
        """Leave out the state of a service that is being added, and the secrets for an admin who
        may not change credentials."""
        shown = self.fieldsets if obj is not None else self.fieldsets[:-1]
        if may_change_credentials(request):
            return shown
        sign_in = (SIGN_IN, {"fields": PUBLIC_SIGN_IN})
        return [sign_in if title == SIGN_IN else (title, rest) for title, rest in shown]

    def get_readonly_fields(self, request: HttpRequest, obj: Service | None = None) -> Any:
        shown = () if may_change_credentials(request) else (*PUBLIC_SIGN_IN, *SECRETS)
        return (*super().get_readonly_fields(request, obj), *shown)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Service]:
        current = Count("definitions", filter=Q(definitions__is_current=True))
        services: QuerySet[Service] = super().get_queryset(request)
        return services.select_related("owner").annotate(tool_count=current)

    def get_deleted_objects(self, objs: Any, request: HttpRequest) -> Any:
        return deletions.find_deleted(list(objs), request, self.admin_site)

    def get_urls(self) -> list[URLPattern]:
        show_sign_ins = partial(sign_ins.show_sign_ins, self)
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
            self.make_service_path("tools/review/", "review_tools", self.show_tools),
            self.make_service_path("switch/", "switch", self.switch, "POST"),
            self.make_service_path(
                "sign-ins/", "sign_ins", show_sign_ins, allows=may_view_sign_ins
            ),
            self.make_service_path(
                "sign-ins/revoke/", "revoke", revoke, "POST", allows=may_change_credentials
            ),
            self.make_service_path(
                *("sign-ins/forget/", "forget_registration", forget, "POST"),
                allows=may_change_credentials,
            ),
        ]
        return own + super().get_urls()

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any
    ) -> HttpResponse:
        """Add which tabs of the service this admin may open."""
        context |= list_tab_rights(request)
        return super().render_change_form(request, context, *args, **kwargs)

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
        if isinstance(form, ServiceForm) and "bearer" in form.fields:
            form.store_secrets()
        if change and "url" in form.changed_data:
            text = _("The URL changed. Old credentials and tools are gone. Fetch the tools again.")
            messages.warning(request, text)

    @admin.display(description=_lazy("URL"))
    def address(self, service: Service) -> str:
        """Return the URL as text. A stored URL is never rendered as a link."""
        return service.url

    @admin.display(description=_lazy("State"))
    def state(self, service: Service) -> str:
        return health.render_state(service)

    @admin.display(description=_lazy("Available to"))
    def seen_by(self, service: Service) -> str:
        """Return who may use the service, in a word."""
        if service.visibility == Service.Visibility.PRIVATE:
            return str(service.owner or _("Admins"))
        return service.get_visibility_display()

    @admin.display(description=_lazy("Next retry"))
    def next_try(self, service: Service) -> str:
        return health.describe_next_try(service)

    @admin.display(description=_lazy("Last failure"))
    def failure_text(self, service: Service) -> str:
        return health.describe_last_failure(service)

    @admin.display(description=_lazy("Tools"), ordering="tool_count")
    def tools(self, service: Service) -> int:
        return int(getattr(service, "tool_count", 0))

    @admin.display(description=_lazy("Current tools"))
    def current_tools(self, service: Service) -> SafeString:
        """Lead to the tools in the last listing of the service."""
        query = {"service__id__exact": service.pk, "is_current__exact": 1}
        address = reverse("admin:mcpconfig_tooldefinition_changelist", query=query)
        count = self.tools(service)
        text = ngettext("%(number)s tool", "%(number)s tools", count) % {"number": intcomma(count)}
        return format_html('<a href="{}">{}</a>', address, text)

    @admin.display(description=_lazy("Detected transport"))
    def detected_transport(self, service: Service) -> str:
        return str(dict(Service.Transport.choices).get(service.known_transport, EMPTY))

    @admin.display(description=_lazy("Tools skipped when fetching"))
    def left_out_tools(self, service: Service) -> str:
        skipped = [f"{tool['name']}: {tool['reason']}" for tool in service.left_out]
        return "; ".join(skipped) or _("none")

    @admin.action(description=_lazy("Enable selected services"), permissions=["change"])
    def enable(self, request: HttpRequest, chosen: QuerySet[Service]) -> None:
        count = _set_enabled(chosen, is_enabled=True)
        text = ngettext("%(number)s service enabled.", "%(number)s services enabled.", count)
        messages.success(request, text % {"number": count})

    @admin.action(description=_lazy("Disable selected services"), permissions=["change"])
    def disable(self, request: HttpRequest, chosen: QuerySet[Service]) -> None:
        count = _set_enabled(chosen, is_enabled=False)
        text = ngettext("%(number)s service disabled.", "%(number)s services disabled.", count)
        messages.success(request, text % {"number": count})

    @admin.action(
        description=_lazy("Export selected services as server.json"), permissions=["view"]
    )
    def export_chosen(self, request: HttpRequest, chosen: QuerySet[Service]) -> HttpResponse | None:
        return import_export.download_server_json(self, request, chosen)

    def test(self, request: HttpRequest, service: Service) -> HttpResponse:
        self.note_act(service, "tested")
        try:
            report = async_to_sync(operations.test_connection)(
                service, acting=_get_acting_admin(request)
            )
        except OperationError as error:
            return self.render_result(request, service, _("Connection failed"), error=error)
        return self.render_result(request, service, _("The connection works"), report=report)

    def retry(self, request: HttpRequest, service: Service) -> HttpResponse:
        self.note_act(service, "retried")
        error = async_to_sync(retry_now)(service, _get_acting_admin(request))
        if "health" in request.POST:
            return health.redirect_after_retry(request, service, error)
        title = _("Retry failed") if error else _("The service works again")
        return self.render_result(request, service, title, error=error)

    def switch(self, request: HttpRequest, service: Service) -> HttpResponse:
        """Enable or disable the service, as the page that was shown said."""
        is_enabled = request.POST.get("enable") == "1"
        _set_enabled(Service.objects.filter(pk=service.pk), is_enabled=is_enabled)
        text = _("Enabled %(service)s.") if is_enabled else _("Disabled %(service)s.")
        messages.success(request, text % {"service": service})
        return redirect("admin:mcpconfig_service_status", service.pk)

    def fetch(self, request: HttpRequest, service: Service) -> HttpResponse:
        self.note_act(service, "tools fetched")
        try:
            tools = async_to_sync(fetch_tools)(
                service, acting=_get_acting_admin(request), refresh=True
            )
        except OperationError as error:
            return self.render_result(
                request, service, _("The tools could not be fetched"), error=error
            )
        text = ngettext("Fetched %(number)s tool", "Fetched %(number)s tools", len(tools))
        return self.render_tools(request, service, text % {"number": len(tools)})

    def show_tools(self, request: HttpRequest, service: Service) -> HttpResponse:
        """Show the tools of the last listing with their definitions, to confirm them."""
        return self.render_tools(request, service, _("Tools of %(service)s") % {"service": service})

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
            problem = _("Tick the tools to confirm.")
            title = _("Tools of %(service)s") % {"service": service}
            return self.render_tools(
                request, service, title, status=422, ticked=ticked, problem=problem
            )
        confirmed = tool_definitions.confirm_tools(
            service.definitions.filter(is_current=True, hash__in=ticked)
        )
        title = ngettext("Confirmed %(number)s tool", "Confirmed %(number)s tools", confirmed)
        return self.render_tools(
            request,
            service,
            title % {"number": confirmed},
            ticked=ticked,
            problem=_describe_unconfirmed(len(ticked) - confirmed),
        )

    def render_tools(
        self, request: HttpRequest, service: Service, title: str, status: int = 200, **context: Any
    ) -> HttpResponse:
        """Render the tools, each unconfirmed one with a tick box.

        The boxes of the hashes in `ticked` are ticked. If `ticked` is not given, those are ticked
        for which `is_ticked_at_first` is true.
        `problem` is an error about the ticks.
        """
        ticked: Collection[str] | None = context.get("ticked")
        tools, left_out = self.list_tools(service, ticked or ())
        for tool in tools:
            tool["is_ticked"] = (
                self.is_ticked_at_first(tool) if ticked is None else tool["hash"] in ticked
            )
        waits = any(tool["waits"] for tool in tools)
        context |= {"tab": "tools", "tools": tools, "waits": waits, "left_out": left_out}
        return self.render_result(request, service, title, status, **context)

    def is_ticked_at_first(self, tool: Json) -> bool:
        """Whether the page ticks this tool before the admin does."""
        return tool_definitions.is_ticked_at_first(tool["state"], tool["level"])

    def list_tools(self, service: Service, ticked: Collection[str]) -> tuple[list[Json], int]:
        """Return the values of each tool for the page of tools, and how many are left out. Of many
        tools those that are ticked and those that wait come first."""
        known = tool_definitions.list_current_tools(service)
        waiting = {tool.hash for tool in tool_definitions.list_unconfirmed(service, known)}
        if len(known) > MOST_REVIEWED:
            known.sort(key=lambda tool: (tool.hash not in ticked, tool.hash not in waiting))
        left_out, known = len(known[MOST_REVIEWED:]), known[:MOST_REVIEWED]
        values = build_tool_values(service, known)
        tools = [
            {
                **value,
                "waits": value["hash"] in waiting,
                "state_label": tool_definitions.TOOL_STATES[value["state"]],
            }
            for value in values
        ]
        return tools, left_out

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
    text = ngettext(
        "%(number)s tool changed or was removed after you opened this page. It is not "
        "confirmed. Review the current tools below.",
        "%(number)s tools changed or were removed after you opened this page. They are "
        "not confirmed. Review the current tools below.",
        count,
    )
    return text % {"number": count}
