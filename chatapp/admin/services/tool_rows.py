"""The rows of the table of a service's tools: state, risk, policy, use, and providers."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from django.contrib.auth.models import Group
from django.db.models import Count, F, Max, OuterRef, Q, Subquery
from django.utils import timezone
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as _lazy

from chatapp.admin.badges import render_badge
from chatapp.admin.policy.who_can import Outcome, Reason, draw_outcome, explain_cell, load_rules
from chatapp.models import ToolCall
from chatapp.permissions.reasons import is_opinion, translate_reason
from chatapp.providers.registry import DIALECTS
from chatapp.providers.request import ToolSpec
from chatapp.providers.tools.toolbox import preflight
from chatapp.rendering.hidden_characters import draw_hidden
from chatapp.simulation import access
from chatapp.simulation.access import Cell, Tool
from chatapp.tool_menu.use_counts import DAYS
from chatapp.tools.catalogue import strip_hidden, strip_hidden_in_schema
from chatapp.tools.tool_id import tool_id
from mcpconfig.admin.big_lists import list_up_to
from mcpconfig.models import Service, ToolDefinition
from mcpconfig.services.tool_definitions import TOOL_STATES, describe_tool_state
from mcpconfig.values.numbers import read_number
from mcpconfig.values.tool_tokens import estimate_tool_tokens

from .opinions import ToolOpinion

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

# The newest calls of each tool from which its p95 is computed.
MAX_TIMED_CALLS = 100
MAX_DESCRIPTION = 120
MAX_GROUPS = 20
STATE_ORDER = ("changed", "new", "confirmed", "disabled")
STATE_TONES = {"confirmed": "good", "disabled": "quiet"}
LEVEL_ORDER = ("high", "medium", "low")
SORTS: "dict[str, StrOrPromise]" = {
    "attention": _lazy("Needs attention first"),
    "name": _lazy("Name"),
    "risk": _lazy("Highest risk first"),
    "tokens": _lazy("Most tokens first"),
    "used": _lazy("Last used first"),
    "errors": _lazy("Most errors first"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """The calls of one tool in the last days. The last use may be older."""

    calls: int = 0
    failures: int = 0
    last_used: datetime | None = None

    @property
    def error_rate(self) -> float:
        return self.failures / self.calls if self.calls else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolEntry:
    """One tool, as far as the table is filtered and sorted by it."""

    tool: Tool
    state: str
    tokens: int
    use: Use = field(default_factory=Use)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What happens to a call, with the groups for which it does; none if it does for all."""

    outcome: Outcome
    reasons: list[Reason]
    groups: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolRow:
    name: str
    drawn_name: SafeString
    description: SafeString
    hash: str
    state: str
    state_badge: SafeString | str
    risk_badge: SafeString | str
    is_level_set: bool
    reasons: list[str]
    verdicts: list[Verdict]
    tokens: int
    use: Use
    error_percent: str
    slow_seconds: float | None
    refused_by: list[str]
    opinion: ToolOpinion | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """What the admin asked for. Unknown values count as not given."""

    query: str = ""
    state: str = ""
    level: str = ""
    sort: str = "attention"

    @classmethod
    def read(cls, values: Mapping[str, str]) -> "Filters":
        state, level, sort = (values.get(name, "") for name in ("state", "level", "sort"))
        return cls(
            query=values.get("q", "").replace("\0", "").strip()[:200],
            state=state if state in TOOL_STATES else "",
            level=level if level in LEVEL_ORDER else "",
            sort=sort if sort in SORTS else "attention",
        )


def load_entries(service: Service) -> list[ToolEntry]:
    """Load all current tools of the service with their use, in four statements."""
    uses = _count_uses(service)
    return [
        ToolEntry(
            tool=tool,
            state=describe_tool_state(tool.definition, tool.setting),
            tokens=estimate_tool_tokens([tool.definition]),
            use=uses.get(tool.name, Use()),
        )
        for tool in access.load_tools(service)
    ]


