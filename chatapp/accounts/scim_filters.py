"""Filters of SCIM (RFC 7644, 3.4.2.2) as conditions of a query, for the attributes that directories
look up."""

from collections.abc import Callable
from functools import reduce
from operator import and_, or_
from typing import Any

from django.db.models import Q
from scim2_models import InvalidFilterException
from scim2_models.path import CompareOperator, LogicalOperator
from scim2_models.path.visitor import FilterVisitor

from mcpconfig.values.numbers import read_number
from mcpconfig.values.results import make_storable

# The field behind each attribute, and whether it is compared as it is written.
Fields = dict[str, tuple[str, bool]]
USER_FIELDS: Fields = {
    "id": ("pk", True),
    "externalid": ("directory_account__external_id", True),
    "username": ("username", False),
    "name.familyname": ("last_name", False),
    "name.givenname": ("first_name", False),
    "emails": ("email", False),
    "emails.value": ("email", False),
    "active": ("is_active", True),
}
GROUP_FIELDS: Fields = {
    "id": ("pk", True),
    "externalid": ("external_id", True),
    "displayname": ("display_name", False),
    "members": ("members", True),
    "members.value": ("members", True),
}
NUMBERS = ("pk", "members")
TEXT_LOOKUPS = {
    CompareOperator.eq: "exact",
    CompareOperator.co: "contains",
    CompareOperator.sw: "startswith",
    CompareOperator.ew: "endswith",
}
NOTHING = Q(pk__in=())
# A directory would take the account of somebody who typed another person's address for theirs.
FROM_DIRECTORY = Q(is_email_self_given=False)


class _Conditions(FilterVisitor[Q]):
    def __init__(self, fields: Fields) -> None:
        self._fields = fields

    def visit_comparison(self, node: Any) -> Q:
        field, is_exact = self._find(node.attr_path)
        if node.op == CompareOperator.ne:
            return ~self._compare(field, is_exact, CompareOperator.eq, node.value)
        return self._compare(field, is_exact, node.op, node.value)

    def visit_present(self, node: Any) -> Q:
        field, _is_exact = self._find(node.attr_path)
        if field == "email":
            return ~Q(email="") & FROM_DIRECTORY
        is_text = field not in NUMBERS and field != "is_active"
        return ~Q(**{field: ""}) if is_text else Q(**{f"{field}__isnull": False})

    def visit_not(self, node: Any) -> Q:
        return ~self.visit(node.expr)

    def visit_logical_expr(self, node: Any) -> Q:
        join: Callable[[Q, Q], Q] = and_ if node.op == LogicalOperator.and_ else or_
        return reduce(join, (self.visit(term) for term in node.terms))

    def visit_value_path(self, node: Any) -> Q:
        raise InvalidFilterException(detail="A filter of entries in brackets is not supported.")

    def _find(self, path: Any) -> tuple[str, bool]:
        name = f"{path.attr}.{path.sub_attr}" if path.sub_attr else path.attr
        found = self._fields.get(name.lower())
        if found is None:
            raise InvalidFilterException(detail=f"Filters by {name} are not supported.")
        return found

    def _compare(self, field: str, is_exact: bool, op: Any, value: Any) -> Q:
        if field == "is_active":
            return Q(is_active=str(value).lower() == "true")
        if field in NUMBERS:
            if op != CompareOperator.eq:
                raise InvalidFilterException(detail=f"The operator {op} is not supported here.")
            number = read_number(str(value))
            return NOTHING if number is None else Q(**{field: number})
        lookup = TEXT_LOOKUPS.get(op)
        if lookup is None or not isinstance(value, str):
            raise InvalidFilterException(detail=f"The operator {op} is not supported here.")
        if make_storable(value) != value:
            return NOTHING
        found = Q(**{f"{field}__{lookup if is_exact else 'i' + lookup}": value})
        return found & FROM_DIRECTORY if field == "email" else found


def build_condition(text: Any, fields: Fields) -> Q:
    """Return the condition of a parsed filter. Raises InvalidFilterException."""
    return _Conditions(fields).visit(text.ast) if text else Q()
