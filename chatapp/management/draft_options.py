"""The options of `policy simulate`: which past to try, and the draft to try on it. They say all
that the page *Simulator* does."""

from argparse import ArgumentParser, BooleanOptionalAction
from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

from django.contrib.auth.models import Group
from django.db.models import Model, QuerySet

from chatapp.models import HousePolicy, Member, PolicyRule, SecondSignature, ToolLimit
from chatapp.permissions import conditions
from chatapp.permissions.findings import LEVELS
from chatapp.tools.core import CORE_TOOLS
from chatapp.turns.drafted_consents import DraftedConsent
from chatapp.turns.past_facts import Scope
from chatapp.turns.policy_drafts import Draft, DraftedRule
from mcpconfig.management.failures import Failure
from mcpconfig.models import Service

Options = Mapping[str, Any]
Row = TypeVar("Row", bound=Model)
NOTHING = "nothing"
WIDEST = [str(choice) for choice in HousePolicy.WidestConsent.values]
EFFECTS = [str(choice) for choice in PolicyRule.Effect.values]
EACH: dict[str, Any] = {"action": "append", "default": []}
SECOND = f"the second signature that this risk demands, or {NOTHING}"
IDS: dict[str, Any] = {"type": int, **EACH}
OPTIONS: dict[str, tuple[tuple[str, dict[str, Any]], ...]] = {
    "which past": (
        ("--days", {"type": int, "default": 30, "metavar": "N", "help": "how far back"}),
        ("--person", {"metavar": "NAME", "help": "calls of this person only"}),
        ("--service", {"metavar": "NAME", "help": "calls of this service only"}),
    ),
    "rules and limits that count": (
        ("--with", {"metavar": "RULE", "help": "count this rule, though off", **IDS}),
        ("--without", {"metavar": "RULE", "help": "leave this rule out", **IDS}),
        ("--without-limit", {"metavar": "LIMIT", "help": "leave this limit out", **IDS}),
    ),
    "one more rule, which is not stored": (
        ("--rule", {"choices": EFFECTS, "help": "what it says"}),
        ("--rule-tool", {"metavar": "TOOL"}),
        ("--rule-service", {"metavar": "NAME"}),
        ("--rule-own", {"action": "store_true", "help": "only Countersign's own tools"}),
        ("--rule-group", {"metavar": "GROUP", "help": "of its members", **EACH}),
        ("--rule-risk", {"choices": LEVELS, "help": "only of this risk", **EACH}),
        ("--rule-condition", {"metavar": "TEXT", "help": "on the values of a call"}),
        ("--rule-second", {"metavar": "NAME", "help": "the second signature that it demands"}),
    ),
    "one more limit, which is not stored": (
        ("--limit", {"type": int, "metavar": "CALLS", "help": "calls a day"}),
        ("--limit-tool", {"metavar": "TOOL"}),
        ("--limit-service", {"metavar": "NAME"}),
        ("--limit-own", {"action": "store_true", "help": "only Countersign's own tools"}),
        ("--limit-group", {"metavar": "GROUP", "help": "by its members"}),
    ),
    "what holds for everybody": (
        ("--runs-up-to", {"choices": [NOTHING, "low", "medium"]}),
        ("--medium-needs", {"metavar": "NAME", "help": SECOND}),
        ("--high-needs", {"metavar": "NAME", "help": SECOND}),
        ("--asks-everything", {"action": BooleanOptionalAction}),
    ),
    "what people allow in advance": (
        ("--widest-consent", {"choices": WIDEST}),
        ("--consents-to-high", {"action": BooleanOptionalAction}),
        ("--allowed-service", {"metavar": "NAME", "help": "as if everybody had allowed it"}),
        ("--allowed-tool", {"metavar": "TOOL", "help": "or this one of its tools"}),
    ),
}
OF_A_RULE = ("tool", "service", "own", "group", "risk", "condition", "second")


def add_options(parser: ArgumentParser) -> None:
    for title, options in OPTIONS.items():
        group = parser.add_argument_group(title)
        for flag, how in options:
            group.add_argument(flag, **how)


def scope_of(options: Options) -> Scope:
    if options["days"] < 1:
        raise Failure("refused", "--days takes a number from 1 on.")
    return Scope(
        days=options["days"],
        person=_named(Member.objects.all(), "username", options["person"]),
        service=_named(Service.objects.all(), "name", options["service"]),
    )


