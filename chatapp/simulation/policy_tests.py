"""Policy tests: calls with an expected decision, checked against a stored or drafted policy.
Nothing is called and nothing is stored."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import Value
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from chatapp.models import Member, PolicyTest
from chatapp.permissions import reasons
from chatapp.permissions.decide import decide
from chatapp.permissions.destinations import Destination, list_destinations
from chatapp.permissions.risk import Risk
from chatapp.permissions.rules import OWN_TOOLS, CallFacts, Decision, Mode, PersonFacts
from chatapp.policy.policy_set import PolicySet
from chatapp.tools.catalogue import assess_risk, describe_definition
from chatapp.tools.core import core_tool
from chatapp.tools.core_catalogue import assess_core_risk, may_use
from mcpconfig.models import Service, ToolDefinition, ToolSetting
from mcpconfig.services.sharing import describe_refusal
from mcpconfig.services.tool_definitions import describe_tool_state

Expected = PolicyTest.Expected
WORDS: dict[str, Any] = dict(Expected.choices)
DECIDED = {
    "allow": gettext_lazy("runs without asking"),
    "ask": gettext_lazy("needs approval"),
    "deny": gettext_lazy("is refused"),
}
# How a call asks, by the number of approvals (0: it does not matter) and by whether the tool's name
# is typed (None: it does not matter).
ASKS = {
    (0, None): gettext_lazy("needs approval"),
    (0, True): gettext_lazy("needs approval with typed confirmation"),
    (0, False): gettext_lazy("needs approval without typed confirmation"),
    (1, None): gettext_lazy("needs one approval"),
    (1, True): gettext_lazy("needs one approval with typed confirmation"),
    (2, None): gettext_lazy("needs a second approval"),
    (2, True): gettext_lazy("needs a second approval with typed confirmation"),
    (2, False): gettext_lazy("needs a second approval without typed confirmation"),
}
# The source of the untrusted content of a test that says so.
STRANGERS = "a service open to strangers"
MOST_NAMED = 10
# A compound statement of SQLite has at most 500 parts.
PAIRS_AT_ONCE = 200
UNKNOWN_RISK = Risk(level="high", reasons=(reasons.UNKNOWN_TOOL_IS_HIGH,))


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedTest:
    """A test whose call is decided otherwise than expected. `is_cut_off`: the policy does not
    matter, because the person or the tool is out of use."""

    test_id: int
    name: str
    expected: str
    decision: Decision
    is_cut_off: bool = False

    @property
    def found(self) -> str:
        """The actual decision in the stored form of an expectation. Several ways to ask are
        joined, as in `type+two`."""
        if self.decision.effect != "ask":
            return self.decision.effect
        wanted = {Expected.TYPE: self.decision.wants_typing, Expected.TWO: self.decision.demand}
        return "+".join(way.value for way, is_wanted in wanted.items() if is_wanted) or "ask"

    @property
    def decided(self) -> str:
        """The actual decision as text."""
        if self.decision.effect != "ask":
            return str(DECIDED[self.decision.effect])
        approvals = 2 if self.decision.demand is not None else int(self.expected == Expected.TWO)
        is_typed = self.decision.wants_typing or (False if self.expected == Expected.TYPE else None)
        return str(ASKS[approvals, is_typed])

    @property
    def sentence(self) -> str:
        sentence = _("“%(name)s”. Expected: %(expected)s. Actual: %(decided)s. %(reason)s")
        return sentence % {
            "name": self.name,
            "expected": WORDS[self.expected],
            "decided": self.decided,
            "reason": reasons.translate_reason(self.decision.reason),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A test with the current facts of its person and its tool."""

    row: PolicyTest
    person: PersonFacts
    facts: CallFacts
    risk: Risk
    refusal: str
    is_cut_off: bool

    def decide_under(self, word: PolicySet) -> Decision:
        """Decide under this policy, without consents: a test is about the admins' policy."""
        if self.refusal:
            return Decision(effect="deny", reason=self.refusal)
        mode: Mode = "act" if self.row.mode == PolicyTest.Mode.ACT else "plan"
        return decide(self.facts, self.risk, word.rules, self.person, mode, word.house)


def load_cases(rows: Sequence[PolicyTest] | None = None) -> list[Case]:
    """Return all stored tests, or these rows, which need not be stored."""
    if rows is None:
        rows = list(PolicyTest.objects.select_related("person", "service__owner"))
    known = _load_known(rows)
    return [_build_case(row, known) for row in rows]


def list_failing(word: PolicySet, tried: Sequence[Case]) -> list[FailedTest]:
    """Return the tests that fail under this policy, in their order."""
    decided = [(case, case.decide_under(word)) for case in tried]
    return [
        FailedTest(
            test_id=case.row.pk,
            name=case.row.name,
            expected=case.row.expected,
            decision=decision,
            is_cut_off=case.is_cut_off,
        )
        for case, decision in decided
        if not _is_as_expected(decision, case.row.expected)
    ]


def _is_as_expected(decision: Decision, expected: str) -> bool:
    """Return whether the decision fits. "ask" fits every way to ask."""
    if expected == Expected.TYPE:
        return decision.effect == "ask" and decision.wants_typing
    if expected == Expected.TWO:
        return decision.effect == "ask" and decision.demand is not None
    return decision.effect == expected


