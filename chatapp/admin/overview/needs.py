"""What needs an admin now: each a fact with numbers, and one page where something is done."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from functools import cache
from typing import Any
from uuid import UUID

from django.conf import settings
from django.contrib.humanize.templatetags.humanize import intcomma
from django.db.models import Count, Exists, F, Max, Min, OuterRef, Q, Subquery, Sum
from django.urls import reverse
from django.utils import timezone
from django.utils.formats import date_format
from django.utils.timesince import timesince
from django.utils.translation import get_language, ngettext
from django.utils.translation import gettext as _
from django_tasks import TaskResultStatus
from django_tasks_db.models import DBTaskResult

from chatapp.admin.attention import Attention, filter_unconfirmed
from chatapp.audit.audit_log import read_end
from chatapp.audit.hash_chain import Mark, compute_digest, link_hash
from chatapp.audit.last_runs import (
    BACKUP,
    BACKUP_OVERDUE,
    get_anchor_overdue,
    is_overdue,
    load_runs,
    name_anchor,
)
from chatapp.management.diagnostics.findings import Finding
from chatapp.management.diagnostics.models import check_providers
from chatapp.management.diagnostics.settings import check_addresses, check_files, check_settings
from chatapp.models import (
    Allowance,
    Approval,
    LogEntry,
    LogHead,
    Member,
    PolicyChange,
    ToolCall,
    UsageOfDay,
)
from chatapp.people.admin_rights import VIEW_CHECKS
from chatapp.people.sign_in_limits import list_failures
from chatapp.providers.access.usage import AllowanceUse
from mcpconfig.models import ToolSetting
from mcpconfig.services.health import Health, list_health

from .running import Running

SERVICES_MAX = 5
APPROVALS_MAX = 500
NAMES_MAX = 3
# How many more rows are read to count those that are not shown.
MORE_MAX = 500
LAST_ENTRIES = 50
OWNER_NAMES = ("username", "first_name", "last_name")
EXPIRES_SOON = timedelta(days=1)
NEARLY_SPENT = 0.8
# Counts of failed sign-ins below this are typing errors.
FAILED_SIGN_INS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """One item. The lowest `rank` is the most urgent; `name` is its id on the page. `key` is what
    has to change before an item comes back that was dismissed; without one, its text."""

    name: str
    rank: int
    tone: str
    icon: str
    title: str
    fact: str
    action: str
    address: str
    key: str = ""


def list_needs(admin: Member, attention: Attention, running: Running) -> list[Need]:
    """Return what needs this admin, the most urgent first. The number of statements does not
    depend on the number of rows."""
    needs: list[Need] = []
    if admin.has_perm("mcpconfig.view_service"):
        needs += _list_service_needs(admin, attention)
    if admin.has_perm("chatapp.view_approval"):
        needs += _list_approval_needs()
    if attention.waiting_changes and admin.has_perm("chatapp.change_policychange"):
        needs += _list_change_needs(admin)
    if admin.has_perm("chatapp.view_toolcall"):
        needs += _list_outcome_needs(attention)
    if admin.has_perm("chatapp.view_turn"):
        needs += _list_turn_needs(running)
    if admin.has_perm("chatapp.view_allowance"):
        needs += _list_allowance_needs()
    if admin.has_perm("chatapp.view_member"):
        needs += _list_sign_in_needs()
    if admin.has_perm("django_tasks_database.view_dbtaskresult"):
        needs += _list_task_needs(attention)
    if admin.has_perm("chatapp.view_logentry"):
        needs += _list_log_needs()
    if admin.has_perm(VIEW_CHECKS):
        needs += [*_list_check_needs(attention), *_list_mail_needs(attention), *_list_run_needs()]
    return sorted(needs, key=lambda need: need.rank)


def _join(ids: Iterable[object]) -> str:
    """Return a key that changes when one of these comes or goes."""
    return " ".join(sorted(map(str, ids)))


def _list_more(count: int, like: Need | None, action: str, address: str) -> Iterator[Need]:
    """Yield where the rest is, if an item like this one is followed by more than are shown."""
    if count <= 0 or like is None:
        return
    shown = f"{intcomma(MORE_MAX)}+" if count >= MORE_MAX else intcomma(count)
    yield Need(
        name=f"{like.name.split('-')[0]}-more-{like.rank}",
        rank=like.rank,
        tone=like.tone,
        icon=like.icon,
        title=ngettext("%(count)s more item like this", "%(count)s more items like this", count)
        % {"count": shown},
        fact=_("Only the most urgent ones are shown here."),
        action=action,
        address=address,
        key=str(count),
    )


# --- services and their tools ------------------------------------------------------------------
def _list_service_needs(admin: Member, attention: Attention) -> Iterator[Need]:
    may_change = admin.has_perm("mcpconfig.change_service")
    health = list_health()
    failing = [each for each in health if each.service.is_enabled and each.service.last_error]
    calls = _count_calls(failing[:SERVICES_MAX]) if failing else {}
    for each in failing[:SERVICES_MAX]:
        yield _describe_failing(each, calls.get(each.service.pk, {}))
    more = len(failing[SERVICES_MAX:])
    if more:
        yield Need(
            name="failing-more",
            rank=11,
            tone="high",
            icon="alert",
            title=ngettext("%(count)s more service fails", "%(count)s more services fail", more)
            % {"count": more},
            fact=_("Their tools are not available."),
            action=_("Open service health") if may_change else _("View services"),
            address=reverse(f"admin:mcpconfig_service_{'health' if may_change else 'changelist'}"),
        )
    waiting = [each for each in health if each.sign_ins_needed and each not in failing]
    need: Need | None = None
    for each in waiting[:SERVICES_MAX]:
        need = Need(
            name=f"sign-in-{each.service.pk}",
            rank=50,
            tone="medium",
            icon="key",
            title=_("%(service)s needs a sign-in") % {"service": each.service},
            fact=_("Who has to act: %(who)s.") % {"who": each.sign_ins_needed},
            action=_("Open sign-ins") if may_change else _("Open service"),
            address=_get_address(each.service.pk, "sign_ins", may_change),
        )
        yield need
    services = reverse(f"admin:mcpconfig_service_{'health' if may_change else 'changelist'}")
    open_list = _("Open service health") if may_change else _("View services")
    yield from _list_more(len(waiting) - SERVICES_MAX, need, open_list, services)
    if attention.unconfirmed_tools:
        yield from _list_tool_needs(may_change)


def _get_address(service: int, page: str, may_change: bool) -> str:
    """Return the address of a page of the service, or of the service for an admin who may only
    view it."""
    return reverse(f"admin:mcpconfig_service_{page if may_change else 'change'}", args=[service])


def _count_calls(health: Iterable[Health]) -> dict[int | None, Mapping[str, Any]]:
    """Return for each service how many calls of the last day there were, how many failed, and for
    how many people."""
    since = timezone.now() - timedelta(days=1)
    calls = ToolCall.objects.filter(
        service__in=[each.service.pk for each in health], turn__created_at__gte=since
    )
    failed = Q(state=ToolCall.State.FAILED)
    people = Count("turn__conversation__owner", distinct=True, filter=failed)
    rows = calls.order_by().values("service_id")
    counted = rows.annotate(
        total=Count("pk"), failed=Count("pk", filter=failed), people=people
    ).values("service_id", "total", "failed", "people")
    return {row["service_id"]: row for row in counted}


def _describe_failing(health: Health, calls: Mapping[str, Any]) -> Need:
    service, since = health.service, health.failing_since
    error: dict[str, Any] = service.last_error or {}
    title = _("%(service)s fails") % {"service": service}
    if calls.get("failed"):
        title = _("%(service)s fails: %(failed)s of %(total)s calls in 24 hours") % {
            "service": service,
            "failed": intcomma(calls["failed"]),
            "total": intcomma(calls["total"]),
        }
    fact = [str(error.get("message", ""))]
    if since is not None:
        moment = date_format(timezone.localtime(since), "DATETIME_FORMAT")
        fact.append(_("Since %(time)s.") % {"time": moment})
    if people := calls.get("people"):
        text = ngettext("%(count)s person is affected.", "%(count)s people are affected.", people)
        fact.append(text % {"count": people})
    return Need(
        name=f"failing-{service.pk}",
        rank=10,
        tone="high",
        icon="alert",
        title=title,
        fact=" ".join(filter(None, fact)),
        action=_("Open service"),
        address=reverse("admin:mcpconfig_service_status", args=[service.pk]),
        key=f"{since} {error.get('kind')} {error.get('message')}",
    )


def _list_tool_needs(may_change: bool) -> Iterator[Need]:
    confirmed_before = ToolSetting.objects.filter(
        service=OuterRef("service"), name=OuterRef("name")
    ).exclude(confirmed_hash="")
    rows = (
        filter_unconfirmed()
        .annotate(is_changed=Exists(confirmed_before))
        .order_by()
        .values("service_id", "service__name", "service__title", "is_changed")
        .annotate(number=Count("pk"), example=Min("name"), latest=Max("pk"))
        .order_by("-is_changed", "-number", "service_id")
    )
    found, need = list(rows[: SERVICES_MAX + MORE_MAX]), None
    for row in found[:SERVICES_MAX]:
        need = _describe_tools(row, row["service__title"] or row["service__name"], may_change)
        yield need
    address = reverse("admin:mcpconfig_service_changelist")
    yield from _list_more(len(found) - SERVICES_MAX, need, _("View services"), address)


def _describe_tools(row: Mapping[str, Any], service: str, may_change: bool) -> Need:
    number, values = row["number"], {"service": service, "count": intcomma(row["number"])}
    if row["is_changed"]:
        title = ngettext(
            "%(service)s changed %(count)s tool", "%(service)s changed %(count)s tools", number
        )
    else:
        title = ngettext(
            "%(service)s has %(count)s new tool", "%(service)s has %(count)s new tools", number
        )
    rest = number - 1
    if rest:
        fact = ngettext(
            "%(tool)s and %(rest)s more need approval every time until you confirm them.",
            "%(tool)s and %(rest)s more need approval every time until you confirm them.",
            rest,
        )
    else:
        fact = _("%(tool)s needs approval every time until you confirm it.")
    action = _("Compare") if row["is_changed"] else _("Confirm tools")
    return Need(
        name=f"tools-{row['service_id']}-{'changed' if row['is_changed'] else 'new'}",
        rank=30 if row["is_changed"] else 35,
        tone="medium",
        icon="tools",
        title=title % values,
        fact=fact % {"tool": row["example"], "rest": intcomma(rest)},
        action=action if may_change else _("Open service"),
        address=_get_address(row["service_id"], "tools", may_change),
        key=f"{number} {row['latest']}",
    )


# --- people who wait ---------------------------------------------------------------------------
def _list_approval_needs() -> Iterator[Need]:
    now = timezone.now()
    waiting = Approval.objects.filter(state=Approval.State.OPEN).order_by("expires_at")
    rows = list(waiting.values_list("pk", "created_at", "expires_at")[:APPROVALS_MAX])
    soon, old, new = {}, {}, {}
    for pk, created_at, expires_at in rows:
        if expires_at < now + EXPIRES_SOON:
            soon[pk] = created_at
        elif created_at < now - timedelta(hours=1):
            old[pk] = created_at
        else:
            new[pk] = created_at
    if soon:
        text = ngettext(
            "%(count)s approval expires within a day",
            "%(count)s approvals expire within a day",
            len(soon),
        )
        yield from _describe_approvals("expiring", 15, "high", text, soon)
    if old:
        text = ngettext(
            "%(count)s approval has waited for more than an hour",
            "%(count)s approvals have waited for more than an hour",
            len(old),
        )
        yield from _describe_approvals("waiting", 25, "medium", text, old)
    if new:
        text = ngettext("%(count)s new approval waits", "%(count)s new approvals wait", len(new))
        yield from _describe_approvals("new", 26, "", text, new)


def _describe_approvals(
    name: str, rank: int, tone: str, text: str, times: Mapping[UUID, datetime]
) -> Iterator[Need]:
    """Describe these approvals. `times` has when each was created, by its id."""
    oldest = (
        Approval.objects.select_related("tool_call__turn__conversation__owner")
        .only(
            *("created_at", "tool_call__tool_id"),
            *(f"tool_call__turn__conversation__owner__{part}" for part in OWNER_NAMES),
        )
        .filter(pk=min(times, key=lambda pk: times[pk]))
        .first()
    )
    if oldest is None:
        return  # its chat was deleted meanwhile
    count = intcomma(len(times)) + ("+" if len(times) == APPROVALS_MAX else "")
    fact = _("The oldest is %(tool)s for %(person)s. It has waited %(time)s.") % {
        "tool": oldest.tool_call.tool_id,
        "person": oldest.tool_call.turn.conversation.owner.display_name,
        "time": timesince(oldest.created_at, depth=1),
    }
    yield Need(
        name=f"approvals-{name}",
        rank=rank,
        tone=tone,
        icon="clock",
        title=text % {"count": count},
        fact=fact,
        action=_("Review"),
        address=reverse("admin:chatapp_approval_changelist") + "?state__exact=open",
        key=_join(times),
    )


def _list_change_needs(admin: Member) -> Iterator[Need]:
    """Yield the policy changes that wait for this admin. Their own wait for somebody else."""
    waiting = PolicyChange.objects.filter(state=PolicyChange.State.WAITING).exclude(author=admin)
    found = list(waiting.select_related("author").order_by("submitted_at")[: NAMES_MAX + MORE_MAX])
    need: Need | None = None
    for change in found[:NAMES_MAX]:
        author = change.author.display_name if change.author else "–"
        since = change.submitted_at or change.created_at
        need = Need(
            name=f"policy-change-{change.pk}",
            rank=18,
            tone="medium",
            icon="shield",
            title=_("Policy change “%(title)s” needs your approval") % {"title": change.title},
            fact=_("By %(author)s. It has waited %(time)s.")
            % {"author": author, "time": timesince(since, depth=1)},
            action=_("Review"),
            address=reverse("admin:chatapp_policychange_change", args=[change.pk]),
            key=str(since),
        )
        yield need
    address = reverse("admin:chatapp_policychange_changelist") + "?state__exact=waiting"
    yield from _list_more(len(found) - NAMES_MAX, need, _("View changes"), address)


def _list_outcome_needs(attention: Attention) -> Iterator[Need]:
    count = attention.unknown_outcomes
    if count:
        yield Need(
            name="unknown-outcomes",
            rank=40,
            tone="medium",
            icon="alert",
            title=ngettext(
                "%(count)s call has an unknown outcome",
                "%(count)s calls have an unknown outcome",
                count,
            )
            % {"count": intcomma(count)},
            fact=_("The member says in the chat whether it worked. Their answer waits until then."),
            action=_("View calls"),
            address=reverse("admin:chatapp_toolcall_changelist") + "?state__exact=unknown",
        )


def _list_turn_needs(running: Running) -> Iterator[Need]:
    if running.abandoned:
        yield Need(
            name="abandoned",
            rank=20,
            tone="high",
            icon="system",
            title=ngettext(
                "%(count)s turn runs without a worker",
                "%(count)s turns run without a worker",
                running.abandoned,
            )
            % {"count": intcomma(running.abandoned)},
            fact=_("A running server continues them within half a minute. If not, start one."),
            action=_("View turns"),
            address=reverse("admin:chatapp_turn_changelist") + "?state__exact=running",
        )


# --- allowances --------------------------------------------------------------------------------
def _list_allowance_needs() -> Iterator[Need]:
    allowances = list(Allowance.objects.select_related("person", "group"))
    if not allowances:
        return
    spent = sorted(_measure_allowances(allowances), key=lambda use: -use[0].share)
    nearly = [each for each in spent if each[0].share >= NEARLY_SPENT]
    need: Need | None = None
    for use, person in nearly[:NAMES_MAX]:
        allowance = use.allowance
        whose = _("the allowance of %(whose)s") % {"whose": person or allowance}
        need = Need(
            name=f"allowance-{allowance.pk}-{person}",
            rank=22 if use.share >= 1 else 32,
            tone="high" if use.share >= 1 else "medium",
            icon="coin",
            title=_("%(percent)s %% of %(allowance)s is used")
            % {"percent": intcomma(int(use.share * 100)), "allowance": whose},
            fact=_describe_use(use),
            action=_("Change allowance"),
            address=reverse("admin:chatapp_allowance_change", args=[allowance.pk]),
            key=f"{timezone.now():%Y-%m} {int(use.share * 10)}",
        )
        yield need
    address = reverse("admin:chatapp_allowance_changelist")
    yield from _list_more(len(nearly) - NAMES_MAX, need, _("View allowances"), address)


def _describe_use(use: AllowanceUse) -> str:
    allowance, parts = use.allowance, []
    if allowance.tokens:
        values = {"used": intcomma(use.tokens), "limit": intcomma(allowance.tokens)}
        parts.append(_("%(used)s of %(limit)s tokens this month.") % values)
    if allowance.cost:
        values = {
            "used": intcomma(round(use.cost, 2)),
            "limit": intcomma(allowance.cost),
            "currency": allowance.currency,
        }
        parts.append(_("%(used)s of %(limit)s %(currency)s this month.") % values)
    return " ".join(parts)


def _measure_allowances(allowances: list[Allowance]) -> Iterator[tuple[AllowanceUse, str]]:
    """Yield the use of each allowance this month: that of the group, or of each person who has one
    of their own, with their name."""
    first = timezone.now().date().replace(day=1)
    used = UsageOfDay.objects.filter(day__gte=first).order_by().values("person_id", "currency")
    sums = used.annotate(tokens=Sum(F("input_tokens") + F("output_tokens")), spent=Sum("cost"))
    tokens: dict[int, int] = defaultdict(int)
    costs: dict[tuple[int, str], Decimal] = defaultdict(Decimal)
    for row in sums:
        tokens[row["person_id"]] += row["tokens"]
        costs[row["person_id"], row["currency"]] += row["spent"]
    names: dict[int, str] = {}
    groups: dict[int, set[int]] = defaultdict(set)
    found = Member.objects.filter(pk__in=tokens).values_list("pk", "username", "groups")
    for person, name, group in found:
        names[person] = name
        groups[group].add(person)
    for allowance in allowances:
        people = _list_people(allowance, set(tokens), groups)
        uses = {
            person: AllowanceUse(
                allowance=allowance,
                tokens=tokens[person],
                cost=costs[person, allowance.currency],
            )
            for person in people
        }
        if allowance.is_shared:
            total = sum((use.cost for use in uses.values()), Decimal(0))
            together = sum(use.tokens for use in uses.values())
            yield AllowanceUse(allowance=allowance, tokens=together, cost=total), ""
        else:
            yield from ((use, names.get(person, "")) for person, use in uses.items())


def _list_people(
    allowance: Allowance, everybody: set[int], groups: dict[int, set[int]]
) -> set[int]:
    if allowance.person_id is not None:
        return {allowance.person_id} & everybody
    return everybody if allowance.group_id is None else groups[allowance.group_id]


# --- sign-ins ----------------------------------------------------------------------------------
def _list_sign_in_needs() -> Iterator[Need]:
    """Yield the members whose sign-in fails, and how often it fails for names that nobody has."""
    failures = list_failures()
    failed = [each for each in failures if each.person and each.number >= FAILED_SIGN_INS]
    need: Need | None = None
    for each in failed[:NAMES_MAX]:
        need = Need(
            name=f"sign-ins-{each.person}",
            rank=28,
            tone="medium",
            icon="key",
            title=ngettext(
                "%(count)s failed sign-in for %(name)s",
                "%(count)s failed sign-ins for %(name)s",
                each.number,
            )
            % {"count": intcomma(each.number), "name": each.name},
            fact=_("In the last day. After %(limit)s failures in a row, sign-in pauses.")
            % {"limit": settings.AXES_FAILURE_LIMIT},
            action=_("Open member"),
            address=reverse("admin:chatapp_member_change", args=[each.person]),
            key=f"{each.number} {each.latest}",
        )
        yield need
    members = reverse("admin:chatapp_member_changelist")
    yield from _list_more(len(failed) - NAMES_MAX, need, _("View members"), members)
    strangers = sum(each.number for each in failures if not each.name)
    if strangers >= settings.SIGN_IN_ADDRESS_FAILURE_LIMIT:
        yield Need(
            name="sign-ins-unknown",
            rank=27,
            tone="medium",
            icon="key",
            title=_("%(count)s failed sign-ins with other names") % {"count": intcomma(strangers)},
            fact=_("Somebody may be guessing names. Each address is limited."),
            action=_("View members"),
            address=reverse("admin:chatapp_member_changelist"),
        )


# --- the server --------------------------------------------------------------------------------
def _list_task_needs(attention: Attention) -> Iterator[Need]:
    address = reverse("admin:django_tasks_database_dbtaskresult_changelist")
    if late := attention.late_tasks:
        yield Need(
            name="tasks-late",
            rank=8,
            tone="high",
            icon="system",
            title=ngettext(
                "%(count)s background task waits for a worker",
                "%(count)s background tasks wait for a worker",
                late,
            )
            % {"count": intcomma(late)},
            fact=_("None has started for ten minutes. Run %(command)s, or set TASKS_WORKER=1.")
            % {"command": "manage.py run_tasks"},
            action=_("View tasks"),
            address=f"{address}?status__exact=READY",
        )
    count = attention.failed_tasks
    if not count:
        return
    failed = DBTaskResult.objects.filter(status=TaskResultStatus.FAILED)
    last = failed.aggregate(path=Max("task_path"), at=Max("finished_at"))
    moment = last["at"] and date_format(timezone.localtime(last["at"]), "DATETIME_FORMAT")
    yield Need(
        name="tasks",
        rank=45,
        tone="medium",
        icon="system",
        title=ngettext(
            "%(count)s background task failed", "%(count)s background tasks failed", count
        )
        % {"count": intcomma(count)},
        fact=_("Last failure: %(time)s. For example: %(task)s.")
        % {"time": moment or "–", "task": str(last["path"]).rsplit(".", 1)[-1]},
        action=_("View tasks"),
        address=f"{address}?status__exact=FAILED",
    )


def _list_log_needs() -> Iterator[Need]:
    position = find_altered_entry()
    if position is not None:
        yield Need(
            name="log",
            rank=5,
            tone="high",
            icon="alert",
            title=_("The activity log was altered"),
            fact=_(
                "Entry %(position)s is missing or does not match its checksum. Run manage.py log "
                "verify."
            )
            % {"position": position},
            action=_("View log"),
            address=reverse("admin:chatapp_logentry_changelist"),
        )


def find_altered_entry() -> int | None:
    """Verify the last entries of the log: what `manage.py log verify` does for all of it. Return
    the position of the last one that was changed or is missing."""
    # One statement sees the end and the entries before it as they were at the same moment.
    end = LogHead.objects.filter(pk=1)
    end_position, end_hash = Subquery(end.values("position")), Subquery(end.values("hash"))
    entries = LogEntry.objects.filter(position__lte=end_position).order_by("-position")
    known: Any = entries.annotate(end_position=end_position, end_hash=end_hash)
    rows = list(known[:LAST_ENTRIES])
    found = {entry.position: entry for entry in rows}
    head = Mark(position=rows[0].end_position, hash=rows[0].end_hash) if rows else read_end()
    expected = head.hash
    for position in range(head.position, max(head.position - LAST_ENTRIES, 0), -1):
        entry = found.get(position)
        if entry is None:
            return position
        if not link_hash(entry.previous, compute_digest(entry)) == entry.hash == expected:
            return position
        expected = entry.previous
    return None


@cache
def list_problems(language: str) -> tuple[Finding, ...]:
    """Return the checks of the settings and addresses that fail, in this language. They do not
    change while a server runs, and take long for a page."""
    findings = (*check_settings(), *check_addresses())
    return tuple(finding for finding in findings if finding.state != "good")


def _list_check_needs(attention: Attention) -> Iterator[Need]:
    """Yield the checks that fail and take little time: of the settings, of the files, as a disk
    fills while a server runs, and of the keys of model providers."""
    changing = [*check_files(), *(check_providers() if attention.providers else ())]
    failing = (finding for finding in changing if finding.state != "good")
    problems = [*failing, *list_problems(get_language() or "")]
    problems.sort(key=lambda finding: finding.state != "wrong")
    if problems:
        is_wrong = any(finding.state == "wrong" for finding in problems)
        yield Need(
            name="checks",
            rank=12 if is_wrong else 48,
            tone="high" if is_wrong else "medium",
            icon="system",
            title=ngettext(
                "%(count)s check fails",
                "%(count)s checks fail",
                len(problems),
            )
            % {"count": len(problems)},
            fact=" ".join(filter(None, [str(problems[0].message), str(problems[0].hint)])),
            action=_("View checks"),
            address=reverse("admin:checks"),
            # Messages have figures that change all the time.
            key=_join(f"{each.subject} {each.hint or each.message}" for each in problems),
        )


def _list_mail_needs(attention: Attention) -> Iterator[Need]:
    if count := attention.refused_addresses:
        yield Need(
            name="refused-addresses",
            rank=46,
            tone="medium",
            icon="alert",
            title=ngettext(
                "The mail server refuses %(count)s address",
                "The mail server refuses %(count)s addresses",
                count,
            )
            % {"count": intcomma(count)},
            fact=_("These members get no mail until the address is corrected."),
            action=_("View checks"),
            address=reverse("admin:checks"),
        )


def _list_run_needs() -> Iterator[Need]:
    """Yield what failed or stopped: backups that were recorded once, and anchors of the log."""
    runs = load_runs()
    anchors = [(name_anchor(place), get_anchor_overdue()) for place in settings.LOG_ANCHORS]
    for name, overdue in [(BACKUP, BACKUP_OVERDUE), *anchors]:
        run = runs.get(name)
        if run is None or not (run.problem or is_overdue(run, overdue)):
            continue
        what = _("The last backup") if name == BACKUP else _("The last anchor of the log")
        state = _("%(what)s failed") if run.problem else _("%(what)s is too old")
        last = date_format(timezone.localtime(run.succeeded_at or run.at), "DATETIME_FORMAT")
        success = _("Last success: %(last)s.") % {"last": last if run.succeeded_at else "–"}
        yield Need(
            name=f"run-{name.replace(' ', '-')}",
            rank=14,
            tone="high",
            icon="alert",
            title=state % {"what": what},
            fact=f"{run.problem} {success}".strip(),
            action=_("View system"),
            address=reverse("admin:system"),
            key=str(run.at) if run.problem else str(run.succeeded_at),
        )
