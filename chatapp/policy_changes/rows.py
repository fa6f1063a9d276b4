"""Rows of the policy as plain values, and values as rows that need not be stored."""

from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, Self, cast

from django.contrib.auth.models import Group
from django.db.models import Model
from django.utils.translation import gettext as _

from chatapp.models import HousePolicy, Member, PolicyEdit, PolicyRule, SecondSignature, ToolLimit
from chatapp.policy.policy_set import PolicySet
from chatapp.policy.stored_policy import build_demand, build_house, build_limit, build_rule
from mcpconfig.models import Service

Kind = PolicyEdit.Kind
Values = dict[str, Any]
Key = tuple[str, int]
MODELS: dict[str, type[Model]] = {
    Kind.SECOND: SecondSignature,
    Kind.HOUSE: HousePolicy,
    Kind.RULE: PolicyRule,
    Kind.LIMIT: ToolLimit,
}
KINDS = {model: Kind(kind) for kind, model in MODELS.items()}
GROUPS: dict[str, str] = {Kind.RULE: "groups", Kind.HOUSE: "adding_groups"}
HOUSE_ID = 1
HOUSE_KEY = (Kind.HOUSE, HOUSE_ID)
# For whom automatic opinions are counted. It is empty after that admin's account is deleted.
PAYER = "opinions_paid_by_id"


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyRow:
    """A stored or drafted row. `gone` names the services, groups and requirements that its values
    name and that no longer exist; the row has a stand-in for each."""

    kind: str
    row: Any
    groups: tuple[Group, ...]
    values: Values
    gone: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """Return how a sentence names the row."""
        if self.kind == Kind.HOUSE:
            return str(Kind.HOUSE.label)
        return _("%(kind)s “%(name)s”") % {"kind": Kind(self.kind).label, "name": self.row}


def read_values(row: Model, groups: Iterable[Group] | None = None) -> Values:
    """Return the values of the row as JSON. `groups` are those of a row that is not stored."""
    fields = row._meta.concrete_fields
    values = {
        field.attname: getattr(row, field.attname)
        for field in fields
        if not field.primary_key and not getattr(field, "auto_now", False)
    }
    if name := GROUPS.get(KINDS[type(row)]):
        of_row = getattr(row, name).all() if groups is None else groups
        values[name] = sorted(group.pk for group in of_row)
    return values


def are_equal(stored: Values | None, values: Values | None) -> bool:
    """Return whether a row has these values. A field that a later version added does not count,
    nor does who pays for opinions."""
    if stored is None or values is None:
        return stored is values
    return all(stored.get(name) == value for name, value in values.items() if name != PAYER)


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyRows:
    """All rows of the policy, by kind and id."""

    rows: Mapping[Key, PolicyRow]

    @classmethod
    def load(cls) -> Self:
        """Load them in six statements."""
        seconds = SecondSignature.objects.select_related("approvers", "escalation")
        rules = PolicyRule.objects.select_related("service", "second").prefetch_related("groups")
        limits = ToolLimit.objects.select_related("service", "group")
        stored: list[Any] = [*seconds, HousePolicy.current(), *rules, *limits]
        rows = [_build_stored(row) for row in stored]
        return cls(rows={(each.kind, each.row.pk): each for each in rows})

    @property
    def values(self) -> dict[str, Values]:
        return {f"{kind} {pk}": each.values for (kind, pk), each in self.rows.items()}

    @property
    def policy_set(self) -> PolicySet:
        """Return the policy that decides. A rule needs the second approval as these rows have
        it."""
        of_kind = self._list_kind
        demands = {each.row.pk: build_demand(each.row) for each in of_kind(Kind.SECOND)}
        rules = (
            replace(
                build_rule(each.row, each.groups),
                demand=demands.get(each.row.second_id) if each.row.second_id else None,
            )
            for each in of_kind(Kind.RULE)
            if each.row.is_enabled
        )
        limits = (build_limit(each.row) for each in of_kind(Kind.LIMIT))
        return PolicySet(house=build_house(self._find_house()), rules=(*rules, *limits))

    def _find_house(self) -> HousePolicy:
        house = copy(self.rows[HOUSE_KEY].row)
        for name in ("medium_needs", "high_needs"):
            second = self.rows.get((Kind.SECOND, getattr(house, f"{name}_id") or 0))
            setattr(house, name, second.row if second else None)
        return cast(HousePolicy, house)

    def _list_kind(self, kind: str) -> list[PolicyRow]:
        return [each for each in self.rows.values() if each.kind == kind]


def _build_stored(row: Any) -> PolicyRow:
    kind = KINDS[type(row)]
    groups = tuple(getattr(row, GROUPS[kind]).all()) if kind in GROUPS else ()
    return PolicyRow(kind=kind, row=row, groups=groups, values=read_values(row, groups))


# --- rows that are not stored ------------------------------------------------------------------
@dataclass(frozen=True, slots=True, kw_only=True)
class References:
    """What the values of some rows name, loaded in four statements."""

    found: Mapping[type[Model], Mapping[int, Any]]

    @classmethod
    def load(cls, values: Sequence[tuple[str, Values]]) -> Self:
        wanted: dict[type[Model], set[int]] = {
            model: set() for model in (Service, Group, SecondSignature, Member)
        }
        for kind, each in values:
            for field in MODELS[kind]._meta.concrete_fields:
                pk = each.get(field.attname) if field.is_relation else None
                if pk is not None:
                    wanted[cast(type[Model], field.related_model)].add(pk)
            wanted[Group].update(each.get(GROUPS.get(kind, ""), ()))
        return cls(
            found={model: model._default_manager.in_bulk(ids) for model, ids in wanted.items()}
        )

    def build(self, kind: str, row_id: int | None, values: Values) -> PolicyRow:
        """Return a row with these values. It is not stored."""
        gone: list[str] = []
        row: Any = MODELS[kind](pk=row_id)
        for field in row._meta.concrete_fields:
            if field.attname not in values:
                continue
            value = values[field.attname]
            if field.attname == PAYER:
                row.opinions_paid_by = self.found[Member].get(value)
            elif field.is_relation and value is not None:
                setattr(row, field.name, self._find(field.related_model, value, gone))
            else:
                setattr(row, field.attname, value)
        groups = tuple(self._find(Group, pk, gone) for pk in values.get(GROUPS.get(kind, ""), ()))
        return PolicyRow(kind=kind, row=row, groups=groups, values=values, gone=tuple(gone))

    def _find(self, model: Any, pk: int, gone: list[str]) -> Any:
        found = self.found[model].get(pk)
        if found is None:
            name = _("deleted %(kind)s %(id)s") % {"kind": model._meta.verbose_name, "id": pk}
            gone.append(name)
            return model(pk=pk, name=name)
        return found
