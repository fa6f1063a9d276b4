"""All that admins said in advance, as one value: what is stored, or a draft of it."""

from dataclasses import dataclass, replace
from typing import Self

from chatapp.models import HousePolicy, PolicyRule, ToolLimit
from chatapp.permissions.rules import AdminRule, DailyLimit, House

from .policy import house_of, limit_of, rule_of


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminsWord:
    """The policy for everybody, with the rules and limits that count."""

    house: House
    rules: tuple[AdminRule | DailyLimit, ...] = ()

    def with_rule(self, rule: AdminRule | DailyLimit) -> Self:
        return replace(self, rules=(*self.rules, rule))

    def without_rule(self, rule_id: int) -> Self:
        kept = (rule for rule in self.rules if getattr(rule, "id", None) != rule_id)
        return replace(self, rules=tuple(kept))

    def with_house(self, house: House) -> Self:
        return replace(self, house=house)


def stored_word(*, but: PolicyRule | ToolLimit | None = None) -> AdminsWord:
    """What is stored and switched on, as if the row `but` were not there."""
    rules = PolicyRule.objects.filter(is_enabled=True).select_related("service", "second")
    limits = ToolLimit.objects.select_related("service")
    if isinstance(but, PolicyRule):
        rules = rules.exclude(pk=but.pk)
    elif but is not None:
        limits = limits.exclude(pk=but.pk)
    return AdminsWord(
        house=house_of(HousePolicy.current()),
        rules=(
            *(rule_of(row, row.groups.all()) for row in rules.prefetch_related("groups")),
            *(limit_of(row) for row in limits),
        ),
    )
