"""The stored policy for one person and the facts of one call, read from rows as values for the
pure decision."""

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
from chatapp.permissions.decide import decide, raise_risk
from chatapp.permissions.destinations import Destination, list_destinations
from chatapp.permissions.hosts import read_stored_patterns
from chatapp.permissions.risk import Risk
from chatapp.permissions.risk_evidence import Level
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
from chatapp.tools.catalogue import assess_risk, describe_definition
from chatapp.tools.taint import find_taint
from mcpconfig.models import ToolDefinition, ToolSetting

from .daily_limits import count_uses_today


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """Everything that may count for the calls of one person."""

    person: PersonFacts
    house: House
    rules: tuple[Rule, ...]

    @property
    def is_limited(self) -> bool:
        return any(isinstance(rule, DailyLimit) for rule in self.rules)

    def decide(self, call: CallFacts, risk: Risk, mode: str) -> Decision:
        """Decide about a call. An unknown mode counts as planning."""
        known: Mode = "act" if mode == Conversation.Mode.ACT else "plan"
        return decide(call, risk, self.rules, self.person, known, self.house)


@dataclass(frozen=True, slots=True, kw_only=True)
class CurrentTool:
    """A tool of a service in its current state."""

    service_id: int
    service: str
    tool: str
    endpoint: str
    definition_id: int
    definition_hash: str
    is_confirmed: bool
    is_disabled: bool = False


def load_policy(person: Member, conversation: Conversation | None) -> Policy:
    """Load every rule, limit and consent that may count for this person now. Four queries."""
    house = HousePolicy.current()
    consents = _load_consents(person, conversation, house)
    return Policy(
        person=build_person_facts(person),
        house=build_house(house),
        rules=(*load_admin_rules(), *load_daily_limits(), *consents),
    )


def build_person_facts(person: Member) -> PersonFacts:
    groups = person.groups.values_list("pk", flat=True)
    return PersonFacts(id=person.pk, groups=frozenset(groups))


def build_house(row: HousePolicy) -> House:
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
        demands=tuple((level, build_demand(second)) for level, second in needed if second),
        allowed_hosts=read_stored_patterns(row.allowed_hosts),
    )


def build_demand(row: SecondSignature) -> Demand:
    return Demand(
        id=row.pk,
        deadline_hours=row.deadline_hours,
        escalates_after_hours=row.escalates_after_hours,
    )


def load_admin_rules(among: QuerySet[PolicyRule] | None = None) -> list[AdminRule]:
    """Load the rules in force, all of them or those `among` these."""
    wanted = PolicyRule.objects.all() if among is None else among
    rows = wanted.filter(is_enabled=True).select_related("service", "second")
    return [build_rule(row, row.groups.all()) for row in rows.prefetch_related("groups")]


def build_rule(row: PolicyRule, groups: Iterable[Group]) -> AdminRule:
    return AdminRule(
        effect=cast(Effect, row.effect),
        service=_find_service_name(row),
        tool=row.tool or None,
        groups=frozenset(group.pk for group in groups),
        levels=frozenset(cast(list[Level], row.levels)),
        condition=row.condition,
        note=row.note,
        wants_typing=row.wants_typing,
        demand=build_demand(row.second) if row.second else None,
        id=row.pk,
    )


def load_daily_limits() -> list[DailyLimit]:
    return [build_limit(row) for row in ToolLimit.objects.select_related("service")]


def build_limit(row: ToolLimit) -> DailyLimit:
    return DailyLimit(
        calls=row.calls,
        service=_find_service_name(row),
        tool=row.tool or None,
        groups=frozenset({row.group_id} if row.group_id else ()),
    )


def _find_service_name(row: PolicyRule | ToolLimit) -> str | None:
    """Return the service of the tools that the row covers; None means all services."""
    if row.is_core:
        return OWN_TOOLS
    return row.service.name if row.service else None


def _load_consents(
    person: Member, conversation: Conversation | None, house: HousePolicy
) -> list[rules.Consent]:
    rows = filter_live_consents(person, house).select_related("service")
    here = Q(conversation=None) | Q(conversation=conversation)
    return [build_consent(row) for row in rows.filter(here)]


