"""Prompts of services, found by `/service:prompt` or in the menu. A filled-in prompt is put into
the message box, where the person can change it; it is never sent automatically."""

import base64
import binascii
from collections.abc import Iterator
from dataclasses import dataclass
from http import HTTPStatus
from itertools import chain
from typing import Any

from django.http import HttpResponse
from django.utils.translation import gettext as _

from chatapp.context import attachments
from chatapp.conversations.saved_prompts import suggest_prompts
from chatapp.models import Attachment
from chatapp.models.conversations.search_index import split_words
from chatapp.views.access import MemberRequest, for_members
from chatapp.views.service_reads import run_operation
from mcpconfig.models import Service
from mcpconfig.operations.lazy import reading
from mcpconfig.values.errors import OperationError
from mcpconfig.values.results import (
    Prompt,
    PromptMessage,
    PromptResult,
    ResourceContents,
    ResourcePart,
)

from .commands import choose_entries, list_commands, list_steps
from .picker import (
    SLASH,
    Field,
    attach_files,
    close_picker,
    find_chat,
    find_drafts,
    find_service,
    get_acting,
    read_values,
    render_filled,
    render_step,
)

SHOWN_PROMPTS = 50


@for_members("POST")
def list_prompts(request: MemberRequest) -> HttpResponse:
    """List the prompts of a service that match the search."""
    return _render_list(request, find_service(request), request.POST.get("q", ""))


@for_members("POST")
def suggest(request: MemberRequest) -> HttpResponse:
    """Suggest commands, saved prompts and services for a message that begins with a slash."""
    typed = SLASH.fullmatch(request.POST.get("text", ""))
    if typed is None:
        return close_picker(request)
    name, colon, query = typed.groups(default="")
    if not colon:
        return _render_commands(request, name)
    service = Service.objects.for_member(request.user).filter(name=name).first()
    if service is None:
        return close_picker(request)
    return _render_list(request, service, query, is_slash=True)


@for_members("POST")
def show_form(request: MemberRequest) -> HttpResponse:
    """Show the form for the values of a prompt."""
    return render_form(request, find_service(request), request.POST.get("prompt", ""))


@for_members("POST")
def fill(request: MemberRequest) -> HttpResponse:
    """Request the prompt with these values, and show the resulting message."""
    service, name = find_service(request), request.POST.get("prompt", "")
    values = read_values(request)
    found = run_operation(reading.get_prompt, service, name, values, acting=get_acting(request))
    if isinstance(found, OperationError):
        return render_form(request, service, name, found)
    kept: list[Attachment] = [
        attachments.store_draft(request.user, service, file.uri, file.name, file.contents)
        for file in list_files(found, name)
    ]
    context = {"service": service, "prompt": name, "attachments": kept, "was_cut": found.was_cut}
    return render_filled(request, build_text(found), context)


@for_members("POST")
def use(request: MemberRequest) -> HttpResponse:
    """Put the prompt into the message. With JavaScript the page has already inserted the text."""
    files = find_drafts(request, request.POST.getlist("chosen"))
    return attach_files(request, files, request.POST.get("prompt_text", ""))


def find_named_prompt(request: MemberRequest) -> tuple[Service, str] | None:
    """Return the service and the prompt if the message is only the name of a prompt of a service
    that this person may use."""
    typed = SLASH.fullmatch(request.POST.get("text", ""))
    if typed is None or not typed[3]:
        return None
    service = Service.objects.for_member(request.user).filter(name=typed[1]).first()
    return (service, typed[3]) if service else None


def offer_named_command(request: MemberRequest) -> HttpResponse | None:
    """Return the commands if the message is only the name of one. It was sent before the list was
    there, and its text stays."""
    typed = SLASH.fullmatch(request.POST.get("text", ""))
    if typed is None or typed[2] or not request.htmx:
        return None
    name = typed[1].lower()
    entries = chain(list_steps(), list_commands(find_chat(request)))
    if all(entry.name != name for entry in entries):
        return None
    return _render_commands(request, typed[1], HTTPStatus.UNPROCESSABLE_ENTITY)


def render_form(
    request: MemberRequest, service: Service, name: str, problem: OperationError | None = None
) -> HttpResponse:
    """Return the form of the prompt with this name, or the list of prompts if there is none."""
    found = run_operation(reading.list_prompts, service, acting=get_acting(request))
    status = _choose_status(request)
    if isinstance(found, OperationError):
        return render_step(request, "prompts", {"service": service}, problem or found, status)
    prompt = next((each for each in found if each.name == name), None)
    if prompt is None:
        gone = OperationError(
            kind="not_found",
            message=_("%(service)s has no prompt named “%(name)s”.")
            % {"service": service, "name": name},
        )
        return render_step(
            request, "prompts", _build_list_context(service, found, ""), gone, status
        )
    values = read_values(request)
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
    if status == 422:
        context["is_typed"] = True
    return render_step(request, "prompt", context, problem, status)


