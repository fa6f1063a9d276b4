"""One page for a person: what they have, and how access is removed."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice
from typing import TYPE_CHECKING, Any, cast

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
from django.utils.translation import gettext_lazy as _lazy

from chatapp.accounts.sessions import list_devices
from chatapp.admin.activity.filters import mark_id
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
from chatapp.people.admin_rights import RIGHTS, describe_rights, may_manage
from chatapp.policy import consents
from chatapp.providers.access.usage import format_cost, list_allowance_use
from chatapp.server.time_zones import get_server_day
from mcpconfig.models import Service
from mcpconfig.oauth.sign_in_status import ConnectionState, SignInStatus, get_sign_in_statuses
from mcpconfig.values.acting import Acting

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

ROWS = 6
# How many others are counted.
MOST_COUNTED = 99
CALLS = 5
WEEK = timedelta(days=7)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """`key` names what an admin may end; without one, there is nothing to end."""

    icon: str
    title: str
    help: str = ""
    value: str = ""
    tone: str = ""
    key: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A card. `more` is how many rows are not shown, `page` has all of them, and `address` is a
    list or a page about the same things. `end` is the text of the button that ends one of them, if
    this admin may."""

    name: str
    title: str
    rows: Sequence[Row]
    empty: str
    page: str
    address: str = ""
    more: int = 0
    foot: str = ""
    end: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of things that people have. An admin sees them with `permission`, and `find_address`
    returns the list of all people's, if there is one. `list_rows` reads at most so many."""

    name: str
    title: "StrOrPromise"
    empty: "StrOrPromise"
    list_rows: "Callable[[Member, int], Iterator[Row]]"
    permission: str = "chatapp.view_member"
    find_address: "Callable[[Member, Member], str]" = lambda _person, _reader: ""
    foot: "StrOrPromise" = ""
    end: "StrOrPromise" = ""
    may_end: "Callable[[Member, Member], bool]" = lambda _person, _reader: False


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
        "calls_address": _link(
            reader, "chatapp.view_toolcall", "toolcall", person=mark_id(person.pk)
        ),
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
    for kind in KINDS.values():
        if reader.has_perm(kind.permission):
            rows = list(islice(kind.list_rows(person, ROWS + MOST_COUNTED), ROWS + MOST_COUNTED))
            yield build_section(kind, person, reader, rows)


def build_section(
    kind: Kind, person: Member, reader: Member, rows: Sequence[Row], most: int = ROWS
) -> Section:
    """Return a card with the first of these rows."""
    return Section(
        name=kind.name,
        title=str(kind.title),
        rows=rows[:most],
        more=len(rows[most:]),
        empty=str(kind.empty),
        page=reverse("admin:chatapp_member_things", args=[person.pk, kind.name]),
        address=kind.find_address(person, reader),
        foot=str(kind.foot),
        end=str(kind.end) if kind.may_end(person, reader) else "",
    )


def _find_tools(person: Member, reader: Member) -> str:
    if reader.has_perms(("chatapp.view_policyrule", "chatapp.view_member")):
        return reverse("admin:policy_as_person", query={"person": person.pk})
    return ""


def may_end_permissions(_person: Member, reader: Member) -> bool:
    """What runs without asking is policy. Ending a permission only makes calls ask again."""
    return reader.has_perm("chatapp.change_policyrule")


def may_end_sessions(person: Member, reader: Member) -> bool:
    """An admin ends their own sessions in their settings, which keep the current one."""
    may = reader != person and reader.has_perm("chatapp.change_member")
    return may and may_manage(reader, person)


def may_end_tokens(person: Member, reader: Member) -> bool:
    return reader.has_perm("chatapp.change_accesstoken") and may_manage(reader, person)


def _list_services(person: Member, most: int) -> Iterator[Row]:
    used = Service.objects.for_member(person).select_related("identity_provider")
    services = list(used.prefetch_related("groups").order_by("title", "name").distinct()[:most])
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


def _list_permissions(person: Member, most: int) -> Iterator[Row]:
    given = Consent.objects.filter(person=person, revoked_at=None).select_related("service")
    rows = list(given.order_by("-created_at")[:most])
    for status in consents.assess(rows, HousePolicy.current()) if rows else ():
        names = ", ".join(status.tools[:3]) if len(status.tools) <= 3 else ""
        yield Row(
            icon="check",
            title=names or str(status.consent.service),
            help=f"{status.consent.service}, {status.consent.get_scope_display()}",
            value=status.dead_because or _describe_use(status.consent.last_used_at),
            tone="quiet" if status.dead_because else "",
            key=str(status.consent.pk),
        )


