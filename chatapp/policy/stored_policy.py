"""The stored policy for one person and the facts of one call, read from rows as values for the
pure decision."""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import cache, lru_cache
from typing import Any, TypeVar, cast

from django.contrib.auth.models import Group
from django.db import connection
from django.db.models import BooleanField, Exists, OuterRef, Q, QuerySet, TextField
from django.db.models.expressions import RawSQL
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
from chatapp.tools.taint import (
    filter_tainted,
    find_taint,
    find_taint_of_copies,
    find_taint_of_project,
)
from mcpconfig.models import Service, ToolDefinition, ToolSetting

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
    """Load every rule, limit and consent that may count for this person now: one query, or two for
    a person with consents."""
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {', '.join(_get_columns())}", [person.pk, person.pk])
        return _build_policy(person, conversation, *cursor.fetchone())


def load_policies(people: Sequence[Member]) -> dict[int, Policy]:
    """Load the same for several people, outside of any conversation, in three statements."""
    shared, _groups, _has_consents = _get_columns()
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {shared}")
        house, admin_rules = _read_shared(cursor.fetchone()[0])
    groups = defaultdict(set)
    held = Member.groups.through.objects.filter(member__in=[person.pk for person in people])
    for person_id, group in held.values_list("member_id", "group_id"):
        groups[person_id].add(group)
    given = defaultdict(list)
    for row in filter_live_consents_of(people, house).select_related("service"):
        if row.conversation_id is None:
            given[row.person_id].append(build_consent(row))
    return {
        person.pk: Policy(
            person=PersonFacts(id=person.pk, groups=frozenset(groups[person.pk])),
            house=build_house(house),
            rules=(*admin_rules, *given[person.pk]),
        )
        for person in people
    }


def annotate_policy(calls: QuerySet[ToolCall], person: Member) -> QuerySet[ToolCall]:
    """Read with the calls of this person what `read_policy` needs."""
    shared, groups, has_consents = _get_columns()
    return calls.annotate(
        shared_policy=RawSQL(shared, [], TextField()),  # noqa: S611  # it has no values
        person_groups=RawSQL(groups, [person.pk], TextField()),  # noqa: S611
        has_consents=RawSQL(has_consents, [person.pk], BooleanField()),  # noqa: S611
    )


def read_policy(call: ToolCall, person: Member, conversation: Conversation) -> Policy:
    """Return the policy that `annotate_policy` read: no query, or one for a person with
    consents."""
    row: Any = call
    return _build_policy(
        person, conversation, row.shared_policy, row.person_groups, row.has_consents
    )


def _build_policy(
    person: Member,
    conversation: Conversation | None,
    shared: str,
    groups: str | None,
    has_consents: bool,
) -> Policy:
    row, admin_rules = _read_shared(shared)
    consents = _load_consents(person, conversation, row) if has_consents else ()
    return Policy(
        person=PersonFacts(id=person.pk, groups=frozenset(json.loads(groups or "[]"))),
        house=build_house(row),
        rules=(*admin_rules, *consents),
    )


@cache
def _get_columns() -> tuple[str, ...]:
    """Return the policy for everybody, a person's groups, and whether they gave a consent, each as
    an expression of SQL."""
    functions = _JSON[connection.vendor]
    return tuple(each.format(**functions) for each in (_SHARED, _GROUPS, _HAS_CONSENTS))


