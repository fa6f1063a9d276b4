"""One page for a person: what they have, and how access is removed."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice
from typing import Any, cast

from django.contrib import admin
from django.contrib.humanize.templatetags.humanize import intcomma, naturaltime
from django.core.exceptions import PermissionDenied
from django.db.models import Count, Exists, OuterRef, Q, Sum
from django.http import Http404, HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils import timezone
from django.utils.formats import date_format, number_format
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from chatapp.accounts.sessions import list_devices
from chatapp.admin.activity.turns import name_decider
from chatapp.admin.badges import EMPTY, render_badge, render_call_state
from chatapp.models import (
    AccessToken,
    Allowance,
    Approval,
    Consent,
    HousePolicy,
    Member,
    Project,
    SharedLink,
    StandIn,
    ToolCall,
    UsageOfDay,
)
from chatapp.people.admin_rights import RIGHTS, describe_rights
from chatapp.policy import consents
from chatapp.providers.access.usage import format_cost, list_allowance_use
from chatapp.server.time_zones import get_server_day
from mcpconfig.models import Service
from mcpconfig.oauth.sign_in_status import ConnectionState, SignInStatus, get_sign_in_statuses
from mcpconfig.values.acting import Acting

ROWS = 6
CALLS = 5
WEEK = timedelta(days=7)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    icon: str
    title: str
    help: str = ""
    value: str = ""
    tone: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A card. `more` is how many rows are not shown, and `address` leads to all of them."""

    name: str
    title: str
    rows: Sequence[Row]
    empty: str
    address: str = ""
    more: int = 0
    foot: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallLine:
    address: str
    tool: str
    service: str
    risk: SafeString | str
    decider: str
    state: SafeString | str
    at: Any


def find_person(pages: Any, request: HttpRequest, pk: int) -> Member:
    """Return the member, or raise 404. Raises PermissionDenied for admins who may not see them."""
    if not pages.has_view_permission(request):
        raise PermissionDenied
    member = Member.objects.prefetch_related("groups").filter(pk=pk).first()
    if member is None:
        raise Http404("No such member.")
    return member


def show_person(pages: Any, request: HttpRequest, pk: int) -> HttpResponse:
    person = find_person(pages, request, pk)
    reader = cast(Member, request.user)
    may_view_calls = reader.has_perm("chatapp.view_toolcall")
    context = {
        **admin.site.each_context(request),
        "opts": pages.opts,
        "title": person.display_name,
        "person": person,
        "groups": list(person.groups.all()),
        "facts": list(_list_facts(person)),
        "sections": list(_list_sections(person, reader)),
        "calls": list(_list_calls(person)) if may_view_calls else None,
        "calls_address": _link(reader, "chatapp.view_toolcall", "toolcall", person=person.pk),
        "rights": describe_rights(person),
        "right_helps": [
            right for right in RIGHTS.values() if person.is_staff and right.name in person.rights
        ],
        "may_change": pages.has_change_permission(request, person),
        "is_own": person == reader,
    }
    return TemplateResponse(request, "admin/chatapp/member/person.html", context)


def _link(reader: Member, permission: str, model: str, **query: Any) -> str:
    """Return the address of a list, or an empty string if this admin may not open it."""
    if not reader.has_perm(permission):
        return ""
    return reverse(f"admin:chatapp_{model}_changelist", query=query)


def _cut(rows: Iterable[Row], most: int = ROWS) -> dict[str, Any]:
    """Return the first rows and how many others there are, at most 99."""
    first = list(islice(rows, most + 99))
    return {"rows": first[:most], "more": len(first[most:])}


def _write_day(moment: datetime) -> str:
    """Return the day of this moment in the reader's time zone."""
    return date_format(timezone.localtime(moment), "DATE_FORMAT")


