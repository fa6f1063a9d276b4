"""The admin of services, extended with pages that need the chat.

These are manual runs of tools under the policy, and resources and prompts.
"""

from collections.abc import Collection, Sequence
from functools import partial
from typing import Any

from django.contrib import admin
from django.contrib.admin.views.main import ChangeList
from django.http import HttpRequest, HttpResponse
from django.urls import URLPattern, path, reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST

from chatapp.admin.policy.tested_saves import (
    SaveRefused,
    TestedSavesMixin,
    save_with_tests,
    warn_about_failing,
)
from chatapp.audit.admin_entries import join_names, log_download, log_service_act
from mcpconfig.admin.service_pages import may_view_services, may_view_tools
from mcpconfig.admin.services import ServiceAdmin
from mcpconfig.models import Service
from mcpconfig.output.services import Json

from . import add_service, resources, status_pages, tools_page, try_tool, unused_tools
from .opinions import ToolOpinion, has_model
from .tool_changes import add_changes

admin.site.unregister(Service)


class ServiceList(ChangeList):
    """Leads to the status of the service, not to its settings."""

    def url_for_result(self, result: Any) -> str:
        return reverse("admin:mcpconfig_service_status", args=[result.pk])


@admin.register(Service)
class ChatServiceAdmin(TestedSavesMixin, ServiceAdmin):
    def note_act(self, service: Service, act: str) -> None:
        log_service_act(service.name, act)

    def note_download(self, of: str, names: Sequence[str] = ()) -> None:
        if names:
            log_download(of, "services", services=join_names(names), count=len(names))
        else:
            log_download(of, "configuration")

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        return ServiceList

    def get_autocomplete_fields(self, request: HttpRequest) -> Any:
        """Let an admin who may view members find the owner by typing. For others, who could find
        nobody, the field lists all members."""
        return ("owner",) if request.user.has_perm("chatapp.view_member") else ()

    def list_tools(self, service: Service, ticked: Collection[str]) -> tuple[list[Json], int]:
        tools, left_out = super().list_tools(service, ticked)
        return add_changes(service, tools), left_out

    def is_ticked_at_first(self, tool: Json) -> bool:
        """A second opinion that is still to come may raise the level."""
        opinion: ToolOpinion | None = tool["opinion"]
        return super().is_ticked_at_first(tool) and not (opinion and opinion.is_asked)

    def render_tools(
        self, request: HttpRequest, service: Service, title: str, status: int = 200, **context: Any
    ) -> HttpResponse:
        context |= {"opinion_model": has_model()}
        return super().render_tools(request, service, title, status, **context)

    def confirm(self, request: HttpRequest, service: Service) -> HttpResponse:
        """Confirm tools unless a policy test newly fails.

        A confirmed tool may run without approval.
        """
        try:
            page, failing = save_with_tests(partial(super().confirm, request, service))
        except SaveRefused as refused:
            ticked = set(request.POST.getlist("definition"))
            title, problem = (
                _("Tools of %(service)s") % {"service": service},
                " ".join(refused.sentences),
            )
            return self.render_tools(request, service, title, 422, problem=problem, ticked=ticked)
        warn_about_failing(request, failing)
        return page

    def get_urls(self) -> list[URLPattern]:
        methods, tool = "GET HEAD POST", "tools/<str:definition_hash>/try/"
        trial, content = "trials/<uuid:trial_id>/", "trials/<uuid:trial_id>/content/<int:index>/"
        show_status = partial(status_pages.show_status, self)
        show_people = partial(status_pages.show_people, self)
        show_changes = partial(status_pages.show_changes, self)
        show_tools = partial(tools_page.show_tools, self)
        act_on_tools = partial(tools_page.act_on_tools, self)
        show_resources = partial(resources.show_resources, self)
        show_prompt = partial(resources.show_prompt, self)
        add = self.admin_site.admin_view(partial(add_service.add_service, self))
        own = [
            self.make_path("unused", require_POST(partial(unused_tools.switch_unused, self))),
            path("connect/", add, name="mcpconfig_service_connect"),
            path("connect/<uuid:draft_id>/", add, name="mcpconfig_service_connect_draft"),
            self.make_service_path("status/", "status", show_status, allows=may_view_services),
            self.make_service_path("people/", "people", show_people, allows=may_view_services),
            self.make_service_path("changes/", "changes", show_changes, allows=may_view_services),
            self.make_service_path("tools/", "tools", show_tools, allows=may_view_tools),
            self.make_service_path("tools/act/", "act_on_tools", act_on_tools, "POST"),
            self.make_service_path(tool, "try", partial(try_tool.try_tool, self), methods),
            self.make_service_path(trial, "trial", partial(try_tool.show_trial, self)),
            self.make_service_path(content, "trial_content", try_tool.serve_trial_content),
            self.make_service_path("resources/", "resources", show_resources, methods),
            self.make_service_path("prompts/", "prompts", partial(resources.show_prompts, self)),
            self.make_service_path("prompts/fill/", "prompt", show_prompt, methods),
        ]
        return own + super().get_urls()
