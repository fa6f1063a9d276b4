"""What was true of past calls when policy decided about them: read from rows in batches, kept while
they go by in the order in which they were made.

What is not known of the past is taken from now: a person's groups, a chat's mode, an admin's level
of a tool, which services are open to strangers and which tools are confirmed. Consents count as
they stood when the call was made.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import Any
from uuid import UUID

from django.db.models import Max, Q, QuerySet
from django.utils import timezone

from chatapp.models import Attachment, Consent, HousePolicy, Member, ToolCall
from chatapp.permissions import rules
from chatapp.permissions.risk import Risk
from chatapp.permissions.rules import OWN_TOOLS, CallFacts, PersonFacts
from chatapp.tools.catalogue import risk_of
from chatapp.tools.core import core_tool
from chatapp.tools.core_catalogue import risk_of_core
from mcpconfig.models import Service, ToolDefinition, ToolSetting

from .drafted_consents import DraftedConsent
from .policy import consent_of

EVER = datetime.min.replace(tzinfo=UTC)
FIELDS = (
    *("turn_id", "step", "tool_id", "tool_name", "service_id", "definition_id", "arguments"),
    *("state", "sent_at", "result__isnull", "tainted_by", "consent_id", "approval"),
    *("turn__created_at", "turn__conversation_id", "turn__question_id"),
    *("turn__conversation__owner_id", "turn__conversation__mode"),
)
Row = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """Which past calls are looked at: of the last days, of one person, of one service."""

    days: int = 30
    person: Member | None = None
    service: Service | None = None

    @property
    def rows(self) -> QuerySet[ToolCall]:
        """Those that policy decided about, in the order in which they were made. What others of
        the same turn or day came before it counts for a call, so those of all services are there.
        """
        rows = self._decided().filter(turn__created_at__gte=self._since())
        return rows.order_by("turn__created_at", "turn_id", "step", "position")

    @property
    def uses_before(self) -> dict[UUID, datetime]:
        """When consents were used last before that."""
        before = self._decided().filter(turn__created_at__lt=self._since()).exclude(consent=None)
        last = before.order_by().values("consent").annotate(at=Max("turn__created_at"))
        return {each["consent"]: each["at"] for each in last}

    def _decided(self) -> QuerySet[ToolCall]:
        rows = ToolCall.objects.exclude(risk="")
        return rows.filter(turn__conversation__owner=self.person) if self.person else rows

    def _since(self) -> datetime:
        return timezone.now() - timedelta(days=self.days)


# --- what is known ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tool:
    """A definition as it is judged now."""

    risk: Risk
    hash: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Given:
    """A consent with the time in which it held."""

    consent: rules.Consent
    since: datetime
    until: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What is read once: people, services, judged tools, consents, and by their messages the
    services whose words, perhaps of strangers, were attached."""

    names: dict[int, str]
    people: dict[int, PersonFacts]
    services: dict[int, Service]
    settings: dict[tuple[int, str], ToolSetting]
    tools: dict[int, _Tool]
    consents: dict[int, list[_Given]]
    consents_last: timedelta
    attached: dict[UUID, str]

    @classmethod
    def of(cls, scope: Scope, drafted: DraftedConsent | None) -> "Known":
        services = {service.pk: service for service in Service.objects.all()}
        settings = {(each.service_id, each.name): each for each in ToolSetting.objects.all()}
        names = dict(Member.objects.values_list("pk", "username"))
        return cls(
            names=names,
            people={person: PersonFacts(id=person, groups=groups) for person, groups in _groups()},
            services=services,
            settings=settings,
            tools=_judged(scope, services, settings),
            consents=_consents(names, drafted),
            consents_last=timedelta(days=HousePolicy.current().consent_days),
            attached=_attached(),
        )


def _groups() -> Iterator[tuple[int, frozenset[int]]]:
    held = defaultdict(set)
    for person, group in Member.objects.values_list("pk", "groups"):
        held[person].add(group)
    return ((person, frozenset(groups - {None})) for person, groups in held.items())


def _judged(
    scope: Scope, services: dict[int, Service], settings: dict[tuple[int, str], ToolSetting]
) -> dict[int, _Tool]:
    used = scope.rows.exclude(definition=None).order_by().values("definition").distinct()
    return {
        each.pk: _Tool(
            risk=risk_of(
                services[each.service_id], each, settings.get((each.service_id, each.name))
            ),
            hash=each.hash,
        )
        for each in ToolDefinition.objects.filter(pk__in=used)
    }