# --- figures -------------------------------------------------------------------------------------
def _list_facts(person: Member) -> Iterator[tuple[str, str, str]]:
    """Yield title, value and help of the figures at the top."""
    seen = EMPTY
    if person.last_login:
        seen = date_format(timezone.localtime(person.last_login), "DATETIME_FORMAT")
    yield _("Last sign-in"), seen, ""
    recent = ToolCall.objects.filter(
        turn__conversation__owner=person, turn__created_at__gt=timezone.now() - WEEK
    )
    asked = Exists(Approval.objects.filter(tool_call=OuterRef("pk")))
    counts = recent.annotate(was_asked=asked).aggregate(
        calls=Count("pk"), asked=Count("pk", filter=Q(was_asked=True))
    )
    yield (
        _("Calls, 7 days"),
        intcomma(counts["calls"]),
        _("%(count)s asked") % {"count": intcomma(counts["asked"])},
    )
    today = timezone.now().date()
    usage = UsageOfDay.objects.filter(person=person, day__gte=today.replace(day=1))
    by_currency = list(usage.values_list("currency").annotate(Sum("cost"), Sum("output_tokens")))
    spent = [f"{format_cost(cost)} {unit}" for unit, cost, _tokens in by_currency if unit]
    tokens = sum(tokens for _unit, _cost, tokens in by_currency)
    yield (
        _("Spent this month"),
        ", ".join(spent) or EMPTY,
        _("%(count)s tokens written") % {"count": intcomma(tokens)},
    )
    yield _("Member since"), _write_day(person.date_joined), ""


# --- cards ---------------------------------------------------------------------------------------
def _list_sections(person: Member, reader: Member) -> Iterator[Section]:
    tools = ""
    if reader.has_perms(("chatapp.view_policyrule", "chatapp.view_member")):
        tools = reverse("admin:policy_as_person", query={"person": person.pk})
    yield Section(
        name="services",
        title=_("Services and sign-ins"),
        address=tools,
        empty=_("No services."),
        **_cut(_list_services(person)),
    )
    yield Section(
        name="permissions",
        title=_("Permissions"),
        empty=_("No permissions given in advance."),
        foot=_("Admin rules always apply."),
        **_cut(_list_permissions(person)),
    )
    if reader.has_perm("chatapp.view_accesstoken"):
        yield from _list_ways_in(person, reader)
    if reader.has_perm("chatapp.view_usageofday"):
        yield Section(
            name="spending",
            title=_("Spending"),
            address=_link(reader, "chatapp.view_usageofday", "usageofday", person=person.pk),
            empty=_("No allowance limits this member."),
            **_cut(_list_allowances(person)),
        )
    yield Section(
        name="delegates",
        title=_("Delegates"),
        empty=_("Nobody signs for this member, and they sign for nobody."),
        **_cut(_list_delegations(person)),
    )
    yield Section(
        name="projects",
        title=_("Projects"),
        empty=_("No projects."),
        **_cut(_list_projects(person)),
    )
    if reader.has_perm("chatapp.view_sharedlink"):
        yield Section(
            name="links",
            title=_("Shared links"),
            address=_link(reader, "chatapp.view_sharedlink", "sharedlink", q=person.username),
            empty=_("No active links."),
            **_cut(_list_links(person)),
        )


def _list_ways_in(person: Member, reader: Member) -> Iterator[Section]:
    yield Section(
        name="sessions",
        title=_("Sessions"),
        empty=_("Not signed in anywhere."),
        **_cut(_list_sessions(person)),
    )
    yield Section(
        name="tokens",
        title=_("Access tokens"),
        address=_link(reader, "chatapp.view_accesstoken", "accesstoken", q=person.username),
        empty=_("No access tokens."),
        **_cut(_list_tokens(person)),
    )


def _list_services(person: Member) -> Iterator[Row]:
    used = Service.objects.for_member(person).select_related("identity_provider")
    services = list(
        used.prefetch_related("groups").order_by("title", "name").distinct()[: ROWS + 99]
    )
    statuses = get_sign_in_statuses(services, Acting.of(person))
    groups = {group.pk for group in person.groups.all()}
    for service in services:
        through = [group.name for group in service.groups.all() if group.pk in groups]
        reason = _("for everyone")
        if service.owner_id == person.pk:
            reason = _("own service")
        elif service.visibility == Service.Visibility.GROUPS:
            reason = _("through %(groups)s") % {"groups": ", ".join(through)}
        elif service.visibility == Service.Visibility.PRIVATE:
            reason = _("as an admin")
        value, tone = _describe_status(statuses[service.pk])
        yield Row(icon="tools", title=str(service), help=reason, value=value, tone=tone)


def _describe_status(status: SignInStatus) -> tuple[str, str]:
    if not status.is_by_people:
        return _("No sign-in needed"), "quiet"
    if status.state == ConnectionState.NOT_CONNECTED:
        return _("Not signed in"), "quiet"
    return (_("Sign-in ended"), "bad") if status.is_missing else (_("Signed in"), "good")


