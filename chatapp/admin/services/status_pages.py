"""Pages of one service in the admin: its status, who may use it, and what changed."""

from datetime import datetime, timedelta
from typing import Any

from django.contrib.auth.models import Group
from django.core.exceptions import PermissionDenied
from django.core.paginator import Paginator
from django.db.models import Count, Max, Prefetch, Q, QuerySet
from django.http import HttpResponse
from django.utils import timezone
from django.utils.translation import gettext as _

from chatapp.admin.activity.service_entries import (
    MOST_NAMES,
    filter_by_names,
    find_names,
    list_changes_of_services,
)
from chatapp.models import Member, ToolCall
from chatapp.rendering.pages.log import build_line
from chatapp.tool_menu.use_counts import DAYS
from chatapp.views.access import MemberRequest
from mcpconfig.admin import health
from mcpconfig.admin.big_lists import MOST_SEARCHED
from mcpconfig.admin.service_pages import ServicePages
from mcpconfig.models import Service, ToolDefinition, ToolSetting
from mcpconfig.oauth.sign_in_admin import (
    SignInCount,
    build_sign_ins,
    count_sign_ins,
    filter_sign_ins,
)
from mcpconfig.services.sharing import can_sign_in, explain_refusal
from mcpconfig.services.tool_definitions import describe_tool_state
from mcpconfig.values.service_admins import manages_services
from mcpconfig.values.tool_tokens import estimate_tool_tokens

Visibility = Service.Visibility
ERROR_DAYS = 7
PEOPLE_PER_PAGE = 50
ENTRIES_PER_PAGE = 50


# --- status --------------------------------------------------------------------------------------
def show_status(pages: ServicePages, request: MemberRequest, service: Service) -> HttpResponse:
    """Show the last known state. The service is not contacted."""
    states = _list_states(service)
    sign_ins = SignInCount()
    if service.authentication in Service.OAUTH:
        sign_ins = count_sign_ins([service]).get(service.pk, sign_ins)
    calls, failures = _count_calls(service)
    failed_at, failure = _find_last_failure(service)
    context = {
        "service": service,
        "tab": "status",
        "title": _("Status of %(service)s") % {"service": service},
        "state": health.render_state(service),
        "next_try": health.describe_next_try(service),
        "capabilities": _list_capabilities(service),
        "failed_at": failed_at,
        "failure": failure,
        "available_to": _describe_access(service),
        "tools": len(states),
        "waiting": sum(state in ("new", "changed") for _tool, state in states),
        "tokens": sum(
            estimate_tool_tokens([tool]) for tool, state in states if state != "disabled"
        ),
        "calls": calls,
        "failures": failures,
        "error_percent": f"{100 * failures / calls:.1f}" if calls else "",
        "error_days": ERROR_DAYS,
        "signed_in": sign_ins.total - sign_ins.ended,
        "sign_ins": sign_ins.total,
        "needs_own_sign_in": _needs_own_sign_in(service, request.user),
        "barrier": explain_refusal(service, request.user),
    }
    return pages.render_page(request, "status", context)


def _list_states(service: Service) -> list[tuple[ToolDefinition, str]]:
    settings: dict[str, ToolSetting] = {each.name: each for each in service.settings.all()}
    return [
        (tool, describe_tool_state(tool, settings.get(tool.name)))
        for tool in service.definitions.filter(is_current=True).defer("output_schema", "meta")
    ]


def _count_calls(service: Service) -> tuple[int, int]:
    since = timezone.now() - timedelta(days=ERROR_DAYS)
    counts = ToolCall.objects.filter(service=service, sent_at__gte=since).aggregate(
        calls=Count("pk"), failures=Count("pk", filter=Q(state=ToolCall.State.FAILED))
    )
    return counts["calls"], counts["failures"]


def _list_capabilities(service: Service) -> list[str]:
    """Return what the service declared when it was detected last. Services that were detected by an
    earlier version have it in their discovery only."""
    if service.capabilities:
        return [str(name) for name in service.capabilities]
    declared = (service.discovery or {}).get("capabilities") or {}
    return sorted(str(name) for name in declared) if isinstance(declared, dict) else []


def _find_last_failure(service: Service) -> tuple[datetime | None, str]:
    """Return when the service last failed, also if it works again, and how."""
    failed = service.last_failure or service.last_error
    if not failed:
        return None, ""
    return datetime.fromisoformat(failed["at"]), str(failed["message"])


