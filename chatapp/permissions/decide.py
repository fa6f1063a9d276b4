"""The only place that decides whether a call runs, asks or is refused. It is closed by default."""

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from chatapp.permissions.risk_evidence import LEVELS, Level

from . import reasons
from .destinations import Destination, list_forbidden
from .lazy import conditions
from .risk import Risk
from .rules import (
    AdminRule,
    CallFacts,
    Consent,
    DailyLimit,
    Decision,
    Demand,
    House,
    Mode,
    PersonFacts,
    Rule,
)

logger = logging.getLogger(__name__)

IDENTICAL_CALLS_MAX = 2
MAX_NAMED = 3
MAX_NAME_CHARACTERS = 60
HOUSE = House()


def decide(
    call: CallFacts,
    risk: Risk,
    rules: Sequence[Rule],
    person: PersonFacts,
    mode: Mode = "act",
    house: House = HOUSE,
) -> Decision:
    """Decide about a call. Deny beats ask beats allow; without a rule or a consent, the risk
    decides."""
    try:
        weighed = raise_risk(risk, call)
        said = _list_covering_rules(call, frozenset({risk.level, weighed.level}), rules, person)
        first = next(_list_decisions(call, weighed, said, rules, person, mode, house))
        return _add_demands(first, weighed, house)
    except Exception:
        # Closed by default: if this code fails, a person decides about the call.
        logger.exception("A call could not be decided.")
        problem = _ask(reasons.NO_POLICY)
        return replace(problem, demand=_find_house_demand("high", house))


def raise_risk(risk: Risk, call: CallFacts) -> Risk:
    """Return the risk, one level higher for a call that does more than read after untrusted
    content came into the turn: that content may have instructed the model to make the call."""
    if not call.tainted_by or risk.level == "low":
        return risk
    level = LEVELS[min(LEVELS.index(risk.level) + 1, len(LEVELS) - 1)]
    taint = reasons.TAINTED % {"service": call.tainted_by}
    return Risk(level=level, reasons=(taint, *risk.reasons))


def _list_decisions(
    call: CallFacts,
    risk: Risk,
    said: Sequence[AdminRule],
    rules: Sequence[Rule],
    person: PersonFacts,
    mode: Mode,
    house: House,
) -> Iterator[Decision]:
    """Yield every decision that applies, in order of precedence; the first one counts. `said`
    are the admins' rules that cover the call."""
    if call.obstacle == "disabled":
        yield _deny(reasons.TURNED_OFF)
    yield from (_deny_by_rule(rule) for rule in said if rule.effect == "deny")
    if mode == "plan" and risk.level != "low":
        yield _deny(reasons.NOT_IN_PLAN_MODE)
    yield from _ask_by_rules(call, said, house)
    yield from _ask_in_doubt(call)
    yield from _ask_over_limit(call, rules, person)
    yield from _ask_for_two(risk, said, house)
    yield from _ask_about_destinations(call, said, house)
    yield from _apply_consent(call, risk, rules, person, house)
    yield from (_allow_by_rule(rule) for rule in said if rule.effect == "allow")
    yield _decide_by_risk(risk, house)


def _list_covering_rules(
    call: CallFacts, levels: frozenset[Level], rules: Sequence[Rule], person: PersonFacts
) -> list[AdminRule]:
    """Return the admins' rules that cover a call. `levels` are its own risk and the raised one."""
    admin = [rule for rule in rules if isinstance(rule, AdminRule)]
    admin.sort(key=lambda rule: rule.id or 0)
    return [rule for rule in admin if _covers(rule, call, levels, person)]


def _deny_by_rule(rule: AdminRule) -> Decision:
    return Decision(
        effect="deny", reason=reasons.FORBIDDEN_BY_RULE, note=rule.note, rule_id=rule.id
    )


def _ask_by_rules(call: CallFacts, said: Sequence[AdminRule], house: House) -> Iterator[Decision]:
    """Yield one decision that combines all rules that ask."""
    asking = [rule for rule in said if rule.effect == "ask"]
    if asking:
        yield Decision(
            effect="ask",
            reason=reasons.ASKED_BY_RULE,
            note=" ".join(dict.fromkeys(rule.note for rule in asking if rule.note)),
            rule_id=asking[0].id,
            wants_typing=any(rule.wants_typing for rule in asking),
            demand=_choose_strictest(rule.demand for rule in asking if rule.demand),
        )
    if house.asks_everything:
        yield _ask(reasons.EVERYTHING_ASKS)


