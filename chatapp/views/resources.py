"""Attaching a resource: find it or fill in its template, look at it, put it beside the message."""

from collections.abc import Sequence

from django.core.paginator import Paginator
from django.http import HttpResponse

from chatapp.rendering.results import pieces_of_attachment
from chatapp.turns import attachments
from mcpconfig.acting import Acting
from mcpconfig.errors import OperationError
from mcpconfig.models import Service
from mcpconfig.on_first_use import reading
from mcpconfig.results import Resource, ResourceTemplate
from mcpconfig.uri_templates import expand, required, variables

from .access import MemberRequest, for_members
from .asking import answer_of
from .picker import Field, acting_in, given_values, service_of, step

PAGE_LENGTH = 20


@for_members("POST")
def listed(request: MemberRequest) -> HttpResponse:
    """The resources and templates of a service that the words of the search are in."""
    return _list(request, service_of(request))


@for_members("POST")
def template(request: MemberRequest) -> HttpResponse:
    """A form for the values of a template."""
    return _form(request, service_of(request))


@for_members("POST")
def read(request: MemberRequest) -> HttpResponse:
    """Read a resource now, and show what it holds before it is attached."""
    service, pattern = service_of(request), request.POST.get("template", "")
    try:
        uri = expanded(pattern, given_values(request)) if pattern else request.POST.get("uri", "")
    except OperationError as problem:
        return _form(request, service, problem)
    found = answer_of(reading.read_resource, service, uri, acting=acting_in(request))
    if isinstance(found, OperationError):
        again = _form if pattern else _list
        return again(request, service, found)
    name = request.POST.get("name", "") or uri
    kept = attachments.keep(request.user, service, uri, name, found)
    context = {"service": service, "attachment": kept, "results": pieces_of_attachment(kept)}
    return step(request, "preview", context)


def _list(
    request: MemberRequest, service: Service, problem: OperationError | None = None
) -> HttpResponse:
    query = request.POST.get("q", "")
    found = answer_of(offered, service, acting_in(request))
    if isinstance(found, OperationError):
        return step(request, "resources", {"service": service, "query": query}, found)
    resources, templates = ([each for each in offered if fits(each, query)] for offered in found)
    page = Paginator(resources, PAGE_LENGTH).get_page(request.POST.get("page"))
    context = {"service": service, "query": query, "page": page, "templates": templates}
    return step(request, "resources", context, problem)


async def offered(
    service: Service, acting: Acting
) -> tuple[Sequence[Resource], Sequence[ResourceTemplate]]:
    """Both lists. The second waits for the first, which learns how the service is reached."""
    resources = await reading.list_resources(service, acting=acting)
    return resources, await reading.list_resource_templates(service, acting=acting)


def fits(offered: Resource | ResourceTemplate, query: str) -> bool:
    address = offered.uri if isinstance(offered, Resource) else offered.uri_template
    words = f"{offered.name} {offered.title} {offered.description} {address}".lower()
    return all(word in words for word in query.lower().split())


def _form(
    request: MemberRequest, service: Service, problem: OperationError | None = None
) -> HttpResponse:
    pattern, values = request.POST.get("template", ""), given_values(request)
    needed = required(pattern)
    fields = [
        Field(ref=pattern, name=name, value=values.get(name, ""), is_required=name in needed)
        for name in variables(pattern)
    ]
    context = {
        "service": service,
        "template": pattern,
        "name": request.POST.get("name", ""),
        "fields": fields,
    }
    return step(request, "template", context, problem)


def expanded(pattern: str, values: dict[str, str]) -> str:
    """The URI. Raises OperationError where a value is missing or the template cannot be read."""
    if missing := sorted(required(pattern) - set(values)):
        raise OperationError(
            kind="configuration",
            message=f"Fill in {' and '.join(missing)}.",
            was_sent=False,
            is_definite=True,
        )
    return expand(pattern, dict(values))
