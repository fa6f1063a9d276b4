"""Confirm tools of a service in the admin: those whose definitions were shown and ticked."""

from typing import TYPE_CHECKING

from django.http import HttpRequest, HttpResponse
from django.template.defaultfilters import pluralize

from mcpconfig import ledger
from mcpconfig.models import Service

if TYPE_CHECKING:
    from .services import ServiceAdmin


def confirm(desk: "ServiceAdmin", request: HttpRequest, service: Service) -> HttpResponse:
    """Confirms the definitions that the page showed, not what may have come since. What was not
    ticked stays so on the page that answers."""
    ticked = set(request.POST.getlist("definition"))
    if not ticked:
        said = {"ticked": ticked, "problem": "Tick the tools that you want to confirm."}
        return desk.tools_page(request, service, f"Tools of {service}", status=422, **said)
    confirmed = ledger.confirm(service.definitions.filter(is_current=True, hash__in=ticked))
    return desk.tools_page(
        request,
        service,
        f"{confirmed} tool{pluralize(confirmed, ' is,s are')} confirmed",
        ticked=ticked,
        problem=_missed(len(ticked) - confirmed),
    )


def _missed(count: int) -> str:
    if not count:
        return ""
    what = f"{count} tool{pluralize(count)} changed or went away since this page was opened, and"
    return f"{what} {pluralize(count, 'is,are')} not confirmed. Read below what is there now."