def _ask_in_doubt(call: CallFacts) -> Iterator[Decision]:
    """Yield the reasons to ask that no rule and no consent overrides."""
    if call.obstacle == "unreadable":
        yield _ask(reasons.UNREADABLE_ARGUMENTS)
    elif call.obstacle is not None:
        yield _ask(reasons.UNKNOWN_TOOL)
    if call.is_confirmed is not True:
        yield _ask(reasons.UNCONFIRMED)
    if call.identical_calls_before >= IDENTICAL_CALLS_MAX:
        yield _ask_once(reasons.SAME_CALL % {"times": call.identical_calls_before})


def _ask_over_limit(
    call: CallFacts, rules: Sequence[Rule], person: PersonFacts
) -> Iterator[Decision]:
    limits = [rule for rule in rules if isinstance(rule, DailyLimit)]
    most = min((rule.calls for rule in limits if _is_limited_by(rule, call, person)), default=None)
    if most is not None and call.calls_today >= most:
        template = reasons.USED_ONCE_TODAY if call.calls_today == 1 else reasons.USED_TODAY
        yield _ask_once(template % {"times": call.calls_today, "limit": most})


def _is_limited_by(rule: DailyLimit, call: CallFacts, person: PersonFacts) -> bool:
    is_of_tool = rule.service in (None, call.service) and rule.tool in (None, call.tool)
    return is_of_tool and (not rule.groups or bool(rule.groups & person.groups))


def _ask_for_two(risk: Risk, said: Sequence[AdminRule], house: House) -> Iterator[Decision]:
    """Yield a decision if the house policy demands a second signature for this risk. No consent
    overrides this; an admin's rule that allows the call does."""
    is_allowed = any(rule.effect == "allow" for rule in said)
    if _find_house_demand(risk.level, house) and not is_allowed:
        yield _ask(reasons.NEEDS_TWO[risk.level])


def _find_house_demand(level: Level, house: House) -> Demand | None:
    """Return the demand for this level, or for the nearest level below it: a higher risk needs
    at least what a lower one needs."""
    demands = dict(house.demands)
    below = LEVELS[: _rank(level) + 1]
    return next((demands[each] for each in reversed(below) if each in demands), None)


def _choose_strictest(demands: Iterable[Demand]) -> Demand | None:
    """Return the demand with the shortest deadline; among equals, the one that escalates latest
    or never."""
    return min(demands, key=_rank_strictness, default=None)


def _rank_strictness(demand: Demand) -> tuple[int, float, int]:
    after = demand.escalates_after_hours
    return demand.deadline_hours, -(float("inf") if after is None else after), demand.id


def _ask_about_destinations(
    call: CallFacts, said: Sequence[AdminRule], house: House
) -> Iterator[Decision]:
    """Yield a question about a call that sends data to where untrusted content may have told the
    model to send it. Neither a low risk nor a consent covers it; a rule that allows does if its
    condition is about these values."""
    free = list_forbidden(call.destinations, house.allowed_hosts) if call.tainted_by else []
    if free and not any(_names_destinations(rule, free) for rule in said):
        yield _ask_once(describe_destinations(call.tainted_by, free))


def _names_destinations(rule: AdminRule, free: Sequence[Destination]) -> bool:
    """Return whether the condition of a rule that allows reads each of these values. A value
    inside a list or an object is not covered: a condition on another part would name it too."""
    if rule.effect != "allow" or not rule.condition or any(each.is_inner for each in free):
        return False
    return {each.parameter for each in free} <= set(conditions.list_names(rule.condition))


def describe_destinations(tainted_by: str, free: Sequence[Destination]) -> str:
    """Return the reason to ask about these destinations."""
    kinds = {each.kind for each in free}
    names = list(dict.fromkeys(_shorten(each.parameter) for each in free))
    if kinds == {"query"}:
        template = reasons.SENDS_TO_SEARCH
    elif "address" in kinds:
        template = reasons.SENDS_TO_ADDRESS
    else:
        template = reasons.SENDS_TO_RECIPIENT
    named = ", ".join([*names[:MAX_NAMED], *["…" for _ in names[MAX_NAMED : MAX_NAMED + 1]]])
    return template % {"service": _shorten(tainted_by), "names": named}


