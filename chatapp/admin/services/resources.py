"""Admin pages that list and read the resources and prompts of a service."""

from typing import Any

from django.core.paginator import Paginator
from django.http import HttpResponse
from django.utils.translation import gettext as _

from chatapp.audit.admin_entries import log_service_act
from chatapp.context import attachments
from chatapp.rendering.hidden_characters import draw_hidden
from chatapp.rendering.results import Place, build_attachment_pieces, build_block_pieces
from chatapp.views.access import MemberRequest
from chatapp.views.chat.picker import Field, read_values
from chatapp.views.chat.resources import expand_template, list_offered, matches
from chatapp.views.service_reads import run_operation
from mcpconfig.admin.service_pages import ServicePages
from mcpconfig.models import Service
from mcpconfig.operations.lazy import reading
from mcpconfig.services.sharing import explain_refusal
from mcpconfig.values.acting import Acting
from mcpconfig.values.errors import OperationError
from mcpconfig.values.results import Prompt, PromptResult
from mcpconfig.values.uri_templates import list_required_variables, list_variables

PAGE_LENGTH = 50
MAX_SHOWN_MESSAGES = 50


def show_resources(pages: ServicePages, request: MemberRequest, service: Service) -> HttpResponse:
    """Show all resources and templates, the form of one template, or the contents of a resource.

    A POST reads the resource at the posted URI or at the URI built from the form.
    """
    context = _build_context(
        request, service, "resources", _("Resources of %(service)s") % {"service": service}
    )
    if context["barrier"]:
        return pages.render_page(request, "resources", context)
    pattern = request.POST.get("template") or request.GET.get("template", "")
    uri = request.POST.get("uri") or request.GET.get("uri", "")
    if request.method == "POST":
        context |= _read_resource(request, service, uri, pattern)
    elif not pattern and not uri:
        return pages.render_page(request, "resources", context | _list_resources(request, service))
    context |= {
        "template": pattern,
        "fields": _build_template_fields(request, pattern),
        "asked": uri,
    }
    status = 422 if "problem" in context else 200
    return pages.render_page(request, "read", context, status)


def _list_resources(request: MemberRequest, service: Service) -> dict[str, Any]:
    query = request.GET.get("q", "")
    offered = run_operation(list_offered, service, Acting.of(request.user))
    if isinstance(offered, OperationError):
        return {"error": offered, "query": query}
    resources, templates = (
        [entry for entry in entries if matches(entry, query)] for entries in offered
    )
    page = Paginator(resources, PAGE_LENGTH).get_page(request.GET.get("page"))
    return {"query": query, "page": page, "templates": templates}


def _read_resource(
    request: MemberRequest, service: Service, uri: str, pattern: str
) -> dict[str, Any]:
    """Return the contents of a resource, or the problem, as context of the page."""
    log_service_act(service.name, "resource read")
    try:
        uri = expand_template(pattern, read_values(request)) if pattern else uri
    except OperationError as problem:
        return {"problem": problem}
    person = request.user
    contents = run_operation(reading.read_resource, service, uri, acting=Acting.of(person))
    if isinstance(contents, OperationError):
        return {"problem": contents, "uri": draw_hidden(uri)}
    draft = attachments.store_draft(person, service, uri, uri, contents)
    return {
        "found": draft,
        "results": build_attachment_pieces(draft),
        "uri": draw_hidden(draft.uri),
    }


def _build_template_fields(request: MemberRequest, pattern: str) -> list[Field]:
    required, values = list_required_variables(pattern), read_values(request)
    return [
        Field(ref=pattern, name=name, value=values.get(name, ""), is_required=name in required)
        for name in list_variables(pattern)
    ]


def show_prompts(pages: ServicePages, request: MemberRequest, service: Service) -> HttpResponse:
    """Show all prompts of the service."""
    context = _build_context(
        request, service, "prompts", _("Prompts of %(service)s") % {"service": service}
    )
    if not context["barrier"]:
        prompts = run_operation(reading.list_prompts, service, acting=Acting.of(request.user))
        context["error" if isinstance(prompts, OperationError) else "prompts"] = prompts
    return pages.render_page(request, "prompts", context)


def show_prompt(pages: ServicePages, request: MemberRequest, service: Service) -> HttpResponse:
    """Show the form of a prompt. A POST also shows the messages that the service returns."""
    name = request.POST.get("prompt") or request.GET.get("prompt", "")
    context = _build_context(request, service, "prompts", _("Prompt %(name)s") % {"name": name})
    if context["barrier"]:
        return pages.render_page(request, "prompts", context)
    if request.method == "POST":
        log_service_act(service.name, "prompt read")
    acting = Acting.of(request.user)
    prompts = run_operation(reading.list_prompts, service, acting=acting)
    if isinstance(prompts, OperationError):
        return pages.render_page(request, "prompts", context | {"error": prompts})
    chosen = next((prompt for prompt in prompts if prompt.name == name), None)
    if chosen is None:
        missing = OperationError(
            kind="not_found",
            message=_("%(service)s has no prompt “%(name)s”.") % {"service": service, "name": name},
        )
        return pages.render_page(
            request, "prompts", context | {"prompts": prompts, "problem": missing}, 404
        )
    values = read_values(request)
    context |= {"prompt": chosen, "fields": _build_argument_fields(chosen, values)}
    if request.method == "POST":
        filled = run_operation(reading.get_prompt, service, name, values, acting=acting)
        context |= (
            {"problem": filled} if isinstance(filled, OperationError) else _render_messages(filled)
        )
    status = 422 if "problem" in context else 200
    return pages.render_page(request, "prompt", context, status)


def _build_argument_fields(chosen: Prompt, values: dict[str, str]) -> list[Field]:
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


def _render_messages(filled: PromptResult) -> dict[str, Any]:
    """Return the messages as context of the page. Binary content is named, not shown or stored."""
    messages = [
        {
            "role": draw_hidden(message.role),
            "results": build_block_pieces([message.content], _build_place(number)),
        }
        for number, message in enumerate(filled.messages[:MAX_SHOWN_MESSAGES])
    ]
    more = len(filled.messages) - len(messages)
    return {"messages_of": messages, "more": more, "was_cut": filled.was_cut}


def _build_place(number: int) -> Place:
    return Place(element_id=f"prompt-message-{number}", bytes_at=lambda _: "", label=_("Text"))


def _build_context(
    request: MemberRequest, service: Service, tab: str, title: str
) -> dict[str, Any]:
    barrier = explain_refusal(service, request.user)
    return {"service": service, "tab": tab, "title": title, "barrier": barrier}
