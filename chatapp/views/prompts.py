"""Prompts of services: found by `/service:prompt` or in the menu, filled in, and put into the
message box for the person to see and change. They are never sent by themselves."""

import re
from typing import Any

from django.http import HttpResponse

from chatapp.models import Attachment
from chatapp.turns import attachments
from mcpconfig.errors import OperationError
from mcpconfig.models import Service
from mcpconfig.on_first_use import reading
from mcpconfig.results import Prompt

from .access import MemberRequest, for_members
from .asking import answer_of
from .picker import Field, acting_in, added, closed, drafts_of, given_values, service_of, step
from .prompt_text import files_of, text_of

SLASH = re.compile(r"/([\w-]*)(?:(:)(\S*))?\s*")
SHOWN_PROMPTS = 50


@for_members("POST")
def listed(request: MemberRequest) -> HttpResponse:
    """The prompts of a service that the words of the search are in."""
    return _list(request, service_of(request), request.POST.get("q", ""))


@for_members("POST")
def slash(request: MemberRequest) -> HttpResponse:
    """What a message that begins with a slash may become: a service's name, or a prompt's."""
    typed = SLASH.fullmatch(request.POST.get("text", ""))
    if typed is None:
        return closed(request)
    usable = Service.objects.for_member(request.user)
    name, colon, query = typed.groups(default="")
    if not colon:
        context = {"services": usable.filter(name__startswith=name), "is_slash": True}
        return step(request, "services", context)
    service = usable.filter(name=name).first()
    if service is None:
        return closed(request)
    return _list(request, service, query, is_slash=True)


@for_members("POST")
def form(request: MemberRequest) -> HttpResponse:
    """A form for a prompt's values."""
    return form_of(request, service_of(request), request.POST.get("prompt", ""))


@for_members("POST")
def fill(request: MemberRequest) -> HttpResponse:
    """Ask the service for the prompt with these values, and show what it makes of the message."""
    service, name = service_of(request), request.POST.get("prompt", "")
    values = given_values(request)
    found = answer_of(reading.get_prompt, service, name, values, acting=acting_in(request))
    if isinstance(found, OperationError):
        return form_of(request, service, name, found)
    kept: list[Attachment] = [
        attachments.keep(request.user, service, file.uri, file.name, file.contents)
        for file in files_of(found, name)
    ]
    written = request.POST.get("text", "")
    before = "" if SLASH.fullmatch(written) else written.strip()
    text = "\n\n".join(filter(None, [before, text_of(found)]))
    context = {"service": service, "prompt": name, "text": text, "attachments": kept}
    return step(request, "prompt_text", context | {"was_cut": found.was_cut})


@for_members("POST")
def use(request: MemberRequest) -> HttpResponse:
    """Put the prompt into the message. With JavaScript the page has done so with the text."""
    files = drafts_of(request, request.POST.getlist("chosen"))
    return added(request, files, request.POST.get("prompt_text", ""))


def asked_for(request: MemberRequest) -> tuple[Service, str] | None:
    """The prompt whose name is all that a message says, of a service that this person may use."""
    typed = SLASH.fullmatch(request.POST.get("text", ""))
    if typed is None or not typed[3]:
        return None
    service = Service.objects.for_member(request.user).filter(name=typed[1]).first()
    return (service, typed[3]) if service else None


def form_of(
    request: MemberRequest, service: Service, name: str, problem: OperationError | None = None
) -> HttpResponse:
    """The form of the prompt of this name; the list of prompts where there is no such one."""
    found = answer_of(reading.list_prompts, service, acting=acting_in(request))
    status = _status(request)
    if isinstance(found, OperationError):
        return step(request, "prompts", {"service": service}, problem or found, status)
    prompt = next((each for each in found if each.name == name), None)
    if prompt is None:
        gone = OperationError(kind="not_found", message=f"{service} has no prompt “{name}”.")
        return step(request, "prompts", _found(service, found, ""), gone, status)
    values = given_values(request)
    fields = [
        Field(
            ref=name,
            name=argument.name,
            value=values.get(argument.name, ""),
            title=argument.title,
            description=argument.description,
            is_required=argument.is_required,
        )
        for argument in prompt.arguments
    ]
    context = {"service": service, "prompt": prompt, "fields": fields}
    return step(request, "prompt", context, problem, status)


def _status(request: MemberRequest) -> int:
    """A message that only names a prompt was not sent: what was written stays in the box."""
    return 422 if "prompt" not in request.POST else 200


def _list(
    request: MemberRequest, service: Service, query: str, *, is_slash: bool = False
) -> HttpResponse:
    found = answer_of(reading.list_prompts, service, acting=acting_in(request))
    if isinstance(found, OperationError):
        return step(request, "prompts", {"service": service, "query": query}, found)
    context = _found(service, found, query) | {"is_slash": is_slash}
    return step(request, "prompts", context)


def _found(service: Service, offered: list[Prompt], query: str) -> dict[str, Any]:
    words = query.lower().split()
    fitting = [
        prompt
        for prompt in offered
        if all(w in f"{prompt.name} {prompt.title} {prompt.description}".lower() for w in words)
    ]
    more = max(0, len(fitting) - SHOWN_PROMPTS)
    return {"service": service, "query": query, "prompts": fitting[:SHOWN_PROMPTS], "more": more}
