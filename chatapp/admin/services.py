"""The workbench of a service with what only the chat can do: run a tool under policy, and show what
services answer as the chat shows it."""

from functools import partial

from django.contrib import admin
from django.urls import URLPattern

from mcpconfig.admin.services import ServiceAdmin
from mcpconfig.admin.tools import ToolSettingInline
from mcpconfig.console import Json
from mcpconfig.models import Service

from . import reading, trying
from .tool_changes import shown
from .tools import DrawnToolsInline

admin.site.unregister(Service)


@admin.register(Service)
class Workbench(ServiceAdmin):
    inlines = (ToolSettingInline, DrawnToolsInline)

    def listed(self, service: Service) -> list[Json]:
        return shown(service, super().listed(service))

    def get_urls(self) -> list[URLPattern]:
        both, tool = "GET HEAD POST", "tools/<str:definition_hash>/try/"
        trial, content = "trials/<uuid:trial_id>/", "trials/<uuid:trial_id>/content/<int:index>/"
        own = [
            self.address_of(tool, "try", partial(trying.try_tool, self), both),
            self.address_of(trial, "trial", partial(trying.trial, self)),
            self.address_of(content, "trial_content", trying.trial_content),
            self.address_of("resources/", "resources", partial(reading.resources, self), both),
            self.address_of("prompts/", "prompts", partial(reading.prompts, self)),
            self.address_of("prompts/fill/", "prompt", partial(reading.prompt, self), both),
        ]
        return own + super().get_urls()
