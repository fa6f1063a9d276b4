"""Drafts of a policy: rules, limits and the policy for everybody that are not stored, and
consents that nobody has given."""

from collections.abc import Iterable
from dataclasses import dataclass

from django.contrib.auth.models import Group

from chatapp.models import Consent, HousePolicy, PolicyRule, ToolLimit
from chatapp.permissions import rules
from chatapp.policy.policy_set import PolicySet
from chatapp.policy.stored_policy import build_house, build_limit, build_rule
from mcpconfig.models import Service


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftedConsent:
    """A consent to a tool of a service, or to all its tools, as if every person had given it."""

    service: str
    endpoint: str
    definitions: frozenset[str]
    scope: str

    @classmethod
    def for_tool(cls, service: Service, tool: str = "") -> "DraftedConsent":
        current = service.definitions.filter(is_current=True)
        covered = current.filter(name=tool) if tool else current
        return cls(
            service=service.name,
            endpoint=service.endpoint,
            definitions=frozenset(covered.values_list("hash", flat=True)),
            scope=Consent.Scope.TOOL if tool else Consent.Scope.SERVICE,
        )

    def build_for(self, person_id: int) -> rules.Consent:
        return rules.Consent(
            person_id=person_id,
            service=self.service,
            endpoint=self.endpoint,
            definition_hashes=self.definitions,
            scope=self.scope,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftedRule:
    """A rule that is not stored. Its row cannot have groups yet."""

    row: PolicyRule
    groups: Iterable[Group]


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """Rows that may or may not be stored. `allowed` counts as given by everybody."""

    house: HousePolicy
    rules: Iterable[PolicyRule]
    limits: Iterable[ToolLimit]
    allowed: DraftedConsent | None = None
    rule: DraftedRule | None = None

    @property
    def policy_set(self) -> PolicySet:
        rules = [build_rule(row, row.groups.all()) for row in self.rules]
        if self.rule is not None:
            rules.append(build_rule(self.rule.row, self.rule.groups))
        limits = (build_limit(row) for row in self.limits)
        return PolicySet(house=build_house(self.house), rules=(*rules, *limits))
