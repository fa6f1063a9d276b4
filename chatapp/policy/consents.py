"""Consents: granting one, using it, revoking it, and its current status."""

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from django.db import transaction
from django.db.models import F
from django.db.models.functions import Now
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from chatapp.audit import audit_log, change_entries
from chatapp.models import Consent, HousePolicy, Member, ToolCall
from chatapp.permissions.risk_evidence import Level
from chatapp.tools.catalogue import assess_risk
from mcpconfig.models import Service, ToolDefinition, ToolSetting

Scope = Consent.Scope
ONCE = "once"
# The current risk of each offered tool, keyed by service, name and definition hash.
Levels = Mapping[tuple[int, str, str], Level]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsentStatus:
    """The current status of a consent. `dead_because` says why it does not count at all. It does
    not count for the tools in `changed`, and for those in `high`, whose risk must be allowed
    each time."""

    consent: Consent
    tools: Sequence[str]
    changed: Sequence[str]
    high: Sequence[str]
    dead_because: str


def grant(call: ToolCall, *, by: Member, scope: str) -> Consent:
    """Store a consent to what the call was about, inside the caller's transaction."""
    service, definition = call.service, call.definition
    if service is None or definition is None:
        raise ValueError("A consent is about a tool of a service.")
    definitions = {call.tool_name: definition.hash}
    if scope == Scope.SERVICE:
        definitions |= _list_covered_tools(service)
    return Consent.objects.create(
        person=by,
        service=service,
        endpoint=service.endpoint,
        scope=scope,
        conversation=call.turn.conversation if scope == Scope.CONVERSATION else None,
        definitions=definitions,
    )


def _list_covered_tools(service: Service) -> Mapping[str, str]:
    """Return the confirmed tools of the service with their hashes. High risks are included only
    if the house policy lets people allow them in advance."""
    house = HousePolicy.current()
    settings = {setting.name: setting for setting in service.settings.all()}
    covered: dict[str, str] = {}
    for definition in ToolDefinition.objects.filter(service=service, is_current=True):
        setting = settings.get(definition.name)
        if setting is None or not setting.is_enabled or setting.confirmed_hash != definition.hash:
            continue
        level = assess_risk(service, definition, setting).level
        if level != "high" or house.consents_to_high:
            covered[definition.name] = definition.hash
    return covered


def mark_used(consent_id: uuid.UUID) -> None:
    """Count a call that ran under this consent."""
    Consent.objects.filter(pk=consent_id).update(uses=F("uses") + 1, last_used_at=Now())


def revoke(consent: Consent) -> bool:
    """Revoke the consent for all further calls, and log it. Return whether it was in force."""
    with transaction.atomic():
        mine = Consent.objects.filter(pk=consent.pk, revoked_at=None)
        if not mine.update(revoked_at=Now()):
            return False
        change_entries.log_consent_end(consent, audit_log.Kind.CONSENT_REVOKED)
        return True


def assess(consents: Iterable[Consent], house: HousePolicy) -> list[ConsentStatus]:
    """Return the current status of these consents, whose services are loaded. Two queries."""
    given = list(consents)
    services = {consent.service_id: consent.service for consent in given}
    covered = {hash_ for consent in given for hash_ in _read_definitions(consent).values()}
    current = ToolDefinition.objects.filter(is_current=True, service__in=services, hash__in=covered)
    settings = {
        (each.service_id, each.name): each
        for each in ToolSetting.objects.filter(service__in=services).exclude(level="")
    }
    levels = {
        (each.service_id, each.name, each.hash): assess_risk(
            services[each.service_id], each, settings.get((each.service_id, each.name))
        ).level
        for each in current
    }
    return [_assess_consent(consent, house, levels) for consent in given]


def _assess_consent(consent: Consent, house: HousePolicy, levels: Levels) -> ConsentStatus:
    changed, high = [], []
    for name, hash_ in sorted(_read_definitions(consent).items()):
        level = levels.get((consent.service_id, name, hash_))
        if level is None:
            changed.append(name)
        elif level == "high" and not house.consents_to_high:
            high.append(name)
    why = _explain_dead(consent, house, changed, high)
    return ConsentStatus(
        consent=consent,
        tools=sorted(_read_definitions(consent)),
        changed=[] if why else changed,
        high=[] if why else high,
        dead_because=why,
    )


def _explain_dead(
    consent: Consent, house: HousePolicy, changed: Sequence[str], high: Sequence[str]
) -> str:
    all_of_them = len(_read_definitions(consent))
    if consent.scope not in house.lasting_scopes():
        return _("An admin no longer lets people allow this in advance.")
    if consent.endpoint != consent.service.endpoint:
        return _("The address of the service has changed.")
    if len(changed) == all_of_them:
        return ngettext(
            "The tool was changed or removed.",
            "All its tools were changed or removed.",
            all_of_them,
        )
    if len(high) == all_of_them:
        return ngettext(
            "The tool is now high risk and can only be allowed one call at a time.",
            "All its tools are now high risk and can only be allowed one call at a time.",
            all_of_them,
        )
    return ""


def _read_definitions(consent: Consent) -> Mapping[str, str]:
    return cast(Mapping[str, str], consent.definitions)