def _choose_status(request: MemberRequest) -> int:
    """Return 422 for a message that only names a prompt: it was not sent, and its text stays."""
    return 422 if "prompt" not in request.POST else 200


def _render_list(
    request: MemberRequest, service: Service, query: str, *, is_slash: bool = False
) -> HttpResponse:
    found = run_operation(reading.list_prompts, service, acting=get_acting(request))
    if isinstance(found, OperationError):
        return render_step(request, "prompts", {"service": service, "query": query}, found)
    context = _build_list_context(service, found, query)
    if is_slash:
        context |= _build_slash_context(request)
    return render_step(request, "prompts", context)


def _render_commands(
    request: MemberRequest, name: str, status: int = HTTPStatus.OK
) -> HttpResponse:
    words = split_words(name)
    steps = choose_entries(list_steps(), words)
    commands = choose_entries(list_commands(find_chat(request)), words)
    prompts = suggest_prompts(request.user, name)
    services = list(Service.objects.for_member(request.user).filter(name__startswith=name))
    context = {
        "command_groups": [
            (label, entries)
            for label, entries in ((_("For this message"), steps), (_("Commands"), commands))
            if entries
        ],
        "services": services,
        "saved_prompts": prompts,
        "count": len(steps) + len(commands) + len(prompts) + len(services),
        **_build_slash_context(request),
    }
    return render_step(request, "services", context, status=status)


def _build_slash_context(request: MemberRequest) -> dict[str, Any]:
    """The page takes nothing from a list for a word that has changed meanwhile."""
    typed = request.POST.get("mention") or request.POST.get("text", "")
    return {
        "is_slash": True,
        "is_typed": True,
        "typed": typed,
        "heading": _("Commands and prompts"),
    }


def _build_list_context(service: Service, offered: list[Prompt], query: str) -> dict[str, Any]:
    words = query.lower().split()
    fitting = [
        prompt
        for prompt in offered
        if all(w in f"{prompt.name} {prompt.title} {prompt.description}".lower() for w in words)
    ]
    more = max(0, len(fitting) - SHOWN_PROMPTS)
    return {"service": service, "query": query, "prompts": fitting[:SHOWN_PROMPTS], "more": more}


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptFile:
    """A resource, picture or sound in a prompt."""

    uri: str
    name: str
    contents: ResourceContents


def build_text(prompt: PromptResult) -> str:
    """Return the messages of the user unchanged, those of the assistant quoted, links as URLs."""
    return "\n\n".join(filter(None, map(_render_message, prompt.messages)))


def list_files(prompt: PromptResult, name: str) -> list[PromptFile]:
    """Return the embedded resources, pictures and sounds in order."""
    found = (_read_part(message.content) for message in prompt.messages)
    return [
        PromptFile(
            uri=part.uri or f"prompt:{name}",
            name=part.uri or _name_file(part, name),
            contents=ResourceContents(parts=(part,)),
        )
        for part in found
        if part is not None
    ]


def _name_file(part: ResourcePart, name: str) -> str:
    if not part.mime_type:
        return _("File from %(name)s") % {"name": name}
    return _("%(type)s from %(name)s") % {"type": part.mime_type, "name": name}


def _render_message(message: PromptMessage) -> str:
    content = message.content
    match content.get("type"):
        case "text":
            text = str(content.get("text", "")).strip()
        case "resource_link":
            text = " ".join(_iterate_link_text(content))
        case _:
            return ""
    return text if message.role == "user" else "\n".join(f"> {line}" for line in text.split("\n"))


def _iterate_link_text(link: dict[str, Any]) -> Iterator[str]:
    yield str(link.get("title") or link.get("name") or _("Resource"))
    yield f"({link.get('uri', '')})"


def _read_part(content: dict[str, Any]) -> ResourcePart | None:
    resource = content.get("resource") if content.get("type") == "resource" else content
    if not isinstance(resource, dict) or content.get("type") in ("text", "resource_link"):
        return None
    text = resource.get("text")
    blob = None if text is not None else _decode(resource.get("blob") or resource.get("data"))
    if text is None and blob is None:
        return None
    return ResourcePart(
        uri=str(resource.get("uri") or ""),
        mime_type=str(resource.get("mimeType") or ""),
        text=text,
        blob=blob,
    )


def _decode(data: Any) -> bytes | None:
    try:
        return base64.b64decode(str(data or ""), validate=True) or None
    except (binascii.Error, ValueError):
        return None