def _count_uses(service: Service) -> dict[str, Use]:
    """Return the use of each tool. The last use of all is in the index of the calls, without their
    rows; only those of the last days are counted."""
    since = timezone.now() - timedelta(days=DAYS)
    calls = ToolCall.objects.filter(service=service).order_by().values_list("tool_name")
    last = dict(calls.filter(sent_at__isnull=False).annotate(last=Max("sent_at")))
    failed = Q(state=ToolCall.State.FAILED)
    recent = calls.filter(sent_at__gte=since)
    counted = recent.annotate(calls=Count("pk"), failures=Count("pk", filter=failed))
    counts = {name: (number, failures) for name, number, failures in counted}
    uses = {}
    for name, at in last.items():
        number, failures = counts.get(name, (0, 0))
        uses[name] = Use(calls=number, failures=failures, last_used=at)
    return uses


def choose_entries(entries: Iterable[ToolEntry], filters: Filters) -> list[ToolEntry]:
    """Return the entries that match, in the chosen order."""
    words = filters.query.lower().split()
    chosen = [
        entry
        for entry in entries
        if (not filters.state or entry.state == filters.state)
        and (not filters.level or entry.tool.risk.level == filters.level)
        and all(word in _get_searched(entry) for word in words)
    ]
    chosen.sort(key=lambda entry: entry.tool.name)
    match filters.sort:
        case "risk":
            chosen.sort(key=lambda entry: LEVEL_ORDER.index(entry.tool.risk.level))
        case "tokens":
            chosen.sort(key=lambda entry: -entry.tokens)
        case "used":
            chosen.sort(key=lambda entry: _get_age(entry.use))
        case "errors":
            chosen.sort(key=lambda entry: -entry.use.error_rate)
        case "attention":
            chosen.sort(key=lambda entry: STATE_ORDER.index(entry.state))
    return chosen


def _get_searched(entry: ToolEntry) -> str:
    definition = entry.tool.definition
    return f"{definition.name} {definition.title} {definition.description}".lower()


def _get_age(use: Use) -> float:
    return -use.last_used.timestamp() if use.last_used else 0.0


def build_rows(
    service: Service,
    entries: Sequence[ToolEntry],
    groups: Sequence[Group],
    opinions: Mapping[int, ToolOpinion],
) -> list[ToolRow]:
    """Build the rows of one page, with the same number of statements for any number of rows."""
    tools = [entry.tool for entry in entries]
    judged = access.judge_members(service, tools, groups) if tools else []
    rules = load_rules(cell for _group, cells in judged for cell in cells)
    slow = _time_calls(service, [tool.definition for tool in tools])
    return [
        _build_row(
            service,
            entry,
            [(group, cells[number]) for group, cells in judged],
            rules,
            slow.get(entry.tool.name),
            opinions.get(entry.tool.definition.pk),
        )
        for number, entry in enumerate(entries)
    ]


def list_groups_of(service: Service, wanted: str) -> tuple[list[Group], int]:
    """Return the group that the admin chose, or the first of those that may use the service, and
    how many more of them there are."""
    if (group := read_number(wanted)) is not None:
        return list(Group.objects.filter(pk=group)), 0
    if service.visibility != Service.Visibility.GROUPS:
        return [], 0
    return list_up_to(MAX_GROUPS, service.groups.order_by("name"))


