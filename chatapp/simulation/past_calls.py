"""The facts of past calls at the time of their decision, read from rows in batches, in the order of
the calls.

What is not stored about the past is taken from the present: a person's groups, a chat's mode, an
admin's level of a tool, which services are open to strangers and which tools are confirmed.
Consents count as they were when the call was made.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from typing import Any, Self
from uuid import UUID

from django.db.models import Max, Q, QuerySet
from django.utils import timezone

from chatapp.models import Attachment, Consent, HousePolicy, Member, ToolCall
from chatapp.permissions import rules
from chatapp.permissions.destinations import list_destinations
from chatapp.permissions.risk import Risk, ToolFacts
from chatapp.permissions.rules import OWN_TOOLS, CallFacts, PersonFacts
from chatapp.policy.stored_policy import build_consent
from chatapp.tools.catalogue import assess_risk, describe_definition
from chatapp.tools.core import core_tool
from chatapp.tools.core_catalogue import assess_core_risk
from mcpconfig.models import Service, ToolDefinition, ToolSetting

from .drafts import DraftedConsent

EVER = datetime.min.replace(tzinfo=UTC)
FIELDS = (
    *("turn_id", "step", "tool_id", "tool_name", "service_id", "definition_id", "arguments"),
    *("state", "sent_at", "result__isnull", "tainted_by", "consent_id", "approval"),
    *("turn__created_at", "turn__conversation_id", "turn__question_id"),
    *("turn__conversation__owner_id", "turn__conversation__mode"),
    *("turn__conversation__tainted_by", "turn__conversation__is_shared_copy"),
)
Row = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """Which past calls are simulated: of the last days, of one person, of one service, and none
    before `start`."""

    days: int = 30
    person: Member | None = None
    service: Service | None = None
    start: datetime | None = None

    def limit(self, number: int) -> Self:
        """Return the scope of about so many of the newest calls."""
        times = self._decided().filter(turn__created_at__gte=self.since)
        newest = times.order_by("-turn__created_at").values_list("turn__created_at", flat=True)
        first = newest[number - 1 : number].first()
        return replace(self, start=first) if first else self

    @property
    def rows(self) -> QuerySet[ToolCall]:
        """The decided calls in the order in which they were made, of all services: the earlier
        calls of the same turn or day count for a call."""
        rows = self._decided().filter(turn__created_at__gte=self.since)
        return rows.order_by("turn__created_at", "turn_id", "step", "position")

    @property
    def uses_before(self) -> dict[UUID, datetime]:
        """When each consent was last used before the period."""
        before = self._decided().filter(turn__created_at__lt=self.since).exclude(consent=None)
        last = before.order_by().values("consent").annotate(at=Max("turn__created_at"))
        return {each["consent"]: each["at"] for each in last}

    def _decided(self) -> QuerySet[ToolCall]:
        rows = ToolCall.objects.exclude(risk="")
        return rows.filter(turn__conversation__owner=self.person) if self.person else rows

    @property
    def since(self) -> datetime:
        of_days = timezone.now() - timedelta(days=self.days)
        return max(of_days, self.start) if self.start else of_days


# --- what is known ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tool:
    """A definition with its current risk."""

    risk: Risk
    hash: str
    facts: ToolFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class _DatedConsent:
    """A consent with the time in which it was valid."""

    consent: rules.Consent
    since: datetime
    until: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PastFacts:
    """What is read once: people, services, judged tools, consents, and for each message the
    services whose untrusted content was attached."""

    names: dict[int, str]
    people: dict[int, PersonFacts]
    services: dict[int, Service]
    settings: dict[tuple[int, str], ToolSetting]
    tools: dict[int, _Tool]
    consents: dict[int, list[_DatedConsent]]
    consents_last: timedelta
    attached: dict[UUID, str]

    @classmethod
    def load(cls, scope: Scope, drafted: DraftedConsent | None) -> "PastFacts":
        services = {service.pk: service for service in Service.objects.all()}
        settings = {(each.service_id, each.name): each for each in ToolSetting.objects.all()}
        names = dict(Member.objects.values_list("pk", "username"))
        return cls(
            names=names,
            people={
                person: PersonFacts(id=person, groups=groups) for person, groups in _load_groups()
            },
            services=services,
            settings=settings,
            tools=_judge_tools(scope, services, settings),
            consents=_load_consents(names, drafted),
            consents_last=timedelta(days=HousePolicy.current().consent_days),
            attached=_load_attached(scope),
        )


def _load_groups() -> Iterator[tuple[int, frozenset[int]]]:
    held = defaultdict(set)
    for person, group in Member.objects.values_list("pk", "groups"):
        held[person].add(group)
    return ((person, frozenset(groups - {None})) for person, groups in held.items())


def _judge_tools(
    scope: Scope, services: dict[int, Service], settings: dict[tuple[int, str], ToolSetting]
) -> dict[int, _Tool]:
    used = scope.rows.exclude(definition=None).order_by().values("definition").distinct()
    return {
        each.pk: _Tool(
            risk=assess_risk(
                services[each.service_id], each, settings.get((each.service_id, each.name))
            ),
            hash=each.hash,
            facts=describe_definition(services[each.service_id], each),
        )
        for each in ToolDefinition.objects.filter(pk__in=used)
    }


def _load_attached(scope: Scope) -> dict[UUID, str]:
    questions = scope.rows.order_by().values("turn__question")
    sent = Attachment.objects.filter(part__message__in=questions)
    brought = sent.filter(Q(service__is_open=True) | ~Q(tainted_by=""))
    rows = brought.values_list("part__message", "tainted_by", "service__name")
    return {message: marked or service for message, marked, service in rows}


def _load_consents(
    people: Iterable[int], drafted: DraftedConsent | None
) -> dict[int, list[_DatedConsent]]:
    given = defaultdict(list)
    for row in Consent.objects.select_related("service"):
        one = _DatedConsent(consent=build_consent(row), since=row.created_at, until=row.revoked_at)
        given[row.person_id].append(one)
    if drafted is not None:
        for person in people:
            given[person].append(
                _DatedConsent(consent=drafted.build_for(person), since=EVER, until=None)
            )
    return given


# --- what has gone by ------------------------------------------------------------------------


@dataclass(slots=True, kw_only=True)
class EarlierCalls:
    """What later calls of a turn, a chat or a day depend on, and when each consent was last
    used."""

    used: dict[UUID, datetime]
    turn: object = None
    chat: object = None
    step: int = 0
    same: Counter[tuple[str, str]] = field(default_factory=Counter)
    read: str = ""
    tainted_by: str = ""
    chats: dict[object, str] = field(default_factory=dict)
    today: Counter[tuple[int, int | None, str, date]] = field(default_factory=Counter)

    def enter(self, call: Row, known: PastFacts) -> None:
        """Advance to this call. The calls of a step are decided before any of them has a result."""
        if call["turn_id"] != self.turn:
            if self.read:
                self.chats.setdefault(self.chat, self.read)
            self.turn, self.chat = call["turn_id"], call["turn__conversation_id"]
            self.same = Counter()
            attached = known.attached.get(call["turn__question_id"], "")
            is_shared_copy = call["turn__conversation__is_shared_copy"]
            copied = call["turn__conversation__tainted_by"] if is_shared_copy else ""
            self.read = self.tainted_by = copied or attached
        elif call["step"] != self.step:
            self.tainted_by = self.read
        self.step = call["step"]

    def remember(self, call: Row, known: PastFacts, consent_id: UUID | None) -> None:
        """Record a decided call, and the consent that it used, if any."""
        self.same[call["tool_id"], call["arguments"]] += 1
        if call["sent_at"] is not None:
            self.today[_build_day_key(call)] += 1
        for used in (call["consent_id"], consent_id):
            if used is not None:
                self.used[used] = call["turn__created_at"]
        if not call["result__isnull"] and (brought := _find_taint(call, known)):
            self.read = self.read or brought

    def list_consents(self, known: PastFacts, call: Row) -> Iterator[rules.Consent]:
        """Yield the consents of the call's person that were neither revoked nor lapsed."""
        at = call["turn__created_at"]
        for each in known.consents.get(call["turn__conversation__owner_id"], ()):
            stood = each.since <= at and (each.until is None or at < each.until)
            if stood and not self._has_lapsed(each, known, at):
                yield each.consent

    def _has_lapsed(self, given: _DatedConsent, known: PastFacts, at: datetime) -> bool:
        if given.consent.id is None:  # a drafted consent
            return False
        return at - self.used.get(given.consent.id, given.since) > known.consents_last


