"""The options of `policy simulate`: the past calls and the draft of a policy.

They have the same fields as the simulator page of the admin.
"""

from argparse import ArgumentParser, BooleanOptionalAction
from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

from django.contrib.auth.models import Group
from django.db.models import Model, QuerySet
from django.utils.translation import gettext as _

from chatapp.models import HousePolicy, Member, PolicyRule, SecondSignature, ToolLimit
from chatapp.permissions.hosts import BadHost, read_pattern, read_stored_patterns
from chatapp.permissions.lazy import conditions
from chatapp.permissions.risk_evidence import LEVELS
from chatapp.policy.condition_names import check_names
from chatapp.simulation.drafts import Draft, DraftedConsent, DraftedRule
from chatapp.simulation.past_calls import Scope
from chatapp.tools.core import CORE_TOOLS
from mcpconfig.management.failures import Failure
from mcpconfig.models import Service

Options = Mapping[str, Any]
Row = TypeVar("Row", bound=Model)
NO_VALUE = "nothing"
WIDEST = [str(choice) for choice in HousePolicy.WidestConsent.values]
EFFECTS = [str(choice) for choice in PolicyRule.Effect.values]
REPEATED: dict[str, Any] = {"action": "append", "default": []}
IDS: dict[str, Any] = {"type": int, **REPEATED}
RULE_OPTIONS = ("tool", "service", "own", "group", "risk", "condition", "second")


def describe_options() -> dict[str, tuple[tuple[str, dict[str, Any]], ...]]:
    """Return the options by the titles of their groups."""
    second = _("the second approval that this risk requires, or “%(none)s”") % {"none": NO_VALUE}
    return {
        _("which past calls"): (
            (
                "--days",
                {"type": int, "default": 30, "metavar": "N", "help": _("how many days back")},
            ),
            ("--person", {"metavar": "NAME", "help": _("only calls by this person")}),
            ("--service", {"metavar": "NAME", "help": _("only calls of this service")}),
        ),
        _("current rules and limits"): (
            ("--with", {"metavar": "RULE", "help": _("apply this rule, though it is off"), **IDS}),
            ("--without", {"metavar": "RULE", "help": _("leave this rule out"), **IDS}),
            ("--without-limit", {"metavar": "LIMIT", "help": _("leave this limit out"), **IDS}),
        ),
        _("one more rule, which is not stored"): (
            ("--rule", {"choices": EFFECTS, "help": _("its effect")}),
            ("--rule-tool", {"metavar": "TOOL"}),
            ("--rule-service", {"metavar": "NAME"}),
            ("--rule-own", {"action": "store_true", "help": _("only built-in tools")}),
            (
                "--rule-group",
                {"metavar": "GROUP", "help": _("only for members of this group"), **REPEATED},
            ),
            ("--rule-risk", {"choices": LEVELS, "help": _("only for this risk"), **REPEATED}),
            (
                "--rule-condition",
                {"metavar": "TEXT", "help": _("a condition on the arguments of a call")},
            ),
            (
                "--rule-second",
                {"metavar": "NAME", "help": _("the second approval that it requires")},
            ),
        ),
        _("one more limit, which is not stored"): (
            ("--limit", {"type": int, "metavar": "CALLS", "help": _("calls per day")}),
            ("--limit-tool", {"metavar": "TOOL"}),
            ("--limit-service", {"metavar": "NAME"}),
            ("--limit-own", {"action": "store_true", "help": _("only built-in tools")}),
            ("--limit-group", {"metavar": "GROUP", "help": _("only for members of this group")}),
        ),
        _("policy for everybody"): (
            ("--runs-up-to", {"choices": [NO_VALUE, "low", "medium"]}),
            ("--medium-needs", {"metavar": "NAME", "help": second}),
            ("--high-needs", {"metavar": "NAME", "help": second}),
            ("--asks-everything", {"action": BooleanOptionalAction}),
            ("--allowed-host", {"metavar": "HOST", "help": _("one more allowed host"), **REPEATED}),
            ("--without-host", {"metavar": "HOST", "help": _("leave this host out"), **REPEATED}),
        ),
        _("what people allow in advance"): (
            ("--widest-consent", {"choices": WIDEST}),
            ("--consents-to-high", {"action": BooleanOptionalAction}),
            (
                "--allowed-service",
                {"metavar": "NAME", "help": _("as if everybody had allowed this service")},
            ),
            ("--allowed-tool", {"metavar": "TOOL", "help": _("or only this one of its tools")}),
        ),
    }


def add_options(parser: ArgumentParser) -> None:
    for title, options in describe_options().items():
        group = parser.add_argument_group(title)
        for flag, arguments in options:
            group.add_argument(flag, **arguments)


def build_scope(options: Options) -> Scope:
    if options["days"] < 1:
        raise Failure("refused", _("--days must be 1 or more."))
    return Scope(
        days=options["days"],
        person=_get_by_name(Member.objects.all(), "username", options["person"]),
        service=_get_by_name(Service.objects.all(), "name", options["service"]),
    )


def build_draft(options: Options) -> Draft:
    """Return the stored policy with the changes from the options."""
    return Draft(
        house=_build_house_policy(options),
        rules=_list_rules(options),
        limits=[*_list_limits(options), *_build_limits(options)],
        allowed=_build_consent(options),
        rule=_build_rule(options),
    )