def _describe_use(at: Any) -> str:
    return _("last used %(time)s") % {"time": naturaltime(at)} if at else _("not used yet")


def _list_sessions(person: Member, _most: int) -> Iterator[Row]:
    for device in list_devices(person, None):
        yield Row(
            icon="system",
            title=device.name,
            help=device.address,
            value=str(naturaltime(device.last_seen_at)),
            key=str(device.id),
        )


def _list_tokens(person: Member, most: int) -> Iterator[Row]:
    for token in AccessToken.objects.filter(
        person=person, revoked_at=None, expires_at__gt=timezone.now()
    )[:most]:
        expires = _write_day(token.expires_at)
        yield Row(
            icon="key",
            title=token.name,
            help="; ".join(token.reaches),
            value=_("expires %(date)s") % {"date": expires},
            key=str(token.pk),
        )


def _list_allowances(person: Member, _most: int) -> Iterator[Row]:
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


def _list_delegations(person: Member, most: int) -> Iterator[Row]:
    rows = StandIn.objects.filter(
        Q(approver=person) | Q(stand_in=person), ends_on__gte=get_server_day()
    )
    for row in rows.select_related("approver", "stand_in")[:most]:
        gives = row.approver_id == person.pk
        name = {"name": (row.stand_in if gives else row.approver).display_name}
        days = (date_format(row.begins_on, "DATE_FORMAT"), date_format(row.ends_on, "DATE_FORMAT"))
        yield Row(
            icon="two",
            title=_("%(name)s signs for them") % name if gives else _("Signs for %(name)s") % name,
            value=_("%(first)s to %(last)s") % {"first": days[0], "last": days[1]},
        )


def _list_projects(person: Member, most: int) -> Iterator[Row]:
    for project in Project.filter_joined(person)[:most]:
        yield Row(
            icon="file",
            title=project.name,
            value=_("owns it") if project.is_owned else _("member"),
            help="" if project.archived_at is None else _("archived"),
        )


def _list_links(person: Member, most: int) -> Iterator[Row]:
    live = SharedLink.objects.live().filter(conversation__owner=person)
    for link in live.order_by("-created_at")[:most]:
        yield Row(
            icon="send",
            title=str(link),
            help=link.get_audience_display(),
            value=_write_day(link.created_at),
        )


KINDS = {
    kind.name: kind
    for kind in (
        Kind(
            name="services",
            title=_lazy("Services and sign-ins"),
            empty=_lazy("No services."),
            list_rows=_list_services,
            find_address=_find_tools,
        ),
        Kind(
            name="permissions",
            title=_lazy("Permissions"),
            empty=_lazy("No permissions given in advance."),
            list_rows=_list_permissions,
            foot=_lazy("Admin rules always apply."),
            end=_lazy("Revoke"),
            may_end=may_end_permissions,
        ),
        Kind(
            name="sessions",
            title=_lazy("Sessions"),
            empty=_lazy("Not signed in anywhere."),
            list_rows=_list_sessions,
            permission="chatapp.view_accesstoken",
            end=_lazy("Sign out"),
            may_end=may_end_sessions,
        ),
        Kind(
            name="tokens",
            title=_lazy("Access tokens"),
            empty=_lazy("No access tokens."),
            list_rows=_list_tokens,
            permission="chatapp.view_accesstoken",
            find_address=lambda person, reader: _link(
                reader, "chatapp.view_accesstoken", "accesstoken", q=person.username
            ),
            end=_lazy("Revoke"),
            may_end=may_end_tokens,
        ),
        Kind(
            name="spending",
            title=_lazy("Spending"),
            empty=_lazy("No allowance limits this member."),
            list_rows=_list_allowances,
            permission="chatapp.view_usageofday",
            find_address=lambda person, reader: _link(
                reader, "chatapp.view_usageofday", "usageofday", person=mark_id(person.pk)
            ),
        ),
        Kind(
            name="delegates",
            title=_lazy("Delegates"),
            empty=_lazy("Nobody signs for this member, and they sign for nobody."),
            list_rows=_list_delegations,
        ),
        Kind(
            name="projects",
            title=_lazy("Projects"),
            empty=_lazy("No projects."),
            list_rows=_list_projects,
        ),
        Kind(
            name="links",
            title=_lazy("Shared links"),
            empty=_lazy("No active links."),
            list_rows=_list_links,
            permission="chatapp.view_sharedlink",
            find_address=lambda person, reader: _link(
                reader, "chatapp.view_sharedlink", "sharedlink", q=person.username
            ),
        ),
    )
}


# --- calls ---------------------------------------------------------------------------------------
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
