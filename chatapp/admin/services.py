"""The workbench of a service with what only the chat can do: run a tool under policy, and show what
services answer as the chat shows it."""

from functools import partial

from django.contrib import admin
from django.http import HttpRequest, HttpResponse
from django.urls import URLPattern

from mcpconfig.admin import confirming
from mcpconfig.admin.services import ServiceAdmin
from mcpconfig.admin.tools import ToolSettingInline
from mcpconfig.console import Json
from mcpconfig.models import Service

from . import reading, trying
from .tested_saves import HeldBack, TestedSaves, say_broken, tested
from .tool_changes import shown
from .tools import DrawnToolsInline

admin.site.unregister(Service)


@admin.register(Service)
class Workbench(TestedSaves, ServiceAdmin):
    inlines = (ToolSettingInline, DrawnToolsInline)

    def listed(self, service: Service) -> list[Json]:
        return shown(service, super().listed(service))

    def confirmed(self, request: HttpRequest, service: Service) -> HttpResponse:
        """Confirming tools lets them run by themselves, so it is tried on the policy tests."""
        try:
            page, broken = tested(partial(confirming.confirm, self, request, service))
        except HeldBack as held:
            said = {"ticked": set(request.POST.getlist("definition"))}
            title, problem = f"Tools of {service}", " ".join(held.sentences)
            return self.tools_page(request, service, title, 422, problem=problem, **said)
        say_broken(request, broken)
        return page

    def get_urls(self) -> list[URLPattern]:
        both, tool = "GET HEAD POST", "tools/<str:definition_hash>/try/"
        trial, content = "trials/<uuid:trial_id>/", "trials/<uuid:trial_id>/content/<int:index>/"
        own = [
            self.address_of("confirm-tools/", "confirm_tools", self.confirmed, "POST"),
            self.address_of(tool, "try", partial(trying.try_tool, self), both),
            self.address_of(trial, "trial", partial(trying.trial, self)),
            self.address_of(content, "trial_content", trying.trial_content),
            self.address_of("resources/", "resources", partial(reading.resources, self), both),
            self.address_of("prompts/", "prompts", partial(reading.prompts, self)),
            self.address_of("prompts/fill/", "prompt", partial(reading.prompt, self), both),
        ]
        return own + super().get_urls()