def _time_calls(service: Service, definitions: Collection[ToolDefinition]) -> dict[str, float]:
    """Return the seconds within which 95 of 100 of its newest calls ended, by tool.

    The first statement finds by the index where the newest calls of each tool begin, so that the
    second one does not read the others.
    """
    if not definitions:
        return {}
    since = timezone.now() - timedelta(days=DAYS)
    ended = ToolCall.objects.filter(finished_at__isnull=False).order_by()
    recent = ended.filter(service=service, tool_name=OuterRef("name"), sent_at__gte=since)
    newest = recent.order_by("-sent_at").values("sent_at")
    oldest = Subquery(newest[MAX_TIMED_CALLS - 1 : MAX_TIMED_CALLS])
    tools = ToolDefinition.objects.filter(pk__in=[each.pk for each in definitions]).order_by()
    timed = Q()
    for name, start in tools.annotate(oldest=oldest).values_list("name", "oldest"):
        # SQLite uses the index for each tool only with the service inside the OR.
        timed |= Q(service=service, tool_name=name, sent_at__gte=start or since)
    found: defaultdict[str, list[float]] = defaultdict(list)
    times = ended.filter(timed).annotate(taken=F("finished_at") - F("sent_at"))
    for name, taken in times.values_list("tool_name", "taken"):
        found[name].append(taken.total_seconds())
    return {name: compute_p95(seconds) for name, seconds in found.items()}


def compute_p95(seconds: Collection[float]) -> float:
    """Return the nearest-rank 95th percentile."""
    ordered = sorted(seconds)
    return ordered[max(0, -(-95 * len(ordered) // 100) - 1)]


def _build_row(
    service: Service,
    entry: ToolEntry,
    cells: Sequence[tuple[Group | None, Cell]],
    rules: dict[int, str],
    slow: float | None,
    opinion: ToolOpinion | None,
) -> ToolRow:
    tool, definition = entry.tool, entry.tool.definition
    description = " ".join((definition.description or definition.title).split())
    short = description[: MAX_DESCRIPTION - 1] + "…"
    return ToolRow(
        name=definition.name,
        drawn_name=draw_hidden(definition.name),
        description=draw_hidden(short if len(description) > MAX_DESCRIPTION else description),
        hash=definition.hash,
        state=entry.state,
        state_badge=render_badge(
            STATE_TONES.get(entry.state, "medium"), str(TOOL_STATES[entry.state])
        ),
        risk_badge=render_badge(tool.risk.level),
        is_level_set=bool(tool.setting and tool.setting.level),
        reasons=[translate_reason(each) for each in tool.risk.reasons if not is_opinion(each)],
        verdicts=_list_verdicts(cells, rules),
        tokens=entry.tokens,
        use=entry.use,
        error_percent=f"{100 * entry.use.error_rate:.1f}" if entry.use.calls else "",
        slow_seconds=slow,
        refused_by=_list_refusals(service, tool),
        opinion=opinion,
    )


def _list_verdicts(
    cells: Sequence[tuple[Group | None, Cell]], rules: dict[int, str]
) -> list[Verdict]:
    """Return each outcome once, with its groups if there are several outcomes."""
    by_outcome: dict[tuple[str, bool], list[tuple[Group | None, Cell]]] = {}
    for group, cell in cells:
        by_outcome.setdefault((cell.outcome, cell.may_change), []).append((group, cell))
    return [
        Verdict(
            outcome=draw_outcome(found[0][1]),
            reasons=explain_cell(found[0][1], None, rules),
            groups=", ".join(group.name for group, _cell in found if group)
            if len(by_outcome) > 1
            else "",
        )
        for found in by_outcome.values()
    ]


def _list_refusals(service: Service, tool: Tool) -> list[str]:
    """Return which providers leave this tool out, with the reason."""
    definition = tool.definition
    schema = definition.input_schema
    spec = ToolSpec(
        name=tool_id(service.name, definition.name),
        description=strip_hidden(definition.description),
        input_schema=strip_hidden_in_schema(schema) if isinstance(schema, dict) else {},
    )
    dialects = {dialect.label: dialect for dialect in DIALECTS.values()}
    refused = ((label, preflight(dialect, spec)[0]) for label, dialect in dialects.items())
    return [
        _("Not for %(provider)s: %(reason)s") % {"provider": label, "reason": reason}
        for label, reason in refused
        if reason
    ]