def draft_of(options: Options) -> Draft:
    """What is stored, but for what the options say."""
    return Draft(
        house=_house(options),
        rules=_rules(options),
        limits=[*_stored_limits(options), *_new_limit(options)],
        allowed=_allowed(options),
        rule=_new_rule(options),
    )


def _house(options: Options) -> HousePolicy:
    house = HousePolicy.current()
    if (level := options["runs_up_to"]) is not None:
        house.runs_up_to = "" if level == NOTHING else level
    for name in ("asks_everything", "widest_consent", "consents_to_high"):
        if options[name] is not None:
            setattr(house, name, options[name])
    for name in ("medium_needs", "high_needs"):
        if (second := options[name]) is not None:
            setattr(house, name, None if second == NOTHING else _second(second))
    return house


def _second(name: str | None) -> SecondSignature | None:
    return _named(SecondSignature.objects.all(), "name", name)


def _rules(options: Options) -> list[PolicyRule]:
    rows = PolicyRule.objects.select_related("service", "second").prefetch_related("groups")
    known = {row.pk: row for row in rows}
    for rule_id in (*options["with"], *options["without"]):
        if rule_id not in known:
            raise Failure("not_found", f"There is no rule {rule_id}.")
    counting = {row.pk for row in rows if row.is_enabled} - set(options["without"])
    counting |= set(options["with"])
    return [row for row in rows if row.pk in counting]


def _new_rule(options: Options) -> DraftedRule | None:
    typed = {name: options[f"rule_{name}"] for name in OF_A_RULE}
    effect, second = options["rule"], _second(typed["second"])
    if effect is None and any(typed.values()):
        raise Failure("refused", "--rule says what the rule says.")
    if effect is None:
        return None
    if second is not None and effect != PolicyRule.Effect.ASK:
        raise Failure("refused", "Only a rule that asks can demand a second signature.")
    groups = [_named(Group.objects.all(), "name", name) for name in typed["group"]]
    row = PolicyRule(
        effect=effect,
        tool=typed["tool"] or "",
        service=_named(Service.objects.all(), "name", typed["service"]),
        is_core=typed["own"],
        levels=typed["risk"],
        condition=_condition(typed["condition"] or ""),
        second=second,
    )
    _check_whose("rule", row)
    return DraftedRule(row=row, groups=[group for group in groups if group is not None])


def _condition(text: str) -> str:
    try:
        if text:
            conditions.check(text)
    except conditions.BadCondition as error:
        raise Failure("refused", f"--rule-condition: {error.message}") from error
    return text


def _check_whose(option: str, row: PolicyRule | ToolLimit) -> None:
    if row.is_core and row.service:
        raise Failure("refused", f"--{option}-own and --{option}-service do not go together.")
    if row.is_core and row.tool and row.tool not in CORE_TOOLS:
        raise Failure("not_found", f"Countersign has no tool of its own named {row.tool!r}.")


def _stored_limits(options: Options) -> list[ToolLimit]:
    rows = {row.pk: row for row in ToolLimit.objects.select_related("service")}
    for limit_id in options["without_limit"]:
        if rows.pop(limit_id, None) is None:
            raise Failure("not_found", f"There is no limit {limit_id}.")
    return list(rows.values())


def _new_limit(options: Options) -> Iterator[ToolLimit]:
    tool, is_core = options["limit_tool"] or "", options["limit_own"]
    service = _named(Service.objects.all(), "name", options["limit_service"])
    group = _named(Group.objects.all(), "name", options["limit_group"])
    calls = options["limit"]
    if calls is None and (tool or is_core or service or group):
        raise Failure("refused", "--limit says how many calls a day.")
    if calls is not None and calls < 0:
        raise Failure("refused", "--limit takes a number from 0 on.")
    if calls is not None:
        limit = ToolLimit(calls=calls, tool=tool, is_core=is_core, service=service, group=group)
        _check_whose("limit", limit)
        yield limit


def _allowed(options: Options) -> DraftedConsent | None:
    service = _named(Service.objects.all(), "name", options["allowed_service"])
    tool = options["allowed_tool"] or ""
    if service is None and tool:
        raise Failure("refused", "--allowed-service says of which service this tool is.")
    return DraftedConsent.to(service, tool) if service else None


def _named(rows: QuerySet[Row], field: str, name: str | None) -> Row | None:
    """The row of this name; None where none was given."""
    if name is None:
        return None
    found = rows.filter(**{field: name}).first()
    if found is None:
        what = rows.model._meta.verbose_name
        raise Failure("not_found", f"There is no {what} named {name!r}.")
    return found