def _attached() -> dict[UUID, str]:
    sent = Attachment.objects.filter(part__isnull=False)
    brought = sent.filter(Q(service__is_open=True) | ~Q(tainted_by=""))
    rows = brought.values_list("part__message", "tainted_by", "service__name")
    return {message: marked or service for message, marked, service in rows}


def _consents(people: Iterable[int], drafted: DraftedConsent | None) -> dict[int, list[_Given]]:
    given = defaultdict(list)
    for row in Consent.objects.select_related("service"):
        one = _Given(consent=consent_of(row), since=row.created_at, until=row.revoked_at)
        given[row.person_id].append(one)
    if drafted is not None:
        for person in people:
            given[person].append(_Given(consent=drafted.of(person), since=EVER, until=None))
    return given


# --- what has gone by ------------------------------------------------------------------------


@dataclass(slots=True, kw_only=True)
class GoneBy:
    """What later calls of a turn, a chat or a day have to know of earlier ones, and when each
    consent was used last."""

    used: dict[UUID, datetime]
    turn: object = None
    chat: object = None
    step: int = 0
    same: Counter[tuple[str, str]] = field(default_factory=Counter)
    read: str = ""
    tainted_by: str = ""
    chats: dict[object, str] = field(default_factory=dict)
    today: Counter[tuple[int, int | None, str, date]] = field(default_factory=Counter)

    def enter(self, call: Row, known: Known) -> None:
        """The calls of a step are decided before any of them has a result."""
        if call["turn_id"] != self.turn:
            if self.read:
                self.chats.setdefault(self.chat, self.read)
            self.turn, self.chat = call["turn_id"], call["turn__conversation_id"]
            self.same = Counter()
            self.read = self.tainted_by = known.attached.get(call["turn__question_id"], "")
        elif call["step"] != self.step:
            self.tainted_by = self.read
        self.step = call["step"]

    def remember(self, call: Row, known: Known, consent_id: UUID | None) -> None:
        """The call is decided, perhaps by a consent, which is used then."""
        self.same[call["tool_id"], call["arguments"]] += 1
        if call["sent_at"] is not None:
            self.today[_day_of(call)] += 1
        for used in (call["consent_id"], consent_id):
            if used is not None:
                self.used[used] = call["turn__created_at"]
        if not call["result__isnull"] and (brought := _strangers_in(call, known)):
            self.read = self.read or brought

    def held(self, known: Known, call: Row) -> Iterator[rules.Consent]:
        """The consents of the call's person that were neither revoked nor lapsed."""
        at = call["turn__created_at"]
        for each in known.consents.get(call["turn__conversation__owner_id"], ()):
            stood = each.since <= at and (each.until is None or at < each.until)
            if stood and not self._has_lapsed(each, known, at):
                yield each.consent

    def _has_lapsed(self, given: _Given, known: Known, at: datetime) -> bool:
        if given.consent.id is None:  # a drafted one
            return False
        return at - self.used.get(given.consent.id, given.since) > known.consents_last


def _strangers_in(call: Row, known: Known) -> str:
    """Whose words, perhaps of strangers, the call brought, or nothing."""
    service = known.services.get(call["service_id"])
    open_name = service.name if service is not None and service.is_open else ""
    return call["tainted_by"] or open_name


def facts_of_past(call: Row, known: Known, before: GoneBy) -> tuple[CallFacts, Risk] | None:
    """What was true of the call, with the tool's risk; None where its service is gone."""
    service = known.services.get(call["service_id"])
    tool = known.tools.get(call["definition_id"])
    own = core_tool(call["tool_id"]) if call["service_id"] is None else None
    risk = risk_of_core(own) if own else tool.risk if tool and service else None
    if risk is None:
        return None
    setting = known.settings.get((call["service_id"], call["tool_name"]))
    in_chat = before.tainted_by or before.chats.get(call["turn__conversation_id"], "")
    facts = CallFacts(
        service=service.name if service else OWN_TOOLS,
        tool=call["tool_name"],
        is_confirmed=own is not None or bool(setting and setting.confirmed_hash),
        identical_calls_before=before.same[call["tool_id"], call["arguments"]],
        endpoint=service.endpoint if service else "",
        definition_hash=tool.hash if tool else "",
        conversation_id=str(call["turn__conversation_id"]),
        arguments=json.loads(call["arguments"]),
        calls_today=before.today[_day_of(call)],
        tainted_by=in_chat if own is not None and own.outlives_chat else before.tainted_by,
    )
    return facts, risk


def _day_of(call: Row) -> tuple[int, int | None, str, date]:
    person, at = call["turn__conversation__owner_id"], call["turn__created_at"]
    return person, call["service_id"], call["tool_name"], at.date()