def _list_permissions(person: Member) -> Iterator[Row]:
    given = Consent.objects.filter(person=person, revoked_at=None).select_related("service")
    rows = list(given.order_by("-created_at")[: ROWS + 99])
    for status in consents.assess(rows, HousePolicy.current()) if rows else ():
        names = ", ".join(status.tools[:3]) if len(status.tools) <= 3 else ""
        yield Row(
            icon="check",
            title=names or str(status.consent.service),
            help=f"{status.consent.service}, {status.consent.get_scope_display()}",
            value=status.dead_because or _describe_use(status.consent.last_used_at),
            tone="quiet" if status.dead_because else "",
        )


def _describe_use(at: Any) -> str:
    return _("last used %(time)s") % {"time": naturaltime(at)} if at else _("not used yet")


def _list_sessions(person: Member) -> Iterator[Row]:
    for device in list_devices(person, None):
        yield Row(
            icon="system",
            title=device.name,
            help=device.address,
            value=str(naturaltime(device.last_seen_at)),
        )


def _list_tokens(person: Member) -> Iterator[Row]:
    for token in AccessToken.objects.filter(
        person=person, revoked_at=None, expires_at__gt=timezone.now()
    )[: ROWS + 99]:
        expires = _write_day(token.expires_at)
        yield Row(
            icon="key",
            title=token.name,
            help="; ".join(token.reaches),
            value=_("expires %(date)s") % {"date": expires},
        )


def _list_allowances(person: Member) -> Iterator[Row]:
    for use in list_allowance_use(person):
        yield Row(
            icon="coin",
            title=_describe_limit(use.allowance),
            help=_("shared by a group") if use.allowance.is_shared else "",
            value=_("%(percent)s %% used") % {"percent": number_format(use.share * 100, 0)},
            tone="bad" if use.share >= 1 else "",
        )


def _describe_limit(allowance: Allowance) -> str:
    limits = []
    if allowance.cost is not None:
        limits.append(f"{format_cost(allowance.cost)} {allowance.currency}")
    if allowance.tokens is not None:
        limits.append(_("%(count)s tokens") % {"count": intcomma(allowance.tokens)})
    return _("%(limits)s a month") % {"limits": ", ".join(limits)}


def _list_delegations(person: Member) -> Iterator[Row]:
    rows = StandIn.objects.filter(
        Q(approver=person) | Q(stand_in=person), ends_on__gte=get_server_day()
    )
    for row in rows.select_related("approver", "stand_in")[: ROWS + 99]:
        gives = row.approver_id == person.pk
        name = {"name": (row.stand_in if gives else row.approver).display_name}
        days = (date_format(row.begins_on, "DATE_FORMAT"), date_format(row.ends_on, "DATE_FORMAT"))
        yield Row(
            icon="two",
            title=_("%(name)s signs for them") % name if gives else _("Signs for %(name)s") % name,
            value=_("%(first)s to %(last)s") % {"first": days[0], "last": days[1]},
        )


def _list_projects(person: Member) -> Iterator[Row]:
    for project in Project.filter_joined(person)[: ROWS + 99]:
        yield Row(
            icon="file",
            title=project.name,
            value=_("owns it") if project.is_owned else _("member"),
            help="" if project.archived_at is None else _("archived"),
        )


def _list_links(person: Member) -> Iterator[Row]:
    live = SharedLink.objects.live().filter(conversation__owner=person)
    for link in live.order_by("-created_at")[: ROWS + 99]:
        yield Row(
            icon="send",
            title=str(link),
            help=link.get_audience_display(),
            value=_write_day(link.created_at),
        )


def _list_calls(person: Member) -> Iterator[CallLine]:
    calls = ToolCall.objects.filter(turn__conversation__owner=person)
    calls = calls.select_related("service", "turn", "approval__decided_by")
    for call in calls.order_by("-turn__created_at", "-step", "-position")[:CALLS]:
        yield CallLine(
            address=reverse("admin:chatapp_toolcall_change", args=[call.pk]),
            tool=call.tool_name or call.tool_id,
            service=str(call.service or _("Built-in tools")),
            risk=render_badge(call.risk),
            decider=name_decider(call),
            state=render_call_state(call),
            at=call.turn.created_at,
        )
