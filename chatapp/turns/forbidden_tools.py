"""The tools that an admin's rules forbid to a person in any case: no model is offered them, and no
person is shown them as something to use."""

from collections.abc import Collection, Mapping
from dataclasses import replace

from chatapp.models import Member, PolicyRule
from chatapp.permissions.forbidden import forbidden_among
from chatapp.permissions.rules import AdminRule
from chatapp.tools.catalogue import Catalogue, CatalogueTool, known_catalogue
from chatapp.tools.mentionable import NOTHING, Unmentionable

from .policy import admin_rules, facts_of

FORBIDDEN = "forbidden to you by an admin’s rule"


def without_forbidden(catalogue: Catalogue, person: Member) -> Catalogue:
    """The catalogue without them. They stay known, so that a call of one is refused by the rule,
    with the words that an admin wrote for it."""
    rules = _denials()
    if not rules:
        return catalogue
    known = {**catalogue.withheld, **catalogue.tools}
    names = forbidden_among(known, rules, facts_of(person))
    return replace(
        catalogue,
        tools=_without(catalogue.tools, names),
        withheld=_without(catalogue.withheld, names),
        forbidden={name: known[name] for name in sorted(names)},
    )


def unmentionable(person: Member) -> Unmentionable:
    """What `@` does not offer to this person, although it is there."""
    if not _denials():
        return NOTHING
    catalogue = without_forbidden(known_catalogue(person), person)
    forbidden = catalogue.forbidden.values()
    usable = (*catalogue.tools.values(), *catalogue.withheld.values())
    return Unmentionable(
        definitions={tool.definition_id for tool in forbidden},
        services={tool.service_id for tool in forbidden} - {tool.service_id for tool in usable},
    )


def _denials() -> list[AdminRule]:
    return admin_rules(PolicyRule.objects.filter(effect=PolicyRule.Effect.DENY, condition=""))


def _without(
    tools: Mapping[str, CatalogueTool], names: Collection[str]
) -> dict[str, CatalogueTool]:
    return {name: tool for name, tool in tools.items() if name not in names}
