"""What a person allows in advance: giving a consent, using it, taking it back."""

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from django.db import transaction
from django.db.models import F
from django.db.models.functions import Now

from chatapp.models import Consent, HousePolicy, Member, ToolCall
from chatapp.permissions.findings import Level
from chatapp.tools.catalogue import risk_of
from mcpconfig.models import ToolDefinition, ToolSetting

from . import log, log_of_changes

Scope = Consent.Scope
ONCE = "once"
# The risk of each tool that is offered now, by service, name and hash.
Levels = Mapping[tuple[int, str, str], Level]


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """A consent as it counts by now: `dead_because` says why it does not at all. It does not for
    those of its tools that are `changed`, and for `high` ones, whose risk must be allowed each
    time."""

    consent: Consent
    tools: Sequence[str]
    changed: Sequence[str]
    high: Sequence[str]
    dead_because: str


def give(call: ToolCall, *, by: Member, scope: str) -> Consent:
    """Store the consent inside the caller's transaction; it binds to what the call was about."""
    assert call.service is not None and call.definition is not None  # noqa: S101  a scope was offered
    definitions = {call.tool_name: call.definition.hash}
    if scope == Scope.SERVICE:
        definitions |= _all_of(call)
    return Consent.objects.create(
        person=by,
        service=call.service,
        endpoint=call.service.endpoint,
        scope=scope,
        conversation=call.turn.conversation if scope == Scope.CONVERSATION else None,
        definitions=definitions,
    )


def _all_of(call: ToolCall) -> Mapping[str, str]:
    """The confirmed tools of the service as they are now; high risks only where the house lets
    people allow them in advance."""
    assert call.service is not None  # noqa: S101  a scope was offered
    house = HousePolicy.current()
    settings = {setting.name: setting for setting in call.service.settings.all()}
    covered: dict[str, str] = {}
    for definition in ToolDefinition.objects.filter(service=call.service, is_current=True):
        setting = settings.get(definition.name)
        if setting is None or not setting.is_enabled or setting.confirmed_hash != definition.hash:
            continue
        level = risk_of(call.service, definition, setting).level
        if level != "high" or house.consents_to_high:
            covered[definition.name] = definition.hash
    return covered


def mark_used(consent_id: uuid.UUID) -> None:
    """A call ran under it."""
    Consent.objects.filter(pk=consent_id).update(uses=F("uses") + 1, last_used_at=Now())


def revoke(consent: Consent) -> None:
    """From the next call on it counts no more."""
    with transaction.atomic():
        if Consent.objects.filter(pk=consent.pk, revoked_at=None).update(revoked_at=Now()):
            log_of_changes.consent_ended(consent, log.Kind.CONSENT_REVOKED)


def standings(consents: Iterable[Consent], house: HousePolicy) -> list[Standing]:
    """How these stand by now, with their services loaded. Two queries."""
    given = list(consents)
    services = {consent.service_id: consent.service for consent in given}
    covered = {hash_ for consent in given for hash_ in _definitions(consent).values()}
    current = ToolDefinition.objects.filter(is_current=True, service__in=services, hash__in=covered)
    settings = {
        (each.service_id, each.name): each
        for each in ToolSetting.objects.filter(service__in=services).exclude(level="")
    }
    levels = {
        (each.service_id, each.name, each.hash): risk_of(
            services[each.service_id], each, settings.get((each.service_id, each.name))
        ).level
        for each in current
    }
    return [_standing(consent, house, levels) for consent in given]


def _standing(consent: Consent, house: HousePolicy, levels: Levels) -> Standing:
    changed, high = [], []
    for name, hash_ in sorted(_definitions(consent).items()):
        level = levels.get((consent.service_id, name, hash_))
        if level is None:
            changed.append(name)
        elif level == "high" and not house.consents_to_high:
            high.append(name)
    why = _why_dead(consent, house, changed, high)
    return Standing(
        consent=consent,
        tools=sorted(_definitions(consent)),
        changed=[] if why else changed,
        high=[] if why else high,
        dead_because=why,
    )


def _why_dead(
    consent: Consent, house: HousePolicy, changed: Sequence[str], high: Sequence[str]
) -> str:
    all_of_them = len(_definitions(consent))
    what = "the tool" if all_of_them == 1 else "each of its tools"
    if consent.scope not in house.lasting_scopes():
        return "an admin does not let people allow this in advance any more"
    if consent.endpoint != consent.service.endpoint:
        return "the service has another address since"
    if len(changed) == all_of_them:
        return f"{what} was changed or removed since"
    if len(high) == all_of_them:
        return f"the risk of {what} is high by now, and high risks are allowed once only"
    return ""


def _definitions(consent: Consent) -> Mapping[str, str]:
    return cast(Mapping[str, str], consent.definitions)