# The policy for everybody as one text: the ORM needs five statements for it, and each call is
# decided twice. A test compares what is read of it with what the ORM reads.
_SHARED = """CAST({object}(
    'house', {json}((
        SELECT {object}(
            'asks_everything', asks_everything, 'runs_up_to', runs_up_to,
            'widest_consent', widest_consent, 'consents_to_high', consents_to_high,
            'consent_days', consent_days, 'types_high', types_high,
            'allowed_hosts', allowed_hosts, 'medium_needs_id', medium_needs_id,
            'high_needs_id', high_needs_id
        ) FROM chatapp_housepolicy WHERE id = 1
    )),
    'rules', {json}((
        SELECT {array}({object}(
            'id', rule.id, 'effect', rule.effect, 'is_core', rule.is_core,
            'service', service.name, 'tool', rule.tool, 'levels', {json}(rule.levels),
            'condition', rule.condition, 'note', rule.note, 'wants_typing', rule.wants_typing,
            'second_id', rule.second_id,
            'groups', {json}((
                SELECT {array}(group_id) FROM chatapp_policyrule_groups
                WHERE policyrule_id = rule.id
            ))
        )) FROM chatapp_policyrule rule
        LEFT JOIN mcpconfig_service service ON service.id = rule.service_id
        WHERE rule.is_enabled
    )),
    'limits', {json}((
        SELECT {array}({object}(
            'id', tool_limit.id, 'is_core', tool_limit.is_core, 'service', service.name,
            'tool', tool_limit.tool, 'group_id', tool_limit.group_id, 'calls', tool_limit.calls
        )) FROM chatapp_toollimit tool_limit
        LEFT JOIN mcpconfig_service service ON service.id = tool_limit.service_id
    )),
    'seconds', {json}((
        SELECT {array}({object}(
            'id', id, 'deadline_hours', deadline_hours,
            'escalates_after_hours', escalates_after_hours
        )) FROM chatapp_secondsignature
    ))
) AS TEXT)"""
_GROUPS = "(SELECT CAST({array}(group_id) AS TEXT) FROM chatapp_member_groups WHERE member_id = %s)"
_HAS_CONSENTS = "EXISTS (SELECT 1 FROM chatapp_consent WHERE person_id = %s AND revoked_at IS NULL)"
_JSON = {
    "sqlite": {"object": "JSON_OBJECT", "array": "JSON_GROUP_ARRAY", "json": "JSON"},
    "postgresql": {"object": "JSON_BUILD_OBJECT", "array": "JSON_AGG", "json": ""},
}
Found = dict[str, Any]


# The same text has the same meaning, so nothing of it is ever out of date.
@lru_cache(maxsize=4)
def _read_shared(text: str) -> tuple[HousePolicy, tuple[Rule, ...]]:
    """Return the policy for everybody, and the rules and limits."""
    found = json.loads(text)
    seconds = {each["id"]: SecondSignature(**each) for each in found["seconds"] or ()}
    row = _build_row(HousePolicy, found["house"] or {}, seconds)
    rules = [_read_rule(each, seconds) for each in _sort(found["rules"])]
    limits = [_read_limit(each) for each in _sort(found["limits"])]
    return row, (*rules, *limits)


def _sort(found: list[Found] | None) -> list[Found]:
    return sorted(found or (), key=lambda each: each["id"])


def _read_rule(found: Found, seconds: Mapping[int, SecondSignature]) -> AdminRule:
    groups = [Group(pk=pk) for pk in found.pop("groups") or ()]
    return build_rule(_build_row(PolicyRule, found, seconds), groups)


def _read_limit(found: Found) -> DailyLimit:
    return build_limit(_build_row(ToolLimit, found, {}))


Row = TypeVar("Row", HousePolicy, PolicyRule, ToolLimit)


def _build_row(model: type[Row], found: Found, seconds: Mapping[int, SecondSignature]) -> Row:
    """Return an unsaved row with these values, the service that it names and its second signers."""
    service = found.pop("service", None)
    row = model()
    fields = {field.attname: field for field in model._meta.concrete_fields}
    for name, value in found.items():
        setattr(row, name, fields[name].to_python(value))
        if second := seconds.get(value) if name in SECONDS else None:
            setattr(row, name.removesuffix("_id"), second)
    if isinstance(row, PolicyRule | ToolLimit):
        row.service = Service(name=service) if service is not None else None
    return row


SECONDS = ("second_id", "medium_needs_id", "high_needs_id")


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
    return filter_live_consents_of([person], house)


def filter_live_consents_of(people: Sequence[Member], house: HousePolicy) -> Any:
    since = timezone.now() - timedelta(days=house.consent_days)
    used = Coalesce("last_used_at", "created_at")
    mine = Consent.objects.filter(person__in=people, revoked_at=None)
    return mine.annotate(last_seen=used).filter(last_seen__gte=since)


