"""The base class of the service admin: the URLs and the rendering of its own pages.

The modules with these pages import this class and not `ServiceAdmin`, which imports them.
"""

from collections.abc import Callable, Sequence
from typing import Any

from django.contrib import admin
from django.contrib.auth import get_permission_codename, get_user_model
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import URLPattern, path
from django.views.decorators.http import require_http_methods

from mcpconfig.models import Service

URL_NAME = "mcpconfig_service_{}"


def may_change_credentials(request: HttpRequest) -> bool:
    return request.user.has_perm("mcpconfig.change_credential")


def may_change_services(request: HttpRequest) -> bool:
    return request.user.has_perm("mcpconfig.change_service")


def may_view_services(request: HttpRequest) -> bool:
    return may_change_services(request) or request.user.has_perm("mcpconfig.view_service")


def may_view_tools(request: HttpRequest) -> bool:
    may_read = request.user.has_perms(["mcpconfig.view_service", "mcpconfig.view_tooldefinition"])
    return may_change_services(request) or may_read


def may_view_sign_ins(request: HttpRequest) -> bool:
    """Whether the page of sign-ins opens. It names members, so that an admin who may only view
    services needs the right to view members as well."""
    if may_change_credentials(request) or may_change_services(request):
        return True
    people = get_user_model()._meta
    view_people = f"{people.app_label}.{get_permission_codename('view', people)}"
    return request.user.has_perms(["mcpconfig.view_service", view_people])


def list_tab_rights(request: HttpRequest) -> dict[str, bool]:
    """Return what the tabs of a service need to know beside permissions."""
    return {
        "may_view_tools": may_view_tools(request),
        "may_view_sign_ins": may_view_sign_ins(request),
    }


class ServicePages(admin.ModelAdmin):
    """A model admin of services with pages beside the list and the form."""

    def make_path(self, name: str, view: Callable[[HttpRequest], HttpResponse]) -> URLPattern:
        """Return the URL of a page about all services. The view checks permissions itself."""
        return path(f"{name}/", self.admin_site.admin_view(view), name=URL_NAME.format(name))

    def make_service_path(
        self,
        route: str,
        name: str,
        view: Callable[..., HttpResponse],
        methods: str = "GET HEAD",
        *,
        allows: Callable[[HttpRequest], bool] | None = None,
    ) -> URLPattern:
        """Return the URL of a page or a button of one service.

        The view receives the request and the service, and is called only for a person who has the
        permission to change that service, or whom `allows` lets in.
        """

        def checked_view(request: HttpRequest, pk: int, **captured: Any) -> HttpResponse:
            service = self.get_object(request, str(pk))
            if service is None:
                raise Http404("No such service.")
            may_open = allows(request) if allows else self.has_change_permission(request, service)
            if not may_open:
                raise PermissionDenied
            return view(request, service, **captured)

        admin_view = self.admin_site.admin_view(require_http_methods(methods.split())(checked_view))
        return path(f"<int:pk>/{route}", admin_view, name=URL_NAME.format(name))

    def note_act(self, service: Service, act: str) -> None:
        """Called before an act that changes nothing here, such as a test. Does nothing: the chat,
        which keeps a log, overrides it."""

    def note_download(self, of: str, names: Sequence[str] = ()) -> None:
        """Called before a file with services is sent: all, or those with these names. Like
        `note_act`."""

    def render_page(
        self, request: HttpRequest, name: str, context: dict[str, Any], status: int = 200
    ) -> HttpResponse:
        """Render the template `name` of the services with the context of the admin site.

        A page that an admin without the permission to change services may open leaves out its
        forms and buttons.
        """
        full_context = {
            **self.admin_site.each_context(request),
            "opts": self.opts,
            "has_change_permission": self.has_change_permission(request),
            **list_tab_rights(request),
            **context,
        }
        template = f"admin/mcpconfig/service/{name}.html"
        return TemplateResponse(request, template, full_context, status=status)
