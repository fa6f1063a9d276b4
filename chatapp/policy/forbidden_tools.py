"""The tools that an admin's rules forbid to a person for all arguments: they are neither offered
to a model nor shown as usable."""

from collections.abc import Collection, Mapping
from dataclasses import replace

from django.db.models import QuerySet
from django.utils.translation import gettext_lazy

from chatapp.models import Member, PolicyRule
from chatapp.permissions.forbidden import find_forbidden
from chatapp.permissions.rules import AdminRule
from chatapp.server.compiled_queries import compiled
from chatapp.tools.catalogue import Catalogue, CatalogueTool, load_known_catalogue
from chatapp.tools.mentions import NOTHING_HIDDEN, HiddenTools

from .stored_policy import build_person_facts, load_admin_rules

FORBIDDEN = gettext_lazy("blocked for you by an admin’s rule")


def remove_forbidden(catalogue: Catalogue, person: Member) -> Catalogue:
    """Return the catalogue without the forbidden tools. They stay known, so that the rule
    refuses a call of one with the admin's note."""
    known = {**catalogue.withheld, **catalogue.tools}
    if not known or catalogue.has_denials is False or not (rules := _load_denials()):
        return catalogue
    names = find_forbidden(known, rules, build_person_facts(person))
    return replace(
        catalogue,
        tools=_remove(catalogue.tools, names),
        withheld=_remove(catalogue.withheld, names),
        forbidden={name: known[name] for name in sorted(names)},
    )


def find_hidden_tools(person: Member) -> HiddenTools:
    """Return what `@` does not suggest to this person although it exists."""
    if not _load_denials():
        return NOTHING_HIDDEN
    catalogue = remove_forbidden(load_known_catalogue(person), person)
    forbidden = catalogue.forbidden.values()
    usable = (*catalogue.tools.values(), *catalogue.withheld.values())
    return HiddenTools(
        definitions={tool.definition_id for tool in forbidden},
        services={tool.service_id for tool in forbidden} - {tool.service_id for tool in usable},
    )


def _load_denials() -> list[AdminRule]:
    if not _find_denial():
        return []
    return load_admin_rules(PolicyRule.objects.deny_tools())


@compiled
def _find_denial() -> QuerySet[PolicyRule, int]:
    return PolicyRule.objects.deny_tools().values_list("pk", flat=True)[:1]


def _remove(tools: Mapping[str, CatalogueTool], names: Collection[str]) -> dict[str, CatalogueTool]:
    return {name: tool for name, tool in tools.items() if name not in names}
