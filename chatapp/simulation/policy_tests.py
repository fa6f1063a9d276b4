"""Policy tests: calls that must be decided as an admin wrote down, tried on any policy, stored or
drafted. Nothing is called and nothing is stored."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from chatapp.models import Member, PolicyTest
from chatapp.permissions.decide import decide
from chatapp.permissions.risk import Risk
from chatapp.permissions.rules import OWN_TOOLS, CallFacts, Decision, Mode, PersonFacts
from chatapp.tools.catalogue import risk_of
from chatapp.tools.core import core_tool
from chatapp.tools.core_catalogue import may_use, risk_of_core
from mcpconfig.ledger import tool_state
from mcpconfig.models import Service, ToolDefinition, ToolSetting
from mcpconfig.sharing import refusal_of

from .admins_word import AdminsWord
from .policy import facts_of

Expected = PolicyTest.Expected
WORDS: dict[str, Any] = dict(Expected.choices)
DECIDED = {"allow": "it runs", "ask": "it asks", "deny": "it is refused"}
UNKNOWN = Risk(level="high", reasons=("The tool is not known, so it counts as high.",))


@dataclass(frozen=True, slots=True, kw_only=True)
class Failing:
    """A test whose call is decided otherwise than it must be. `is_cut_off`: whatever policy says,
    for its person or its tool is out of use."""

    test_id: int
    name: str
    expected: str
    decision: Decision
    is_cut_off: bool = False

    @property
    def found(self) -> str:
        """What comes of it instead, as what a test expects is stored; more than one way to ask is
        joined, as in `type+two`."""
        if self.decision.effect != "ask":
            return self.decision.effect
        wanted = {Expected.TYPE: self.decision.wants_typing, Expected.TWO: self.decision.demand}
        return "+".join(way.value for way, is_wanted in wanted.items() if is_wanted) or "ask"

    @property
    def decided(self) -> str:
        """The same in words."""
        if self.decision.effect != "ask":
            return DECIDED[self.decision.effect]
        whom = typed = ""
        if self.decision.demand is not None:
            whom = " two people"
        elif self.expected == Expected.TWO:
            whom = " one person"
        if self.decision.wants_typing:
            typed = " and has the tool’s name typed"
        elif self.expected == Expected.TYPE:
            typed = " and wants no name typed"
        return f"it asks{whom}{typed}"

    @property
    def sentence(self) -> str:
        must = WORDS[self.expected]
        return f"“{self.name}” must {must}, but {self.decided}. {self.decision.reason}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A test with what is known now of its person and its tool."""

    row: PolicyTest
    person: PersonFacts
    facts: CallFacts
    risk: Risk
    refusal: str
    is_cut_off: bool

    def decision_under(self, word: AdminsWord) -> Decision:
        """Consents do not count: a test is about what admins say, not about what people allowed."""
        if self.refusal:
            return Decision(effect="deny", reason=self.refusal)
        mode: Mode = "act" if self.row.mode == PolicyTest.Mode.ACT else "plan"
        return decide(self.facts, self.risk, word.rules, self.person, mode, word.house)


def cases(rows: Sequence[PolicyTest] | None = None) -> list[Case]:
    """All stored tests, or these rows, which need not be stored."""
    if rows is None:
        rows = list(PolicyTest.objects.select_related("person", "service"))
    return [_case(row) for row in rows]


def failing(word: AdminsWord, tried: Sequence[Case]) -> list[Failing]:
    """Those that fail under this policy, in their order."""
    decided = [(case, case.decision_under(word)) for case in tried]
    return [
        Failing(
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
    """To ask is to ask in whatever way."""
    if expected == Expected.TYPE:
        return decision.effect == "ask" and decision.wants_typing
    if expected == Expected.TWO:
        return decision.effect == "ask" and decision.demand is not None
    return decision.effect == expected


def newly_failing(now: AdminsWord, draft: AdminsWord) -> list[Failing]:
    """Those that the draft would make fail. What fails anyway, for a tool has changed or a person
    has left a group, must not keep an admin from mending something else."""
    tried = cases()
    before = {failure.test_id for failure in failing(now, tried)}
    return [failure for failure in failing(draft, tried) if failure.test_id not in before]


def _case(row: PolicyTest) -> Case:
    person = Member.objects.get(pk=row.person_id)
    about = _about_ours(row, person) if row.service is None else _about(row, row.service, person)
    facts, risk, refusal = about
    if not person.is_active:
        refusal = "Refused because this person is not active."
    # Our own tools are refused only to those who are no admins any more.
    is_cut_off = not person.is_active or bool(facts.obstacle or (refusal and not row.service))
    return Case(
        row=row,
        person=facts_of(person),
        facts=facts,
        risk=risk,
        refusal=refusal,
        is_cut_off=is_cut_off,
    )


# What is known of the call, the risk of its tool, and why the person is not offered it, or nothing.
About = tuple[CallFacts, Risk, str]


def _about(row: PolicyTest, service: Service, person: Member) -> About:
    definition = service.definitions.filter(is_current=True, name=row.tool).first()
    setting = service.settings.filter(name=row.tool).first()
    risk = risk_of(service, definition, setting) if definition else UNKNOWN
    return _facts(row, service, definition, setting), risk, refusal_of(service, person)


def _about_ours(row: PolicyTest, person: Member) -> About:
    tool = core_tool(row.tool)
    facts = CallFacts(
        service=OWN_TOOLS,
        tool=row.tool,
        is_confirmed=tool is not None,
        identical_calls_before=0,
        obstacle=None if tool else "unknown",
        arguments=row.arguments,
    )
    if tool is None:
        return facts, UNKNOWN, ""
    refusal = "" if may_use(person, tool) else "Refused because only admins are offered this tool."
    return facts, risk_of_core(tool), refusal


def _facts(
    row: PolicyTest,
    service: Service,
    definition: ToolDefinition | None,
    setting: ToolSetting | None,
) -> CallFacts:
    state = tool_state(definition, setting) if definition else "unknown"
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
    )