def list_newly_failing(now: PolicySet, draft: PolicySet) -> list[FailedTest]:
    """Return the tests that only the draft makes fail. A test that already fails, because a tool
    changed or a person left a group, must not block an unrelated change."""
    tried = load_cases()
    before = {failure.test_id for failure in list_failing(now, tried)}
    return [failure for failure in list_failing(draft, tried) if failure.test_id not in before]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Known:
    """What the tests are about, read in a few statements for all of them: people and their groups
    by id, definitions and settings by service and tool, and who may use which service."""

    people: dict[int, Member]
    groups: dict[int, frozenset[int]]
    definitions: dict[tuple[int, str], ToolDefinition]
    settings: dict[tuple[int, str], ToolSetting]
    users: frozenset[tuple[int, int]]


def _load_known(rows: Sequence[PolicyTest]) -> _Known:
    people = Member.objects.in_bulk({row.person_id for row in rows})
    groups: defaultdict[int, set[int]] = defaultdict(set)
    of_people = Member.groups.through.objects.filter(member__in=people)
    for person, group in of_people.values_list("member", "group"):
        groups[person].add(group)
    about = {"service__in": {row.service_id for row in rows}, "name__in": {r.tool for r in rows}}
    definitions = ToolDefinition.objects.filter(is_current=True, **about)
    settings = ToolSetting.objects.filter(**about)
    pairs = sorted({(row.person_id, row.service_id) for row in rows if row.service_id})
    return _Known(
        people=people,
        groups={person: frozenset(found) for person, found in groups.items()},
        definitions={(each.service_id, each.name): each for each in definitions},
        settings={(each.service_id, each.name): each for each in settings},
        users=frozenset(_find_users(people, pairs)),
    )


def _find_users(
    people: dict[int, Member], pairs: Sequence[tuple[int, int]]
) -> Iterator[tuple[int, int]]:
    """Yield which of these people may use which of these services."""
    for first in range(0, len(pairs), PAIRS_AT_ONCE):
        asked = [
            Service.objects.for_member(people[person])
            .filter(pk=service)
            .order_by()
            .annotate(person=Value(person))
            .values_list("person", "pk")
            for person, service in pairs[first : first + PAIRS_AT_ONCE]
        ]
        yield from asked[0].union(*asked[1:], all=True)


def name_failing(failing: Sequence[FailedTest]) -> list[str]:
    """Return a sentence about each of these tests, and about how many more there are."""
    sentences = [failure.sentence for failure in failing[:MOST_NAMED]]
    more = len(failing) - MOST_NAMED
    if more > 0:
        text = ngettext(
            "%(number)s more test would fail.", "%(number)s more tests would fail.", more
        )
        sentences.append(text % {"number": more})
    return sentences


def _build_case(row: PolicyTest, known: _Known) -> Case:
    person = known.people[row.person_id]
    about = (
        _load_core_tool(row, person)
        if row.service is None
        else _find_service_tool(row, row.service, known)
    )
    facts, risk, refusal = about
    if not person.is_active:
        refusal = reasons.PERSON_INACTIVE
    # Core tools are refused only to people who are no longer admins.
    is_cut_off = not person.is_active or bool(facts.obstacle or (refusal and not row.service))
    return Case(
        row=row,
        person=PersonFacts(id=person.pk, groups=known.groups.get(person.pk, frozenset())),
        facts=facts,
        risk=risk,
        refusal=refusal,
        is_cut_off=is_cut_off,
    )


# The facts of the call, the risk of its tool, and why the person is not offered it, or an empty
# string.
CallKnowledge = tuple[CallFacts, Risk, str]


def _find_service_tool(row: PolicyTest, service: Service, known: _Known) -> CallKnowledge:
    definition = known.definitions.get((service.pk, row.tool))
    setting = known.settings.get((service.pk, row.tool))
    risk = assess_risk(service, definition, setting) if definition else UNKNOWN_RISK
    may_use_it = (row.person_id, service.pk) in known.users
    refusal = "" if may_use_it else describe_refusal(service)
    return _build_facts(row, service, definition, setting), risk, refusal


def _load_core_tool(row: PolicyTest, person: Member) -> CallKnowledge:
    tool = core_tool(row.tool)
    facts = CallFacts(
        tainted_by=STRANGERS if row.is_tainted else "",
        service=OWN_TOOLS,
        tool=row.tool,
        is_confirmed=tool is not None,
        identical_calls_before=0,
        obstacle=None if tool else "unknown",
        arguments=row.arguments,
    )
    if tool is None:
        return facts, UNKNOWN_RISK, ""
    refusal = "" if may_use(person, tool) else reasons.ONLY_FOR_ADMINS
    return facts, assess_core_risk(tool), refusal


def _build_facts(
    row: PolicyTest,
    service: Service,
    definition: ToolDefinition | None,
    setting: ToolSetting | None,
) -> CallFacts:
    state = describe_tool_state(definition, setting) if definition else "unknown"
    sends_to: tuple[Destination, ...] = ()
    if definition and row.is_tainted:
        sends_to = list_destinations(describe_definition(service, definition), row.arguments)
    is_off = state == "disabled" or not service.is_enabled
    return CallFacts(
        service=service.name,
        tool=row.tool,
        is_confirmed=state == "confirmed",
        identical_calls_before=0,
        endpoint=service.endpoint,
        definition_hash=definition.hash if definition else "",
        obstacle="disabled" if is_off else "unknown" if definition is None else None,
        arguments=row.arguments,
        tainted_by=STRANGERS if row.is_tainted else "",
        destinations=sends_to,
    )
