"""A policy that is not stored: which rules and limits would count, what would hold for everybody,
and what people would have allowed in advance."""

from collections.abc import Iterable
from dataclasses import dataclass

from django.contrib.auth.models import Group

from chatapp.models import HousePolicy, PolicyRule, ToolLimit

from .admins_word import AdminsWord
from .drafted_consents import DraftedConsent
from .policy import house_of, limit_of, rule_of


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftedRule:
    """A rule that is not stored: its row cannot hold its groups yet."""

    row: PolicyRule
    groups: Iterable[Group]


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """Rows that are stored or not. `allowed` is as if everybody had given it."""

    house: HousePolicy
    rules: Iterable[PolicyRule]
    limits: Iterable[ToolLimit]
    allowed: DraftedConsent | None = None
    rule: DraftedRule | None = None

    @property
    def word(self) -> AdminsWord:
        rules = [rule_of(row, row.groups.all()) for row in self.rules]
        if self.rule is not None:
            rules.append(rule_of(self.rule.row, self.rule.groups))
        limits = (limit_of(row) for row in self.limits)
        return AdminsWord(house=house_of(self.house), rules=(*rules, *limits))
