"""The members of a project: added, given a role and removed."""

import uuid

from django.http import HttpResponse
from django.shortcuts import redirect

from chatapp.models import Project
from chatapp.people.refused import Refused
from chatapp.projects import members
from chatapp.views.access import MemberRequest, for_members

from .forms import NewMemberForm, RoleForm
from .projects import render_project


@for_members("POST")
def add(request: MemberRequest, project_id: uuid.UUID) -> HttpResponse:
    project = Project.owned_by(request.user, project_id)
    form = NewMemberForm(request.POST)
    status = 422
    if form.is_valid():
        try:
            members.add_member(project, **form.cleaned_data)
        except Refused as refused:
            form.add_error("username", refused.sentence)
            status = refused.status
        else:
            return redirect("project", project.pk)
    return render_project(request, project, member_form=form, status=status)


@for_members("POST")
def change(request: MemberRequest, project_id: uuid.UUID, person_id: int) -> HttpResponse:
    project = Project.owned_by(request.user, project_id)
    form = RoleForm(request.POST)
    try:
        if form.is_valid():
            members.change_role(project, person_id, form.cleaned_data["role"])
    except Refused as refused:
        return _render_refused(request, project, refused)
    return redirect("project", project.pk)


@for_members("POST")
def remove(request: MemberRequest, project_id: uuid.UUID, person_id: int) -> HttpResponse:
    """Remove a member, or leave."""
    project = Project.of(request.user, project_id)
    members.remove_member(project, person_id, request.user)
    if request.user.pk == person_id:
        return redirect("projects")
    return redirect("project", project.pk)


def _render_refused(request: MemberRequest, project: Project, refused: Refused) -> HttpResponse:
    return render_project(request, project, problem=refused.sentence, status=refused.status)
