"""A consent that nobody has given, for trying what it would change: everybody's, always."""

from dataclasses import dataclass

from chatapp.models import Consent
from chatapp.permissions import rules
from mcpconfig.models import Service


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftedConsent:
    """As if each person had allowed a tool of a service, or all of its tools, as they are now."""

    service: str
    endpoint: str
    definitions: frozenset[str]
    scope: str

    @classmethod
    def to(cls, service: Service, tool: str = "") -> "DraftedConsent":
        current = service.definitions.filter(is_current=True)
        covered = current.filter(name=tool) if tool else current
        return cls(
            service=service.name,
            endpoint=service.endpoint,
            definitions=frozenset(covered.values_list("hash", flat=True)),
            scope=Consent.Scope.TOOL if tool else Consent.Scope.SERVICE,
        )

    def of(self, person_id: int) -> rules.Consent:
        return rules.Consent(
            person_id=person_id,
            service=self.service,
            endpoint=self.endpoint,
            definition_hashes=self.definitions,
            scope=self.scope,
        )
