"""Who can use which tool: what the policy would decide about a first call of a tool, for people and
groups, and for all tools of one person. Nothing is called and nothing is stored."""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from django.contrib.auth.models import Group
from django.db.models import Count, QuerySet, Value
from django.utils.translation import gettext_lazy

from chatapp.models import Member
from chatapp.permissions import reasons
from chatapp.permissions.risk import Risk, ToolFacts, classify
from chatapp.permissions.rules import OWN_TOOLS, CallFacts, Decision, PersonFacts
from chatapp.policy.daily_limits import count_all_uses_today
from chatapp.policy.stored_policy import Policy, load_policies
from chatapp.tools.catalogue import assess_risk
from chatapp.tools.core import FIND_TOOLS, core_tools
from chatapp.tools.core_catalogue import FILE_TOOLS, MEMORY_TOOLS, assess_core_risk, may_use
from mcpconfig.models import Service, ToolDefinition, ToolSetting

from .manual_runs import build_first_facts, judge_without_arguments

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

    from chatapp.tools.blueprint import CoreTool

Outcome = Literal["runs", "asks", "two", "refused", "none"]
Kind = Literal["all", "changes", "deletes"]

# What a risk says of a tool that deletes.
_TEXTS = (reasons.NAME_SAYS, reasons.DESCRIPTION_SAYS, reasons.ACTIONS_SAY)
DELETES = frozenset(
    (
        *(texts["deletes"] for texts in _TEXTS),
        *(texts["removes"] for texts in _TEXTS),
        reasons.DESCRIPTION_SAYS_DELETED,
        reasons.ARGUMENT_DELETES,
        reasons.SERVICE_SAYS_DESTRUCTIVE,
    )
)
Uses = Counter[tuple[int, int | None, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A current tool with its risk, as an admin set it or as it was assessed."""

    service: Service
    definition: ToolDefinition
    setting: ToolSetting | None
    risk: Risk

    @property
    def name(self) -> str:
        return self.definition.name


OWN_TITLE = gettext_lazy("Built-in tools")
# When chats are offered tools that not all of them are.
OWN_PLACES = {
    FIND_TOOLS: gettext_lazy("Only in chats with more tools than fit into one request."),
    **dict.fromkeys(MEMORY_TOOLS, gettext_lazy("Not in temporary chats.")),
    **dict.fromkeys(FILE_TOOLS, gettext_lazy("Only in chats of a project with files.")),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnTool:
    """A built-in tool. No service offers it, and no admin sets its risk."""

    core: "CoreTool"
    risk: Risk

    @property
    def name(self) -> str:
        return self.core.name

    @property
    def service(self) -> "StrOrPromise":
        return OWN_TITLE

    @property
    def place(self) -> "StrOrPromise":
        """Which chats are offered it, if not all are."""
        return OWN_PLACES.get(self.core.name, "")


AnyTool = Tool | OwnTool


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """What would happen to a call. `may_change`: a rule depends on the arguments. `place` says
    which chats are offered the tool, if not all are."""

    outcome: Outcome
    decision: Decision | None = None
    may_change: bool = False
    place: "StrOrPromise" = ""


NO_ACCESS = Cell(outcome="none")


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessRow:
    """A person, or a group: somebody who is in this group only."""

    cells: tuple[Cell, ...]
    person: Member | None = None
    group: Group | None = None
    members: int = 0


def load_tools(service: Service) -> list[Tool]:
    """Load the current tools of a service, in two statements."""
    settings = {each.name: each for each in service.settings.all()}
    return [
        _build_tool(service, definition, settings.get(definition.name))
        for definition in service.definitions.filter(is_current=True).defer("output_schema")
    ]


def _build_tool(service: Service, definition: ToolDefinition, setting: ToolSetting | None) -> Tool:
    risk = assess_risk(service, definition, setting)
    return Tool(service=service, definition=definition, setting=setting, risk=risk)


def load_own_tools() -> list[OwnTool]:
    """Return all built-in tools."""
    return [OwnTool(core=core, risk=assess_core_risk(core)) for core in core_tools()]


def choose_tools(tools: Sequence[AnyTool], kind: Kind, name: str = "") -> list[AnyTool]:
    """Return the tool of this name, or all of a kind. An admin's level does not hide that a tool
    deletes."""
    if name:
        return [tool for tool in tools if tool.name == name]
    if kind == "changes":
        return [tool for tool in tools if tool.risk.level != "low" or _deletes(tool)]
    return [tool for tool in tools if kind == "all" or _deletes(tool)]


def _deletes(tool: AnyTool) -> bool:
    if isinstance(tool, OwnTool):
        core = tool.core
        facts = ToolFacts(
            name=core.name,
            description=core.description,
            input_schema=core.input_schema,
            annotations=None,
        )
        assessed = classify(facts)
    else:
        assessed = assess_risk(tool.service, tool.definition, None)
    return not DELETES.isdisjoint(assessed.reasons)


# --- people --------------------------------------------------------------------------------------
def judge_people(
    service: Service | None, tools: Sequence[AnyTool], people: Sequence[Member], mode: str = "act"
) -> list[AccessRow]:
    """Return a row for each person, for tools of this service, or for built-in ones. The number of
    statements does not depend on how many people there are."""
    if not people:
        return []
    policies = load_policies(people)
    users = find_users(service, people) if service is not None else set()
    uses = _count_uses(policies)
    return [
        AccessRow(
            person=person,
            cells=tuple(
                _judge(tool, policies[person.pk], uses, mode)
                if _has_access(tool, person, users)
                else NO_ACCESS
                for tool in tools
            ),
        )
        for person in people
    ]


def _has_access(tool: AnyTool, person: Member, users: Collection[int]) -> bool:
    """Whether this person may use the tool; `users` may use its service."""
    return may_use(person, tool.core) if isinstance(tool, OwnTool) else person.pk in users


def find_users(service: Service, people: Sequence[Member]) -> set[int]:
    """Return which of these people may use the service, in one statement."""
    asked = [
        Service.objects.for_member(person)
        .filter(pk=service.pk)
        .order_by()
        .annotate(person=Value(person.pk))
        .values_list("person", flat=True)
        for person in people
        if person.is_active
    ]
    if not asked:
        return set()
    return {int(found) for found in asked[0].union(*asked[1:], all=True)}


def _count_uses(policies: dict[int, Policy]) -> Uses:
    """Count the uses of today if a limit may count."""
    is_limited = any(policy.is_limited for policy in policies.values())
    return count_all_uses_today(policies) if is_limited else Counter()


def _judge(tool: AnyTool, policy: Policy, uses: Uses, mode: str) -> Cell:
    if isinstance(tool, OwnTool):
        facts = CallFacts(
            service=OWN_TOOLS,
            tool=tool.name,
            is_confirmed=True,
            identical_calls_before=0,
            arguments={},
            calls_today=uses[policy.person.id, None, tool.name],
        )
        return replace(_build_cell(policy, facts, tool.risk, mode), place=tool.place)
    today = uses[policy.person.id, tool.service.pk, tool.name]
    facts = build_first_facts(tool.service, tool.definition, tool.setting, calls_today=today)
    return _build_cell(policy, facts, tool.risk, mode)


def _build_cell(policy: Policy, facts: CallFacts, risk: Risk, mode: str) -> Cell:
    judged = judge_without_arguments(policy, facts, risk, mode)
    decision = judged.decision
    outcome: Outcome = "runs"
    if decision.effect == "deny":
        outcome = "refused"
    elif decision.effect == "ask":
        outcome = "two" if decision.demand is not None else "asks"
    return Cell(outcome=outcome, decision=decision, may_change=judged.may_change)


# --- groups --------------------------------------------------------------------------------------
def judge_groups(
    service: Service | None, tools: Sequence[AnyTool], groups: Sequence[Group], mode: str = "act"
) -> list[AccessRow]:
    """Return a row for each group, and at last one for people in no group. Tools of this service,
    or built-in ones, are judged for somebody who is no admin."""
    nobody = Member(pk=0)
    base = load_policies([nobody])[nobody.pk]
    opened = _find_opened_groups(service, groups) if service is not None else set()
    rows = []
    for group in [*groups, None]:
        policy = _join_group(base, group)
        # `nobody` stands for a member of the group.
        users = {nobody.pk} if (group.pk if group else None) in opened else set()
        cells = tuple(
            _judge(tool, policy, Counter(), mode) if _has_access(tool, nobody, users) else NO_ACCESS
            for tool in tools
        )
        rows.append(AccessRow(group=group, cells=cells, members=getattr(group, "members", 0)))
    return rows


def _find_opened_groups(service: Service, groups: Sequence[Group]) -> set[int | None]:
    """Return which of these groups may use the service, with None if people in no group may."""
    if not service.is_enabled:
        return set()
    match service.visibility:
        case Service.Visibility.EVERYONE:
            return {None, *(group.pk for group in groups)}
        case Service.Visibility.GROUPS:
            return set(service.groups.values_list("pk", flat=True))
    return set()


def judge_members(
    service: Service, tools: Sequence[Tool], groups: Sequence[Group]
) -> list[tuple[Group | None, list[Cell]]]:
    """Return what would happen to calls of these tools by somebody who may use the service, for
    each of these groups; without groups, for somebody in no group. Two statements."""
    nobody = Member(pk=0)
    base = load_policies([nobody])[nobody.pk]
    wanted: list[Group | None] = [*groups] or [None]
    return [
        (group, [_judge(tool, _join_group(base, group), Counter(), "act") for tool in tools])
        for group in wanted
    ]


def _join_group(base: Policy, group: Group | None) -> Policy:
    facts = PersonFacts(id=0, groups=frozenset({group.pk} if group else ()))
    return replace(base, person=facts)


def list_groups() -> QuerySet[Group]:
    return Group.objects.annotate(members=Count("user")).order_by("name")


# --- the catalogue of one person -----------------------------------------------------------------
def count_catalogue(person: Member) -> int:
    return _list_definitions(person).count()


def judge_catalogue(
    person: Member, first: int, last: int, mode: str = "act"
) -> Iterator[tuple[Tool, Cell]]:
    """Yield the tools of services that this person may use, from one place to another."""
    found = list(_list_definitions(person).select_related("service")[first:last])
    settings = _load_settings([definition.service_id for definition in found])
    policies = load_policies([person])
    uses = _count_uses(policies)
    for definition in found:
        setting = settings.get((definition.service_id, definition.name))
        tool = _build_tool(definition.service, definition, setting)
        yield tool, _judge(tool, policies[person.pk], uses, mode)


def judge_own_catalogue(person: Member, mode: str = "act") -> list[tuple[OwnTool, Cell]]:
    """Return all built-in tools with what would happen to a call by this person."""
    tools = load_own_tools()
    [row] = judge_people(None, tools, [person], mode)
    return list(zip(tools, row.cells, strict=True))


def _list_definitions(person: Member) -> QuerySet[ToolDefinition]:
    usable = Service.objects.for_member(person).values("pk")
    current = ToolDefinition.objects.filter(is_current=True, service__in=usable)
    return current.order_by("service__name", "name", "pk")


def _load_settings(services: Collection[int]) -> dict[tuple[int, str], ToolSetting]:
    rows = ToolSetting.objects.filter(service__in=set(services))
    return {(row.service_id, row.name): row for row in rows}