@dataclass(frozen=True, slots=True, kw_only=True)
class Before:
    """What came before a call in its turn: how many like it, and whose untrusted content."""

    identical_calls: int
    tainted_by: str


def build_call_facts(
    turn: Turn,
    call: ToolCall,
    person: Member,
    seen: CurrentTool,
    policy: Policy,
    before: Before | None = None,
) -> CallFacts:
    """Return the facts about one call of a turn. What came `before` it is read if it is not
    given."""
    if before is None:
        before = Before(
            identical_calls=count_earlier_calls(turn, call),
            tainted_by=find_taint_before(turn, call),
        )
    today = (
        count_uses_today(person, seen.service_id, seen.tool, besides=call)
        if policy.is_limited
        else 0
    )
    arguments, tainted_by = json.loads(call.arguments), before.tainted_by
    return CallFacts(
        service=seen.service,
        tool=seen.tool,
        is_confirmed=seen.is_confirmed,
        identical_calls_before=before.identical_calls,
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


def decide_again(
    turn: Turn, call: ToolCall, person: Member, before: Before | None = None
) -> tuple[Decision, Risk]:
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
    facts = build_call_facts(turn, call, person, current, policy, before)
    risk = assess_risk(service, definition, setting)
    return policy.decide(facts, risk, turn.conversation.mode), raise_risk(risk, facts)


def annotate_before(calls: QuerySet[ToolCall]) -> QuerySet[ToolCall]:
    """Read with each call what `find_before` needs. Most calls have nothing before them that
    counts, and those need no statement of their own."""
    in_turn = ToolCall.objects.filter(turn=OuterRef("turn"))
    earlier = Q(step__lt=OuterRef("step")) | Q(
        step=OuterRef("step"), position__lt=OuterRef("position")
    )
    alike = in_turn.filter(earlier, tool_id=OuterRef("tool_id"), arguments=OuterRef("arguments"))
    results = in_turn.filter(step__lt=OuterRef("step"), result__isnull=False)
    files = Attachment.objects.filter(part__message=OuterRef("turn__question"))
    return calls.annotate(
        has_alike=Exists(alike.order_by()),
        has_taint=Exists(filter_tainted(results.order_by()))
        | Exists(filter_tainted(files.order_by())),
    )


def find_before(turn: Turn, call: ToolCall, *, is_as_read: bool) -> Before:
    """Return what came before a call that `annotate_before` read. `is_as_read`: its arguments have
    not changed since."""
    row: Any = call
    has_alike = row.has_alike or not is_as_read
    chat = turn.conversation
    has_taint = row.has_taint or chat.is_shared_copy or chat.project_id is not None
    return Before(
        identical_calls=count_earlier_calls(turn, call) if has_alike else 0,
        tainted_by=find_taint_before(turn, call) if has_taint else "",
    )


def count_earlier_calls(turn: Turn, call: ToolCall) -> int:
    """Count the earlier calls of this turn with the same tool and arguments."""
    before = Q(step__lt=call.step) | Q(step=call.step, position__lt=call.position)
    alike = ToolCall.objects.filter(turn=turn, tool_id=call.tool_id, arguments=call.arguments)
    return alike.filter(before).count()


def find_taint_before(turn: Turn, call: ToolCall, *, in_whole_chat: bool = False) -> str:
    """Return the service whose untrusted content the model had read when it asked for this call,
    in this turn or in the whole chat with what it was forked from; empty if there is none. Another
    person wrote the past of a shared copy, also what looks like this person's own messages, so it
    counts in each turn."""
    if turn.conversation.is_shared_copy:
        return turn.conversation.tainted_by
    before, attached = Q(turn=turn, step__lt=call.step), Q(part__message=turn.question_id)
    if in_whole_chat:
        before |= Q(turn__conversation=turn.conversation_id) & ~Q(turn=turn)
        attached = Q(part__message__conversation=turn.conversation_id)
    found = find_taint(ToolCall.objects.filter(before), Attachment.objects.filter(attached))
    found = found or find_taint_of_project(turn)
    if found or not in_whole_chat or not turn.conversation.has_copies:
        return found
    return find_taint_of_copies([turn.conversation_id])