def build_consent(row: Consent) -> rules.Consent:
    return rules.Consent(
        person_id=row.person_id,
        service=row.service.name,
        endpoint=row.endpoint,
        definition_hashes=frozenset(cast(Mapping[str, str], row.definitions).values()),
        conversation_id=str(row.conversation_id) if row.conversation_id else None,
        scope=row.scope,
        id=row.pk,
    )


def filter_live_consents(person: Member, house: HousePolicy) -> Any:
    """Return the consents that are neither revoked nor lapsed for lack of use."""
    since = timezone.now() - timedelta(days=house.consent_days)
    used = Coalesce("last_used_at", "created_at")
    mine = Consent.objects.filter(person=person, revoked_at=None)
    return mine.annotate(last_seen=used).filter(last_seen__gte=since)


def build_call_facts(
    turn: Turn, call: ToolCall, person: Member, seen: CurrentTool, policy: Policy
) -> CallFacts:
    """Return the facts about one call of a turn."""
    today = (
        count_uses_today(person, seen.service_id, seen.tool, besides=call)
        if policy.is_limited
        else 0
    )
    arguments, tainted_by = json.loads(call.arguments), find_taint_before(turn, call)
    return CallFacts(
        service=seen.service,
        tool=seen.tool,
        is_confirmed=seen.is_confirmed,
        identical_calls_before=count_earlier_calls(turn, call),
        endpoint=seen.endpoint,
        definition_hash=seen.definition_hash,
        conversation_id=str(turn.conversation_id),
        obstacle="disabled" if seen.is_disabled else None,
        arguments=arguments,
        calls_today=today,
        tainted_by=tainted_by,
        destinations=_load_destinations(seen, arguments) if tainted_by else (),
    )


def _load_destinations(seen: CurrentTool, arguments: Mapping[str, Any]) -> tuple[Destination, ...]:
    definition = ToolDefinition.objects.select_related("service").get(pk=seen.definition_id)
    return list_destinations(describe_definition(definition.service, definition), arguments)


def decide_again(turn: Turn, call: ToolCall, person: Member) -> tuple[Decision, Risk]:
    """Return the current decision about a call that was decided before, perhaps with other
    arguments, and its risk in this turn. The call must have a service and a definition."""
    service, definition = call.service, call.definition
    if service is None or definition is None:
        raise ValueError("Only a call of a service's tool is decided again.")
    setting = ToolSetting.objects.filter(service=service, name=call.tool_name).first()
    current = CurrentTool(
        service_id=service.pk,
        service=service.name,
        tool=call.tool_name,
        endpoint=service.endpoint,
        definition_id=definition.pk,
        definition_hash=definition.hash,
        is_confirmed=setting is not None and setting.confirmed_hash == definition.hash,
    )
    policy = load_policy(person, turn.conversation)
    facts = build_call_facts(turn, call, person, current, policy)
    risk = assess_risk(service, definition, setting)
    return policy.decide(facts, risk, turn.conversation.mode), raise_risk(risk, facts)


def count_earlier_calls(turn: Turn, call: ToolCall) -> int:
    """Count the earlier calls of this turn with the same tool and arguments."""
    before = Q(step__lt=call.step) | Q(step=call.step, position__lt=call.position)
    alike = ToolCall.objects.filter(turn=turn, tool_id=call.tool_id, arguments=call.arguments)
    return alike.filter(before).count()


def find_taint_before(turn: Turn, call: ToolCall, *, in_whole_chat: bool = False) -> str:
    """Return the service whose untrusted content the model had read when it asked for this call,
    in this turn or in the whole chat; empty if there is none."""
    before, attached = Q(turn=turn, step__lt=call.step), Q(part__message=turn.question_id)
    if in_whole_chat:
        before |= Q(turn__conversation=turn.conversation_id) & ~Q(turn=turn)
        attached = Q(part__message__conversation=turn.conversation_id)
    return find_taint(ToolCall.objects.filter(before), Attachment.objects.filter(attached))
