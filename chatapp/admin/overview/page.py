"""The overview as a page, and its live part, which the page asks for every half a minute."""

from typing import Any, cast

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_safe

from chatapp.admin.attention import Attention, count_attention
from chatapp.admin.glossary import list_terms
from chatapp.admin.menu import build_menu
from chatapp.admin.setup_checklist import load_setup_checklist
from chatapp.management.diagnostics import mail
from chatapp.management.diagnostics.connections import (
    check_channel_layer,
    check_secrets,
    check_services,
)
from chatapp.management.diagnostics.database import check_clock, check_database
from chatapp.management.diagnostics.findings import Finding
from chatapp.management.diagnostics.models import check_models
from chatapp.management.diagnostics.settings import check_addresses, check_files, check_settings
from chatapp.management.diagnostics.sign_in import check_directory
from chatapp.management.diagnostics.tasks import check_tasks
from chatapp.models import Member
from chatapp.people.admin_rights import VIEW_CHECKS

from .charts import list_charts
from .hiding import WAYS, hash_facts, split_hidden
from .needs import list_needs
from .running import Running, count_running


def show_overview(
    request: HttpRequest, extra_context: dict[str, Any] | None = None
) -> TemplateResponse:
    """The index of the admin. It takes the place of Django's list of models."""
    person = cast(Member, request.user)
    attention = count_attention()
    context = {
        **admin.site.each_context(request),
        "menu": build_menu(request, attention),
        "title": _("Overview"),
        "setup": load_setup_checklist(person),
        "charts": list_charts(person),
        "glossary": list_terms(),
        **_build_live(person, attention),
        **(extra_context or {}),
    }
    return TemplateResponse(request, "admin/index.html", context)


@require_safe
def show_live_part(request: HttpRequest) -> HttpResponse:
    person = cast(Member, request.user)
    context = {**_build_live(person, count_attention()), "charts": list_charts(person)}
    return TemplateResponse(request, "admin/live.html", context)


def _build_live(person: Member, attention: Attention) -> dict[str, Any]:
    may_view_turns = person.has_perm("chatapp.view_turn")
    running = count_running() if may_view_turns else Running()
    needs, hidden = split_hidden(person, list_needs(person, attention, running))
    return {
        "needs": [(need, hash_facts(need)) for need in needs],
        "hidden": hidden,
        "ways": [(value, title) for value, (title, _duration) in WAYS.items()],
        "running": running if may_view_turns else None,
        "now": timezone.localtime(),
    }


@require_http_methods(["GET", "HEAD", "POST"])
def show_checks(request: HttpRequest) -> HttpResponse:
    """The checks of `manage.py doctor`, and the services that failed last. A POST also runs those
    that take long: connections to other servers, and the stored secrets."""
    if not request.user.has_perm(VIEW_CHECKS):
        raise PermissionDenied
    connects = request.method == "POST"
    findings = [
        *(_run_long_checks() if connects else ()),
        *check_settings(),
        *check_addresses(),
        *check_files(),
        *check_database(),
        *check_tasks(),
        *check_clock(),
        *check_models(),
        *mail.check_addresses(),
        *(each for each in check_services(connects=False) if each.state != "good"),
    ]
    context = {
        **admin.site.each_context(request),
        "title": _("Checks"),
        "findings": sorted(findings, key=lambda finding: finding.state == "good"),
        "failing": sum(finding.state != "good" for finding in findings),
        "connects": connects,
    }
    return TemplateResponse(request, "admin/checks.html", context)


def _run_long_checks() -> list[Finding]:
    return [*check_channel_layer(), *mail.check_server(), *check_directory(), *check_secrets()]
