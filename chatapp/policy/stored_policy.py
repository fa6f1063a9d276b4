"""What was said in advance about one call, read from the rows for the pure decision."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, cast

from django.contrib.auth.models import Group
from django.db.models import Q, QuerySet
from django.db.models.functions import Coalesce
from django.utils import timezone

from chatapp.models import (
    Attachment,
    Consent,
    Conversation,
    HousePolicy,
    Member,
    PolicyRule,
    SecondSignature,
    ToolCall,
    ToolLimit,
    Turn,
)
from chatapp.permissions import rules
from chatapp.permissions.decide import decide, raised
from chatapp.permissions.findings import Level
from chatapp.permissions.risk import Risk
from chatapp.permissions.rules import (
    OWN_TOOLS,
    AdminRule,
    CallFacts,
    DailyLimit,
    Decision,
    Demand,
    Effect,
    House,
    Mode,
    PersonFacts,
    Rule,
)
from chatapp.tools.catalogue import risk_of
from chatapp.tools.taint import taint_of
from mcpconfig.models import ToolSetting

from .daily_uses import uses_today


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """All that may count for the calls of one person."""

    person: PersonFacts
    house: House
    rules: tuple[Rule, ...]

    @property
    def is_limited(self) -> bool:
        return any(isinstance(rule, DailyLimit) for rule in self.rules)

    def decide(self, call: CallFacts, risk: Risk, mode: str) -> Decision:
        """A mode that nobody knows only plans."""
        known: Mode = "act" if mode == Conversation.Mode.ACT else "plan"
        return decide(call, risk, self.rules, self.person, known, self.house)


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A tool of a service as it is now."""

    service_id: int
    service: str
    tool: str
    endpoint: str
    definition_hash: str
    is_confirmed: bool
    is_disabled: bool = False


def policy_for(person: Member, conversation: Conversation | None) -> Policy:
    """Every rule, limit and consent that may count for this person now. Four queries."""
    house = HousePolicy.current()
    consents = _consents(person, conversation, house)
    return Policy(
        person=facts_of(person),
        house=house_of(house),
        rules=(*admin_rules(), *daily_limits(), *consents),
    )


def facts_of(person: Member) -> PersonFacts:
    groups = person.groups.values_list("pk", flat=True)
    return PersonFacts(id=person.pk, groups=frozenset(groups))


def house_of(row: HousePolicy) -> House:
    needed: list[tuple[Level, SecondSignature | None]] = [
        ("medium", row.medium_needs),
        ("high", row.high_needs),
    ]
    return House(
        asks_everything=row.asks_everything,
        runs_up_to=cast(Level, row.runs_up_to) if row.runs_up_to else None,
        types_high=row.types_high,
        consent_scopes=frozenset(row.lasting_scopes()),
        consents_to_high=row.consents_to_high,
        demands=tuple((level, demand_of(second)) for level, second in needed if second),
    )


def demand_of(row: SecondSignature) -> Demand:
    return Demand(
        id=row.pk,
        deadline_hours=row.deadline_hours,
        escalates_after_hours=row.escalates_after_hours,
    )


def admin_rules(among: QuerySet[PolicyRule] | None = None) -> list[AdminRule]:
    """Those that are in force, all or `among` these."""
    wanted = PolicyRule.objects.all() if among is None else among
    rows = wanted.filter(is_enabled=True).select_related("service", "second")
    return [rule_of(row, row.groups.all()) for row in rows.prefetch_related("groups")]


def rule_of(row: PolicyRule, groups: Iterable[Group]) -> AdminRule:
    return AdminRule(
        effect=cast(Effect, row.effect),
        service=_whose(row),
        tool=row.tool or None,
        groups=frozenset(group.pk for group in groups),
        levels=frozenset(cast(list[Level], row.levels)),
        condition=row.condition,
        note=row.note,
        wants_typing=row.wants_typing,
        demand=demand_of(row.second) if row.second else None,
        id=row.pk,
    )


def daily_limits() -> list[DailyLimit]:
    return [limit_of(row) for row in ToolLimit.objects.select_related("service")]


