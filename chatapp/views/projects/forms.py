"""The forms of a project and of its members."""

from typing import Any

from django import forms
from django.utils.translation import gettext_lazy

from chatapp.models import Conversation, Member, Project
from chatapp.models.conversations.conversation import MAX_INSTRUCTIONS_CHARACTERS
from chatapp.models.projects.project import DESCRIPTION_CHARACTERS, NAME_CHARACTERS, Role
from chatapp.projects.changes import ProjectValues
from chatapp.views.presets.forms import (
    StartForm,
    build_limited_field,
    clean_line,
    clean_required_line,
)

# Only one person owns a project.
ROLES = [choice for choice in Role.choices if choice[0] != Role.OWNER]


class ProjectForm(StartForm):
    name = forms.CharField(max_length=NAME_CHARACTERS, label=gettext_lazy("Name"))
    description = forms.CharField(
        max_length=DESCRIPTION_CHARACTERS, required=False, label=gettext_lazy("Description")
    )
    instructions = build_limited_field(
        MAX_INSTRUCTIONS_CHARACTERS, required=False, label=gettext_lazy("Instructions")
    )
    plans = forms.BooleanField(required=False)
    tools = forms.ChoiceField(
        choices=[
            ("all", gettext_lazy("All services that the person has")),
            ("chosen", gettext_lazy("Only these services")),
        ],
        widget=forms.RadioSelect,
    )

    def __init__(self, *args: Any, person: Member, row: Project | None, **more: Any) -> None:
        more.setdefault("initial", describe_project(row))
        super().__init__(*args, **more)
        self.limit_choices(person, row)

    def clean_name(self) -> str:
        return clean_required_line(self.cleaned_data["name"])

    def clean_description(self) -> str:
        return clean_line(self.cleaned_data["description"])

    def read_values(self) -> ProjectValues:
        data, mode = self.cleaned_data, Conversation.Mode
        return ProjectValues(
            name=data["name"],
            description=data["description"],
            instructions=data["instructions"],
            model=data["model"],
            mode=(mode.PLAN if data["plans"] else mode.ACT).value,
            limits_services=data["tools"] == "chosen",
            services=list(data["services"]),
        )


def describe_project(row: Project | None) -> dict[str, Any]:
    """Return the values of the form for this project, or for a new one."""
    if row is None:
        return {"tools": "all"}
    return {
        "name": row.name,
        "description": row.description,
        "instructions": row.instructions,
        "model": row.model,
        "plans": row.mode == Conversation.Mode.PLAN,
        "tools": "chosen" if row.limits_services else "all",
        "services": list(row.services.values_list("pk", flat=True)),
    }


class RoleForm(forms.Form):
    role = forms.ChoiceField(choices=ROLES, label=gettext_lazy("Role"), initial=Role.MEMBER)


class NewMemberForm(RoleForm):
    username = forms.CharField(max_length=150, label=gettext_lazy("Username"))
