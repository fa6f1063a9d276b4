"""A chat in which a call stands in every state that it can have, made as rows: what its page looks
like, and what it says. `python manage.py shell` runs `fill` in the installation's own process."""

import uuid
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.contrib import admin
from django.contrib.auth.models import AnonymousUser, Group
from django.template.loader import render_to_string
from django.test import RequestFactory
from django.urls import reverse
from django.utils import timezone

from chatapp.models import (
    Approval,
    Conversation,
    HousePolicy,
    Member,
    Question,
    Review,
    SecondSignature,
    ToolCall,
    Turn,
)
from chatapp.views.errors import SENTENCE
from mcpconfig.models import Service, ToolDefinition
from mcpconfig.services import tool_definitions
from mcpconfig.values.results import Tool
from tests.chatapp.projects.made import add_file, add_member, make_project
from tests.chatapp.rendering.cards.test_question_form import form
from tests.turns import rows

State = ToolCall.State
TEMPLATES = settings.BASE_DIR / "templates"
# Pages without a form of their own, which are seldom seen.
DOORS = (
    "[45]*.html",
    *("shared/busy.html", "shared/not_found.html", "shared/file_problem.html"),
    *("sign_in/*_gone.html", "sign_in/provider_*.html", "sign_in/too_many_tries.html"),
    *("sign_in/account_deleted.html", "sign_in/busy.html"),
)
TITLE = "Every state of a card"
TABLE = "| Day | Calls | Errors |\n|---|--:|--:|\n| Monday | 1,200 | 3 |\n| Tuesday | 900 | 5 |\n"
CODE = "```python\n" + "print('a line that is as long as lines are')  # and longer\n" * 50 + "```\n"
LONG = "All of this is to be read before it runs. " * 30
RESULT = {"content": [{"type": "text", "text": "The note is gone."}]}
PROBLEM = {"kind": "not_run", "message": "The service refused it.", "hint": "Ask again."}
LOST = {"kind": "lost", "message": "The line broke while it ran.", "hint": "Look there."}
FIELDS = {
    "title": {"type": "string", "description": "Which note."},
    "colour": {"enum": ["red", "blue"]},
    "times": {"type": "integer", "minimum": 1},
}

ENDS = {
    Approval.State.GRANTED: State.SUCCEEDED,
    Approval.State.DENIED: State.DENIED,
    Approval.State.EXPIRED: State.EXPIRED,
    Approval.State.WITHDRAWN: State.WITHDRAWN,
}


def fill(name: str = "owner") -> Conversation:
    """The chat; its turn is over, so that no worker moves anything."""
    person = Member.objects.get(username=name)
    turn = rows.turn(person, Turn.State.DONE, text=TITLE)
    rows.said(turn, f"Each of these calls stands **somewhere else**.\n\n{TABLE}\n{CODE}")
    tool = _add_tool()
    for state in State:
        _add_call(turn, state, tool)
    return turn.conversation


def fill_for_signer(name: str = "owner", requester: str = "stranger") -> list[ToolCall]:
    """Calls that somebody else signed: one to sign, and one that ended in each way it can."""
    signer, other = (Member.objects.get(username=each) for each in (name, requester))
    four_eyes = _make_second_rule(signer)
    turn = rows.turn(other, Turn.State.DONE, text=TITLE)
    tool = _add_tool()
    calls = []
    for state in Approval.State:
        values = {"title": f"Note {state}", "colour": "red", "times": 2}
        call = rows.question(
            turn,
            values | {"text": LONG},
            definition=tool,
            why="Needs approval because the risk is high.",
            reasons=["The tool’s name suggests that it deletes data."],
            asked_arguments='{"title":"Another note"}',
        )
        _sign(call, four_eyes, other)
        if state != Approval.State.OPEN:
            over = {"state": state, "decided_by": signer, "decided_at": timezone.now()}
            Approval.objects.filter(pk=call.pk).update(**over)
            ToolCall.objects.filter(pk=call.pk).update(state=ENDS[state])
        calls.append(call)
    return calls


def fill_service(name: str = "owner", service: str = "garden") -> Service:
    """A service of this person's own, in a house that lets people add them."""
    house = HousePolicy.current()
    house.lets_add_services = True
    house.save()
    person = Member.objects.get(username=name)
    return Service.objects.create(
        name=service,
        url="https://garden.example/mcp",
        owner=person,
        added_by=person,
        visibility=Service.Visibility.PRIVATE,
    )


def fill_project(name: str = "owner", member: str = "stranger") -> tuple[uuid.UUID, uuid.UUID]:
    """A project with a member and two files. Return its id and that of the file with text."""
    person = Member.objects.get(username=name)
    project = make_project(person, instructions="Times are UTC.", description="Faster checkout")
    add_member(project, Member.objects.get(username=member))
    file = add_file(person, project)
    add_file(person, project, "blank.txt", "   ")
    return project.pk, file.pk


def fill_waiting(name: str = "waits") -> Service:
    """A service that people sign in to, with a tool that is confirmed, one that changed, and one
    that is new and dangerous."""
    made = Service.objects.create(
        name=name,
        url="https://waits.example/mcp",
        authentication=Service.Authentication.OAUTH_USER,
        visibility="everyone",
    )
    schema = {"type": "object"}
    found, listed = (Tool(name=each, input_schema=schema) for each in ("find", "list"))
    tool_definitions.confirm_tools(tool_definitions.store_tools(made, [found, listed]))
    changed = Tool(name="find", description="Finds it.", input_schema=schema)
    new = Tool(name="delete_all", input_schema=schema)
    tool_definitions.store_tools(made, [listed, changed, new])
    return made