def _describe_access(service: Service) -> str:
    match service.visibility:
        case Visibility.GROUPS:
            return ", ".join(group.name for group in service.groups.order_by("name")) or "–"
        case Visibility.EVERYONE:
            return _("Everyone")
    return str(service.owner or _("Admins"))


def _needs_own_sign_in(service: Service, person: Member) -> bool:
    """Whether this admin has to sign in before the tools can be fetched."""
    if not can_sign_in(service, person) or not service.is_enabled:
        return False
    holder = None if service.authentication == Service.Authentication.OAUTH_SHARED else person.pk
    held = filter_sign_ins(service).filter(person=holder)
    return all(each.is_over for each in build_sign_ins(service, held))


# --- people --------------------------------------------------------------------------------------
def show_people(pages: ServicePages, request: MemberRequest, service: Service) -> HttpResponse:
    """Show who may use the service, with their sign-ins and their use."""
    if not request.user.has_perm("chatapp.view_member"):
        raise PermissionDenied
    page = Paginator(_list_people(service), PEOPLE_PER_PAGE).get_page(request.GET.get("page"))
    members = list(page.object_list)
    uses = _count_uses(service, members)
    signs_in = service.authentication in Service.PERSONAL
    over = {}
    if signs_in:
        held = filter_sign_ins(service).filter(person__in=members)
        over = {
            each.person.pk: each.is_over for each in build_sign_ins(service, held) if each.person
        }
    context = {
        "service": service,
        "tab": "people",
        "title": _("Members of %(service)s") % {"service": service},
        "available_to": _describe_access(service),
        "page": page,
        "signs_in": signs_in,
        "days": DAYS,
        "rows": [
            {
                "member": member,
                "groups": ", ".join(group.name for group in member.groups.all()),
                "sign_in": over.get(member.pk),
                "calls": uses.get(member.pk, (0, None))[0],
                "last_used": uses.get(member.pk, (0, None))[1],
            }
            for member in members
        ],
    }
    return pages.render_page(request, "people", context)


def _list_people(service: Service) -> QuerySet[Member]:
    """Return who may use the service while it is enabled, as `Services.usable_by` decides it."""
    people = Member.objects.filter(is_active=True)
    if service.owner is not None and not service.owner.is_active:
        return people.none()
    match service.visibility:
        case Visibility.GROUPS:
            people = people.filter(
                Q(pk=service.owner_id) | Q(groups__in=service.groups.all())
            ).distinct()
        case Visibility.PRIVATE if service.owner_id is not None:
            people = people.filter(pk=service.owner_id)
        case Visibility.PRIVATE:
            admins = people.filter(is_staff=True)
            people = people.filter(pk__in=[each.pk for each in admins if manages_services(each)])
    named = Prefetch("groups", Group.objects.order_by("name"))
    return people.order_by("username").prefetch_related(named)


def _count_uses(service: Service, members: list[Member]) -> dict[int, tuple[int, Any]]:
    """Return by member how many calls of the last days there were, and when the last one was."""
    since = timezone.now() - timedelta(days=DAYS)
    rows = (
        ToolCall.objects.filter(
            service=service, sent_at__gte=since, turn__conversation__owner__in=members
        )
        .order_by()
        .values_list("turn__conversation__owner")
        .annotate(calls=Count("pk"), last=Max("sent_at"))
    )
    return {owner: (calls, last) for owner, calls, last in rows}


# --- changes -------------------------------------------------------------------------------------
def show_changes(pages: ServicePages, request: MemberRequest, service: Service) -> HttpResponse:
    """Show the entries of the log about the service, its tools and its sign-ins."""
    if not request.user.has_perm("chatapp.view_logentry"):
        raise PermissionDenied
    searched, is_cut = list_changes_of_services()
    periods = find_names(service.name, searched)
    found = filter_by_names(searched, periods)
    page = Paginator(found, ENTRIES_PER_PAGE).get_page(request.GET.get("page"))
    names = [period.name for period in periods]
    context = {
        "searched": MOST_SEARCHED if is_cut else 0,
        "earlier_names": names[1:],
        "has_all_names": len(names) < MOST_NAMES,
        "service": service,
        "tab": "changes",
        "title": _("Changes of %(service)s") % {"service": service},
        "page": page,
        "lines": [build_line(entry) for entry in page.object_list],
    }
    return pages.render_page(request, "changes", context)
