"""The whole policy of the admins as one value: the stored one or a draft."""

from dataclasses import dataclass, replace
from typing import Self

from chatapp.models import HousePolicy, PolicyRule, ToolLimit
from chatapp.permissions.rules import AdminRule, DailyLimit, House

from .stored_policy import build_house, build_limit, build_rule


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicySet:
    """The policy for everybody, with the rules and limits in force."""

    house: House
    rules: tuple[AdminRule | DailyLimit, ...] = ()

    def with_rule(self, rule: AdminRule | DailyLimit) -> Self:
        return replace(self, rules=(*self.rules, rule))

    def without_rule(self, rule_id: int) -> Self:
        kept = (rule for rule in self.rules if getattr(rule, "id", None) != rule_id)
        return replace(self, rules=tuple(kept))

    def with_house(self, house: House) -> Self:
        return replace(self, house=house)


def load_policy_set(*, but: PolicyRule | ToolLimit | None = None) -> PolicySet:
    """Load the policy in force, without the row `but`."""
    rules = PolicyRule.objects.filter(is_enabled=True).select_related("service", "second")
    limits = ToolLimit.objects.select_related("service")
    if isinstance(but, PolicyRule):
        rules = rules.exclude(pk=but.pk)
    elif but is not None:
        limits = limits.exclude(pk=but.pk)
    return PolicySet(
        house=build_house(HousePolicy.current()),
        rules=(
            *(build_rule(row, row.groups.all()) for row in rules.prefetch_related("groups")),
            *(build_limit(row) for row in limits),
        ),
    )