def take_service_back(service: str = "garden") -> None:
    Service.objects.filter(name=service).delete()
    HousePolicy.objects.update(lets_add_services=False)


def _make_second_rule(approver: Member) -> SecondSignature:
    """Two people sign; this one is the second."""
    group, _ = Group.objects.get_or_create(name="Operations")
    group.user_set.add(approver)
    return SecondSignature.objects.get_or_create(name="Operations", approvers=group)[0]


def _add_tool() -> ToolDefinition:
    """A tool as the notebook once described it. It is not the current description: other flows in
    the same house use the tool of this name."""
    tool = rows.definition(properties=FIELDS, required=["title"])
    ToolDefinition.objects.filter(pk=tool.pk).update(is_current=False)
    return tool


def render_doors() -> dict[str, str]:
    """Return the page of each error, and each page that ends a way in, by its template."""
    request = RequestFactory().post("/c/", {"text": "What is new?"})
    request.user = AnonymousUser()
    told = {
        "sentence": SENTENCE,
        "problem": SENTENCE,
        "hint": SENTENCE,
        "fields": [("text", "What is new?")],
        "has_files": True,
        "choice": {"name": "Company", "address": "/sign-in/with/company/"},
    }
    paths = (path for place in DOORS for path in sorted(TEMPLATES.glob(place)))
    names = [str(path.relative_to(TEMPLATES)) for path in paths]
    return {name: render_to_string(name, told, request) for name in names}


def _sign(call: ToolCall, second: SecondSignature, person: Member) -> None:
    signed = {"second": second, "first_by": person, "first_at": timezone.now()}
    Approval.objects.filter(pk=call.pk).update(**signed)


def _add_call(turn: Turn, state: str, tool: ToolDefinition) -> None:
    values = {"title": f"Note {state}", "colour": "red", "times": 2}
    told: dict[str, Any] = {
        "definition": tool,
        "reasons": ["The tool’s name suggests that it deletes data."],
    }
    told["why"] = "Needs approval because the risk is high."
    match state:
        case State.AWAITING_APPROVAL:
            rows.question(turn, values | {"text": LONG}, **told)
            rows.question(
                turn,
                {"title": "A\u202eB"},
                binding="c" * 64,
                **told | {"risk": "medium", "why": "Needs approval because the risk is medium."},
            )
            _add_call_for_two(turn, values, told)
            return
        case State.SUCCEEDED:
            told["result"] = RESULT
        case State.FAILED:
            told["error"] = PROBLEM
        case State.REFUSED:
            told["why"] = "Refused because an admin rule forbids it."
        case State.UNKNOWN:
            told |= {"error": LOST, "attempt": 1}
    call = rows.call(turn, values, state, **told)
    _add_app(call, turn)


def _add_call_for_two(turn: Turn, values: dict[str, Any], told: dict[str, Any]) -> None:
    """One that this person signs first, and one that they have signed."""
    owner = turn.conversation.owner
    four_eyes = _make_second_rule(Member.objects.exclude(pk=owner.pk).earliest("pk"))
    unsigned = rows.question(turn, values, binding="d" * 64, **told)
    Approval.objects.filter(pk=unsigned.pk).update(second=four_eyes)
    _sign(rows.question(turn, values, binding="e" * 64, **told), four_eyes, owner)


def _add_app(call: ToolCall, turn: Turn) -> None:
    """What belongs to a call in its state: the approval that it had, what it waits for."""
    tomorrow = timezone.now() + timedelta(days=1)
    mine = {"decided_by": turn.conversation.owner, "decided_at": timezone.now()}
    paper: dict[str, Any] = {"tool_call": call, "expires_at": tomorrow}
    match call.state:
        case State.DENIED:
            paper |= {"reason": "Keep it until Friday."} | mine
            Approval.objects.create(state="denied", binding=rows.BINDING, **paper)
        case State.EXPIRED | State.WITHDRAWN:
            paper["decided_at"] = timezone.now()
            Approval.objects.create(state=call.state, binding=rows.BINDING, **paper)
        case State.AWAITING_INPUT:
            Question.objects.create(round=1, requests=[form().to_json()], **paper)
        case State.SUCCEEDED:
            Review.objects.create(binding=rows.BINDING, **paper)


def list_admin_pages() -> list[str]:
    """Of each model in the admin: its list, the form to add one, and the page of one."""
    request: Any = RequestFactory().get("/admin/")
    request.user = Member.objects.get(username="admin")
    found = []
    for model, shown in admin.site._registry.items():
        name = f"admin:{model._meta.app_label}_{model._meta.model_name}"
        if not shown.has_view_permission(request):
            continue
        found.append(reverse(f"{name}_changelist"))
        if shown.has_add_permission(request):
            found.append(reverse(f"{name}_add"))
        if (one := shown.get_queryset(request).first()) is not None:
            found.append(reverse(f"{name}_change", args=[one.pk]))
    return found