def _shorten(text: str) -> str:
    return text if len(text) <= MAX_NAME_CHARACTERS else f"{text[:MAX_NAME_CHARACTERS]}…"


def _apply_consent(
    call: CallFacts, risk: Risk, rules: Sequence[Rule], person: PersonFacts, house: House
) -> Iterator[Decision]:
    """Yield the decision of a consent, if the house policy accepts its scope. A consent does not
    cover a call that untrusted content may have caused, because it was given before."""
    if risk.level == "high" and not house.consents_to_high and not call.tainted_by:
        return
    mine = (
        rule for rule in rules if isinstance(rule, Consent) and rule.scope in house.consent_scopes
    )
    consent = next((rule for rule in mine if _covers_call(rule, call, person)), None)
    if consent is None:
        return
    if call.tainted_by and risk.level != "low":
        yield _ask(reasons.TAINTED_DESPITE_CONSENT % {"service": call.tainted_by})
    yield Decision(effect="allow", reason=reasons.ALLOWED_IN_ADVANCE, consent_id=consent.id)


def _allow_by_rule(rule: AdminRule) -> Decision:
    return Decision(effect="allow", reason=reasons.ALLOWED_BY_RULE, note=rule.note, rule_id=rule.id)


def _decide_by_risk(risk: Risk, house: House) -> Decision:
    runs = house.runs_up_to is not None and _rank(risk.level) <= _rank(house.runs_up_to)
    if not runs:
        return _ask(reasons.NEEDS_APPROVAL[risk.level])
    return _allow(reasons.RUNS[risk.level])


def _add_demands(decision: Decision, risk: Risk, house: House) -> Decision:
    """Add to a question what the house policy demands for its risk. A rule's own demand takes
    precedence."""
    if decision.effect != "ask":
        return decision
    is_typed = decision.wants_typing or (risk.level == "high" and house.types_high)
    demand = decision.demand or _find_house_demand(risk.level, house)
    return replace(decision, wants_typing=is_typed, demand=demand)


def _covers(
    rule: AdminRule, call: CallFacts, levels: frozenset[Level], person: PersonFacts
) -> bool:
    is_of_tool = rule.service in (None, call.service) and rule.tool in (None, call.tool)
    is_of_person = not rule.groups or bool(rule.groups & person.groups)
    return is_of_tool and is_of_person and _is_of_level(rule, levels) and _meets(rule, call)


def _is_of_level(rule: AdminRule, levels: frozenset[Level]) -> bool:
    """Return whether the rule covers these levels. For a raised risk, a rule that forbids or
    asks counts if it names either level, and a rule that allows counts only if it names both:
    untrusted content must not lead a call out of a strict rule or into a mild one."""
    if not rule.levels:
        return True
    return levels <= rule.levels if rule.effect == "allow" else bool(levels & rule.levels)


def _meets(rule: AdminRule, call: CallFacts) -> bool:
    """Return whether the rule's condition holds. A condition that cannot be applied counts for
    rules that forbid or ask, and not for rules that allow."""
    if not rule.condition:
        return True
    try:
        return conditions.is_met(rule.condition, call.arguments)
    except conditions.Undecidable:
        return rule.effect != "allow"


def _covers_call(rule: Consent, call: CallFacts, person: PersonFacts) -> bool:
    return (
        rule.person_id == person.id
        and rule.service == call.service
        and rule.endpoint == call.endpoint != ""
        and call.definition_hash in rule.definition_hashes - {""}
        and rule.conversation_id in (None, call.conversation_id)
    )


def _rank(level: Level) -> int:
    return LEVELS.index(level)


def _deny(reason: str) -> Decision:
    return Decision(effect="deny", reason=reason)


def _ask(reason: str) -> Decision:
    return Decision(effect="ask", reason=reason)


def _ask_once(reason: str) -> Decision:
    return Decision(effect="ask", reason=reason, is_once_only=True)


def _allow(reason: str) -> Decision:
    return Decision(effect="allow", reason=reason)
