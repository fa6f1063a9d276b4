"""What a person allows in advance: giving a consent, using it, taking it back."""

import uuid
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from django.db import transaction
from django.db.models import F
from django.db.models.functions import Now

from chatapp.models import Consent, HousePolicy, Member, ToolCall
from chatapp.tools.catalogue import risk_of
from mcpconfig.models import ToolDefinition

from . import log, log_of_changes

Scope = Consent.Scope
ONCE = "once"


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """A consent as it counts by now: `dead_because` says why it does not at all, `changed` are
    those of its tools for which it does not."""

    consent: Consent
    tools: Sequence[str]
    changed: Sequence[str]
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
    """How these stand by now, with their services loaded. One query."""
    given = list(consents)
    current = ToolDefinition.objects.filter(
        is_current=True, service__in={consent.service_id for consent in given}
    )
    known = set(current.values_list("service", "name", "hash"))
    return [_standing(consent, house, known) for consent in given]


def _standing(
    consent: Consent, house: HousePolicy, known: Collection[tuple[int, str, str]]
) -> Standing:
    definitions = cast(Mapping[str, str], consent.definitions)
    changed = sorted(
        name
        for name, covered in definitions.items()
        if (consent.service_id, name, covered) not in known
    )
    why = ""
    if consent.scope not in house.lasting_scopes():
        why = "an admin does not let people allow this in advance any more"
    elif consent.endpoint != consent.service.endpoint:
        why = "the service has another address since"
    elif len(changed) == len(definitions):
        what = "the tool" if len(changed) == 1 else "each of its tools"
        why = f"{what} was changed or removed since"
    return Standing(
        consent=consent,
        tools=sorted(definitions),
        changed=[] if why else changed,
        dead_because=why,
    )