def _build_house_policy(options: Options) -> HousePolicy:
    house = HousePolicy.current()
    if (level := options["runs_up_to"]) is not None:
        house.runs_up_to = "" if level == NO_VALUE else level
    for name in ("asks_everything", "widest_consent", "consents_to_high"):
        if options[name] is not None:
            setattr(house, name, options[name])
    for name in ("medium_needs", "high_needs"):
        if (second := options[name]) is not None:
            setattr(house, name, None if second == NO_VALUE else _get_second_signature(second))
    house.allowed_hosts = "\n".join(_list_allowed_hosts(house, options))
    return house


def _list_allowed_hosts(house: HousePolicy, options: Options) -> set[str]:
    try:
        stored = set(read_stored_patterns(house.allowed_hosts))
        added = {read_pattern(line) for line in options["allowed_host"]}
        left_out = {read_pattern(line) for line in options["without_host"]}
    except BadHost as error:
        raise Failure("refused", str(error)) from error
    for host in sorted(left_out - stored):
        raise Failure("not_found", _("There is no allowed host “%(host)s”.") % {"host": host})
    return (stored | added) - left_out


def _get_second_signature(name: str | None) -> SecondSignature | None:
    return _get_by_name(SecondSignature.objects.all(), "name", name)


def _list_rules(options: Options) -> list[PolicyRule]:
    rows = PolicyRule.objects.select_related("service", "second").prefetch_related("groups")
    rows_by_id = {row.pk: row for row in rows}
    for rule_id in (*options["with"], *options["without"]):
        if rule_id not in rows_by_id:
            raise Failure("not_found", _("There is no rule %(id)s.") % {"id": rule_id})
    included = {row.pk for row in rows if row.is_enabled} - set(options["without"])
    included |= set(options["with"])
    return [row for row in rows if row.pk in included]


def _build_rule(options: Options) -> DraftedRule | None:
    values = {name: options[f"rule_{name}"] for name in RULE_OPTIONS}
    effect, second = options["rule"], _get_second_signature(values["second"])
    if effect is None and any(values.values()):
        raise Failure("refused", _("--rule is required with other --rule options."))
    if effect is None:
        return None
    if second is not None and effect != PolicyRule.Effect.ASK:
        raise Failure("refused", _("Only a rule that asks can require a second approval."))
    groups = [_get_by_name(Group.objects.all(), "name", name) for name in values["group"]]
    row = PolicyRule(
        effect=effect,
        tool=values["tool"] or "",
        service=_get_by_name(Service.objects.all(), "name", values["service"]),
        is_core=values["own"],
        levels=values["risk"],
        condition=values["condition"] or "",
        second=second,
    )
    _check_owner("rule", row)
    _check_condition(row)
    return DraftedRule(row=row, groups=[group for group in groups if group is not None])


def _check_condition(row: PolicyRule) -> None:
    if not row.condition:
        return
    try:
        conditions.check_condition(row.condition)
        check_names(row.condition, service=row.service, tool=row.tool, is_core=row.is_core)
    except conditions.BadCondition as error:
        raise Failure("refused", f"--rule-condition: {error.message}") from error


def _check_owner(option: str, row: PolicyRule | ToolLimit) -> None:
    if row.is_core and row.service:
        raise Failure(
            "refused",
            _("Use either %(own)s or %(service)s.")
            % {"own": f"--{option}-own", "service": f"--{option}-service"},
        )
    if row.is_core and row.tool and row.tool not in CORE_TOOLS:
        raise Failure("not_found", _("There is no built-in tool “%(tool)s”.") % {"tool": row.tool})


def _list_limits(options: Options) -> list[ToolLimit]:
    rows = {row.pk: row for row in ToolLimit.objects.select_related("service")}
    for limit_id in options["without_limit"]:
        if rows.pop(limit_id, None) is None:
            raise Failure("not_found", _("There is no limit %(id)s.") % {"id": limit_id})
    return list(rows.values())


def _build_limits(options: Options) -> Iterator[ToolLimit]:
    tool, is_core = options["limit_tool"] or "", options["limit_own"]
    service = _get_by_name(Service.objects.all(), "name", options["limit_service"])
    group = _get_by_name(Group.objects.all(), "name", options["limit_group"])
    calls = options["limit"]
    if calls is None and (tool or is_core or service or group):
        raise Failure("refused", _("--limit is required with other --limit options."))
    if calls is not None and calls < 0:
        raise Failure("refused", _("--limit must be 0 or more."))
    if calls is not None:
        limit = ToolLimit(calls=calls, tool=tool, is_core=is_core, service=service, group=group)
        _check_owner("limit", limit)
        yield limit


def _build_consent(options: Options) -> DraftedConsent | None:
    service = _get_by_name(Service.objects.all(), "name", options["allowed_service"])
    tool = options["allowed_tool"] or ""
    if service is None and tool:
        raise Failure("refused", _("--allowed-tool needs --allowed-service."))
    return DraftedConsent.for_tool(service, tool) if service else None


def _get_by_name(rows: QuerySet[Row], field: str, name: str | None) -> Row | None:
    """Return the row with this name. Return None if `name` is None."""
    if name is None:
        return None
    row = rows.filter(**{field: name}).first()
    if row is None:
        model_name = rows.model._meta.verbose_name
        raise Failure(
            "not_found",
            _("Not found: %(kind)s “%(name)s”.") % {"kind": model_name, "name": name},
        )
    return row
