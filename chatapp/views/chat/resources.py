"""Attach a resource: find it or fill in its template, preview it, add it to the message."""

from collections.abc import Sequence

from django.core.paginator import Paginator
from django.http import HttpResponse
from django.utils.translation import gettext as _

from chatapp.context import attachments
from chatapp.rendering.results import build_attachment_pieces
from chatapp.views.access import MemberRequest, for_members
from chatapp.views.service_reads import run_operation
from mcpconfig.models import Service
from mcpconfig.operations.lazy import reading
from mcpconfig.values.acting import Acting
from mcpconfig.values.errors import OperationError
from mcpconfig.values.results import Resource, ResourceTemplate
from mcpconfig.values.uri_templates import expand, list_required_variables, list_variables

from .picker import Field, find_service, get_acting, read_values, render_step

PAGE_LENGTH = 20


@for_members("POST")
def list_resources(request: MemberRequest) -> HttpResponse:
    """List the resources and templates of a service that match the search."""
    return _render_list(request, find_service(request))


@for_members("POST")
def show_template(request: MemberRequest) -> HttpResponse:
    """Show the form for the values of a template."""
    return _render_template_form(request, find_service(request))


@for_members("POST")
def preview(request: MemberRequest) -> HttpResponse:
    """Read a resource and show its content before it is attached."""
    service, pattern = find_service(request), request.POST.get("template", "")
    try:
        uri = (
            expand_template(pattern, read_values(request))
            if pattern
            else request.POST.get("uri", "")
        )
    except OperationError as problem:
        return _render_template_form(request, service, problem)
    found = run_operation(reading.read_resource, service, uri, acting=get_acting(request))
    if isinstance(found, OperationError):
        again = _render_template_form if pattern else _render_list
        return again(request, service, found)
    name = request.POST.get("name", "") or uri
    kept = attachments.store_draft(request.user, service, uri, name, found)
    context = {"service": service, "attachment": kept, "results": build_attachment_pieces(kept)}
    return render_step(request, "preview", context)


def _render_list(
    request: MemberRequest, service: Service, problem: OperationError | None = None
) -> HttpResponse:
    query = request.POST.get("q", "")
    found = run_operation(list_offered, service, get_acting(request))
    if isinstance(found, OperationError):
        return render_step(request, "resources", {"service": service, "query": query}, found)
    resources, templates = ([each for each in several if matches(each, query)] for several in found)
    page = Paginator(resources, PAGE_LENGTH).get_page(request.POST.get("page"))
    context = {"service": service, "query": query, "page": page, "templates": templates}
    return render_step(request, "resources", context, problem)


async def list_offered(
    service: Service, acting: Acting
) -> tuple[Sequence[Resource], Sequence[ResourceTemplate]]:
    """Return both lists. They are read one after another: the first learns how to reach the
    service."""
    resources = await reading.list_resources(service, acting=acting)
    return resources, await reading.list_resource_templates(service, acting=acting)


def matches(item: Resource | ResourceTemplate, query: str) -> bool:
    address = item.uri if isinstance(item, Resource) else item.uri_template
    words = f"{item.name} {item.title} {item.description} {address}".lower()
    return all(word in words for word in query.lower().split())


def _render_template_form(
    request: MemberRequest, service: Service, problem: OperationError | None = None
) -> HttpResponse:
    pattern, values = request.POST.get("template", ""), read_values(request)
    needed = list_required_variables(pattern)
    fields = [
        Field(ref=pattern, name=name, value=values.get(name, ""), is_required=name in needed)
        for name in list_variables(pattern)
    ]
    context = {
        "service": service,
        "template": pattern,
        "name": request.POST.get("name", ""),
        "fields": fields,
    }
    return render_step(request, "template", context, problem)


def expand_template(pattern: str, values: dict[str, str]) -> str:
    """Return the URI. Raises OperationError if a value is missing or the template is invalid."""
    if missing := sorted(list_required_variables(pattern) - set(values)):
        raise OperationError(
            kind="configuration",
            message=_("Fill in these fields: %(names)s") % {"names": ", ".join(missing)},
            was_sent=False,
            is_definite=True,
        )
    return expand(pattern, dict(values))