def _find_taint(call: Row, known: PastFacts) -> str:
    """Return the service whose untrusted content the call's result brought, or an empty string."""
    service = known.services.get(call["service_id"])
    open_name = service.name if service is not None and service.is_open else ""
    return call["tainted_by"] or open_name


def build_past_facts(
    call: Row, known: PastFacts, before: EarlierCalls
) -> tuple[CallFacts, Risk] | None:
    """Return the facts of the call and the tool's risk; None if the service no longer exists."""
    service = known.services.get(call["service_id"])
    tool = known.tools.get(call["definition_id"])
    own = core_tool(call["tool_id"]) if call["service_id"] is None else None
    risk = assess_core_risk(own) if own else tool.risk if tool and service else None
    if risk is None:
        return None
    setting = known.settings.get((call["service_id"], call["tool_name"]))
    in_chat = before.tainted_by or before.chats.get(call["turn__conversation_id"], "")
    in_chat = in_chat or call["turn__conversation__tainted_by"]
    arguments = json.loads(call["arguments"])
    facts = CallFacts(
        service=service.name if service else OWN_TOOLS,
        tool=call["tool_name"],
        is_confirmed=own is not None or bool(setting and setting.confirmed_hash),
        identical_calls_before=before.same[call["tool_id"], call["arguments"]],
        endpoint=service.endpoint if service else "",
        definition_hash=tool.hash if tool else "",
        conversation_id=str(call["turn__conversation_id"]),
        arguments=arguments,
        calls_today=before.today[_build_day_key(call)],
        tainted_by=in_chat if own is not None and own.outlives_chat else before.tainted_by,
        destinations=list_destinations(tool.facts, arguments) if tool and before.tainted_by else (),
    )
    return facts, risk


def _build_day_key(call: Row) -> tuple[int, int | None, str, date]:
    person, at = call["turn__conversation__owner_id"], call["turn__created_at"]
    return person, call["service_id"], call["tool_name"], at.date()
