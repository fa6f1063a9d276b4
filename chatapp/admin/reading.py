"""Resources and prompts of a service in the admin: what it says that it has, and what it gives. All
of it only reads."""

from typing import TYPE_CHECKING, Any

from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse

from chatapp.rendering.results import Place, pieces_of_attachment, pieces_of_blocks
from chatapp.rendering.visible import draw_hidden
from chatapp.turns import attachments
from chatapp.views.asking import answer_of
from chatapp.views.picker import Field, given_values
from chatapp.views.resources import expanded, fits, offered
from mcpconfig.acting import Acting
from mcpconfig.errors import OperationError
from mcpconfig.models import Service
from mcpconfig.on_first_use import reading
from mcpconfig.results import Prompt, PromptResult
from mcpconfig.sharing import refusal_of
from mcpconfig.uri_templates import required, variables

from .person import person_of

if TYPE_CHECKING:
    from mcpconfig.admin.services import ServiceAdmin

PAGE_LENGTH = 50
SHOWN_MESSAGES = 50


def resources(desk: "ServiceAdmin", request: HttpRequest, service: Service) -> HttpResponse:
    """All resources and templates; with a template chosen, a form for its values; with an address
    or these values posted, what the service gives."""
    context = _context(request, service, "resources", f"Resources of {service}")
    if context["barrier"]:
        return desk.page(request, "resources", context)
    pattern = request.POST.get("template") or request.GET.get("template", "")
    uri = request.POST.get("uri") or request.GET.get("uri", "")
    if request.method == "POST":
        context |= _read(request, service, uri, pattern)
    elif not pattern and not uri:
        return desk.page(request, "resources", context | _listed(request, service))
    context |= {"template": pattern, "fields": _fields(request, pattern), "asked": uri}
    status = 422 if "problem" in context else 200
    return desk.page(request, "read", context, status)


def _listed(request: HttpRequest, service: Service) -> dict[str, Any]:
    query = request.GET.get("q", "")
    found = answer_of(offered, service, Acting.of(person_of(request)))
    if isinstance(found, OperationError):
        return {"error": found, "query": query}
    listed, templates = ([each for each in kind if fits(each, query)] for kind in found)
    page = Paginator(listed, PAGE_LENGTH).get_page(request.GET.get("page"))
    return {"query": query, "page": page, "templates": templates}


def _read(request: HttpRequest, service: Service, uri: str, pattern: str) -> dict[str, Any]:
    """What is there, or the problem."""
    try:
        uri = expanded(pattern, given_values(request)) if pattern else uri
    except OperationError as problem:
        return {"problem": problem}
    person = person_of(request)
    found = answer_of(reading.read_resource, service, uri, acting=Acting.of(person))
    if isinstance(found, OperationError):
        return {"problem": found, "uri": draw_hidden(uri)}
    kept = attachments.keep(person, service, uri, uri, found)
    return {"found": kept, "results": pieces_of_attachment(kept), "uri": draw_hidden(kept.uri)}


def _fields(request: HttpRequest, pattern: str) -> list[Field]:
    needed, values = required(pattern), given_values(request)
    return [
        Field(ref=pattern, name=name, value=values.get(name, ""), is_required=name in needed)
        for name in variables(pattern)
    ]


def prompts(desk: "ServiceAdmin", request: HttpRequest, service: Service) -> HttpResponse:
    """All prompts of the service."""
    context = _context(request, service, "prompts", f"Prompts of {service}")
    if not context["barrier"]:
        found = answer_of(reading.list_prompts, service, acting=Acting.of(person_of(request)))
        context["error" if isinstance(found, OperationError) else "prompts"] = found
    return desk.page(request, "prompts", context)


def prompt(desk: "ServiceAdmin", request: HttpRequest, service: Service) -> HttpResponse:
    """A form for a prompt's values; with these posted, what the service makes of them."""
    name = request.POST.get("prompt") or request.GET.get("prompt", "")
    context = _context(request, service, "prompts", f"Prompt {name}")
    if context["barrier"]:
        return desk.page(request, "prompts", context)
    acting = Acting.of(person_of(request))
    known = answer_of(reading.list_prompts, service, acting=acting)
    if isinstance(known, OperationError):
        return desk.page(request, "prompts", context | {"error": known})
    chosen = next((each for each in known if each.name == name), None)
    if chosen is None:
        gone = OperationError(kind="not_found", message=f"{service} has no prompt “{name}”.")
        return desk.page(request, "prompts", context | {"prompts": known, "problem": gone}, 404)
    values = given_values(request)
    context |= {"prompt": chosen, "fields": _arguments(chosen, values)}
    if request.method == "POST":
        filled = answer_of(reading.get_prompt, service, name, values, acting=acting)
        context |= {"problem": filled} if isinstance(filled, OperationError) else _filled(filled)
    status = 422 if "problem" in context else 200
    return desk.page(request, "prompt", context, status)


def _arguments(chosen: Prompt, values: dict[str, str]) -> list[Field]:
    return [
        Field(
            ref=chosen.name,
            name=argument.name,
            value=values.get(argument.name, ""),
            title=argument.title,
            description=argument.description,
            is_required=argument.is_required,
        )
        for argument in chosen.arguments
    ]


def _filled(filled: PromptResult) -> dict[str, Any]:
    """Its messages as they would be sent. Bytes are told of only: nothing of it is kept."""
    shown = [
        {
            "role": draw_hidden(message.role),
            "results": pieces_of_blocks([message.content], _place(number)),
        }
        for number, message in enumerate(filled.messages[:SHOWN_MESSAGES])
    ]
    more = len(filled.messages) - len(shown)
    return {"messages_of": shown, "more": more, "was_cut": filled.was_cut}


def _place(number: int) -> Place:
    return Place(element_id=f"prompt-message-{number}", bytes_at=lambda _: "", label="Text")


def _context(request: HttpRequest, service: Service, tab: str, title: str) -> dict[str, Any]:
    barrier = refusal_of(service, person_of(request))
    return {"service": service, "tab": tab, "title": title, "barrier": barrier}