def limit_of(row: ToolLimit) -> DailyLimit:
    return DailyLimit(
        calls=row.calls,
        service=_whose(row),
        tool=row.tool or None,
        groups=frozenset({row.group_id} if row.group_id else ()),
    )


def _whose(row: PolicyRule | ToolLimit) -> str | None:
    """The service of the tools that it is about; None: all there are."""
    if row.is_core:
        return OWN_TOOLS
    return row.service.name if row.service else None


def _consents(
    person: Member, conversation: Conversation | None, house: HousePolicy
) -> list[rules.Consent]:
    rows = live_consents(person, house).select_related("service")
    here = Q(conversation=None) | Q(conversation=conversation)
    return [consent_of(row) for row in rows.filter(here)]


def consent_of(row: Consent) -> rules.Consent:
    return rules.Consent(
        person_id=row.person_id,
        service=row.service.name,
        endpoint=row.endpoint,
        definition_hashes=frozenset(cast(Mapping[str, str], row.definitions).values()),
        conversation_id=str(row.conversation_id) if row.conversation_id else None,
        scope=row.scope,
        id=row.pk,
    )


def live_consents(person: Member, house: HousePolicy) -> Any:
    """Those that are neither revoked nor lapsed for want of use."""
    since = timezone.now() - timedelta(days=house.consent_days)
    used = Coalesce("last_used_at", "created_at")
    mine = Consent.objects.filter(person=person, revoked_at=None)
    return mine.annotate(last_seen=used).filter(last_seen__gte=since)


def facts_about(
    turn: Turn, call: ToolCall, person: Member, seen: Seen, policy: Policy
) -> CallFacts:
    """What is true of one call of a turn."""
    today = uses_today(person, seen.service_id, seen.tool, besides=call) if policy.is_limited else 0
    return CallFacts(
        service=seen.service,
        tool=seen.tool,
        is_confirmed=seen.is_confirmed,
        identical_calls_before=earlier_calls(turn, call),
        endpoint=seen.endpoint,
        definition_hash=seen.definition_hash,
        conversation_id=str(turn.conversation_id),
        obstacle="disabled" if seen.is_disabled else None,
        arguments=json.loads(call.arguments),
        calls_today=today,
        tainted_by=tainted_by(turn, call),
    )


def decision_now(turn: Turn, call: ToolCall, person: Member) -> tuple[Decision, Risk]:
    """What policy says now about a call of a service that was decided before, perhaps with other
    values, and its risk as it stands in this turn. The call has its service and definition."""
    assert call.service is not None and call.definition is not None  # noqa: S101  said above
    setting = ToolSetting.objects.filter(service=call.service, name=call.tool_name).first()
    seen = Seen(
        service_id=call.service.pk,
        service=call.service.name,
        tool=call.tool_name,
        endpoint=call.service.endpoint,
        definition_hash=call.definition.hash,
        is_confirmed=setting is not None and setting.confirmed_hash == call.definition.hash,
    )
    policy = policy_for(person, turn.conversation)
    facts = facts_about(turn, call, person, seen, policy)
    risk = risk_of(call.service, call.definition, setting)
    return policy.decide(facts, risk, turn.conversation.mode), raised(risk, facts)


def earlier_calls(turn: Turn, call: ToolCall) -> int:
    """How often this turn asked for the same before."""
    before = Q(step__lt=call.step) | Q(step=call.step, position__lt=call.position)
    alike = ToolCall.objects.filter(turn=turn, tool_id=call.tool_id, arguments=call.arguments)
    return alike.filter(before).count()


def tainted_by(turn: Turn, call: ToolCall, *, in_whole_chat: bool = False) -> str:
    """The service whose words, perhaps of strangers, the model had read in this turn, or in its
    whole chat, when it asked for this call; or nothing."""
    before, attached = Q(turn=turn, step__lt=call.step), Q(part__message=turn.question_id)
    if in_whole_chat:
        before |= Q(turn__conversation=turn.conversation_id) & ~Q(turn=turn)
        attached = Q(part__message__conversation=turn.conversation_id)
    return taint_of(ToolCall.objects.filter(before), Attachment.objects.filter(attached))
