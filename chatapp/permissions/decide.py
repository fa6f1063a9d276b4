"""The only place that decides whether a call runs, asks or is refused. Closed by default."""

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from .conditions import Undecidable, holds
from .findings import LEVELS, Level
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
HOUSE = House()


def decide(
    call: CallFacts,
    risk: Risk,
    rules: Sequence[Rule],
    person: PersonFacts,
    mode: Mode = "act",
    house: House = HOUSE,
) -> Decision:
    """Deny beats ask beats allow; where nothing was said in advance, the risk decides."""
    try:
        weighed = raised(risk, call)
        said = _said(call, frozenset({risk.level, weighed.level}), rules, person)
        first = next(_decisions(call, weighed, said, rules, person, mode, house))
        return _with_demands(first, weighed, house)
    except Exception:
        # Closed by default: a call that the code here stumbles over is put before a person.
        logger.exception("A call could not be decided.")
        problem = _ask("Asked because policy could not be applied to this call.")
        return replace(problem, demand=_of_house("high", house))


def raised(risk: Risk, call: CallFacts) -> Risk:
    """One level more for what does more than read, once strangers' words are in the turn: they may
    have told the model to do it."""
    if not call.tainted_by or risk.level == "low":
        return risk
    level = LEVELS[min(LEVELS.index(risk.level) + 1, len(LEVELS) - 1)]
    return Risk(level=level, reasons=(_taint(call), *risk.reasons))


def _taint(call: CallFacts) -> str:
    return f"Something of “{call.tainted_by}”, which strangers may have written, came before it."


def _decisions(
    call: CallFacts,
    risk: Risk,
    said: Sequence[AdminRule],
    rules: Sequence[Rule],
    person: PersonFacts,
    mode: Mode,
    house: House,
) -> Iterator[Decision]:
    """Everything that applies, in the order in which it counts; the first one is the decision.
    `said` are the rules of admins that cover the call."""
    if call.obstacle == "disabled":
        yield _deny("Refused because an admin switched this tool or its service off.")
    yield from (_denied_by(rule) for rule in said if rule.effect == "deny")
    if mode == "plan" and risk.level != "low":
        yield _deny("Refused because this chat only plans, and this tool does more than read.")
    yield from _asked(call, said, house)
    yield from _doubts(call)
    yield from _limits(call, rules, person)
    yield from _needs_two(risk, said, house)
    yield from _consented(call, risk, rules, person, house)
    yield from (_allowed_by(rule) for rule in said if rule.effect == "allow")
    yield _by_risk(risk, house)


def _said(
    call: CallFacts, levels: frozenset[Level], rules: Sequence[Rule], person: PersonFacts
) -> list[AdminRule]:
    """The rules of admins that cover a call whose risk has these levels: its own, and the one to
    which it was raised."""
    admin = [rule for rule in rules if isinstance(rule, AdminRule)]
    admin.sort(key=lambda rule: rule.id or 0)
    return [rule for rule in admin if _covers(rule, call, levels, person)]


def _denied_by(rule: AdminRule) -> Decision:
    reason = "Refused because an admin's rule forbids this tool."
    return Decision(effect="deny", reason=reason, note=rule.note, rule_id=rule.id)


def _asked(call: CallFacts, said: Sequence[AdminRule], house: House) -> Iterator[Decision]:
    """All rules that ask count together."""
    asking = [rule for rule in said if rule.effect == "ask"]
    if asking:
        yield Decision(
            effect="ask",
            reason="Asked because an admin wants a person to decide every time.",
            note=" ".join(dict.fromkeys(rule.note for rule in asking if rule.note)),
            rule_id=asking[0].id,
            wants_typing=any(rule.wants_typing for rule in asking),
            demand=_strictest(rule.demand for rule in asking if rule.demand),
        )
    if house.asks_everything:
        yield _ask("Asked because an admin wants every tool to ask for now.")


def _doubts(call: CallFacts) -> Iterator[Decision]:
    """What asks whatever was allowed in advance: nobody allowed this."""
    if call.obstacle == "unreadable":
        yield _ask("Asked because the values for this tool cannot be read.")
    elif call.obstacle is not None:
        yield _ask("Asked because this tool is not known.")
    if call.is_confirmed is not True:
        yield _ask("Asked because no admin has confirmed this tool as it is now.")
    if call.identical_calls_before >= IDENTICAL_CALLS_MAX:
        times = call.identical_calls_before
        yield _ask_once(
            f"Asked because the same call was already made {times} times for this message."
        )


def _limits(call: CallFacts, rules: Sequence[Rule], person: PersonFacts) -> Iterator[Decision]:
    limits = [rule for rule in rules if isinstance(rule, DailyLimit)]
    most = min((rule.calls for rule in limits if _limits_this(rule, call, person)), default=None)
    if most is not None and call.calls_today >= most:
        used = "once" if call.calls_today == 1 else f"{call.calls_today} times"
        yield _ask_once(
            f"Asked because you used this tool {used} today (UTC); up to {most} run by themselves."
        )


def _limits_this(rule: DailyLimit, call: CallFacts, person: PersonFacts) -> bool:
    is_of_tool = rule.service in (None, call.service) and rule.tool in (None, call.tool)
    return is_of_tool and (not rule.groups or bool(rule.groups & person.groups))


def _needs_two(risk: Risk, said: Sequence[AdminRule], house: House) -> Iterator[Decision]:
    """What the house wants two people to sign, no consent of one replaces; a rule that allows does,
    since it is an admin's own word."""
    is_allowed = any(rule.effect == "allow" for rule in said)
    if _of_house(risk.level, house) and not is_allowed:
        yield _ask(f"Asked because its risk is {risk.level}, for which two people sign.")


def _of_house(level: Level, house: House) -> Demand | None:
    """That of this level, or of the nearest below it: what a risk needs, a higher one needs too."""
    demands = dict(house.demands)
    below = LEVELS[: _rank(level) + 1]
    return next((demands[each] for each in reversed(below) if each in demands), None)


def _strictest(demands: Iterable[Demand]) -> Demand | None:
    """That with the shortest deadline; then that which others may sign latest, or never."""
    return min(demands, key=_strictness, default=None)


def _strictness(demand: Demand) -> tuple[int, float, int]:
    after = demand.escalates_after_hours
    return demand.deadline_hours, -(float("inf") if after is None else after), demand.id


def _consented(
    call: CallFacts, risk: Risk, rules: Sequence[Rule], person: PersonFacts, house: House
) -> Iterator[Decision]:
    """A consent counts as far as the house lets people allow now. It was given without strangers'
    words in sight, so it does not cover what they may have asked for."""
    if risk.level == "high" and not house.consents_to_high and not call.tainted_by:
        return
    mine = (
        rule for rule in rules if isinstance(rule, Consent) and rule.scope in house.consent_scopes
    )
    consent = next((rule for rule in mine if _consents(rule, call, person)), None)
    if consent is None:
        return
    if call.tainted_by and risk.level != "low":
        yield _ask(f"Asked although you allowed this tool in advance: {_lower(_taint(call))}")
    reason = "Runs because you allowed this tool in advance."
    yield Decision(effect="allow", reason=reason, consent_id=consent.id)


def _allowed_by(rule: AdminRule) -> Decision:
    reason = "Runs because an admin's rule allows this tool."
    return Decision(effect="allow", reason=reason, note=rule.note, rule_id=rule.id)


def _by_risk(risk: Risk, house: House) -> Decision:
    runs = house.runs_up_to is not None and _rank(risk.level) <= _rank(house.runs_up_to)
    if not runs:
        return _ask(f"Asked because its risk is {risk.level}.")
    return _allow(f"Runs by itself: its risk is {risk.level} and an admin has confirmed it.")


def _with_demands(decision: Decision, risk: Risk, house: House) -> Decision:
    """What a question about such a risk needs in this house. Whom a rule names to sign, it names
    for these very calls."""
    if decision.effect != "ask":
        return decision
    is_typed = decision.wants_typing or (risk.level == "high" and house.types_high)
    demand = decision.demand or _of_house(risk.level, house)
    return replace(decision, wants_typing=is_typed, demand=demand)


def _covers(
    rule: AdminRule, call: CallFacts, levels: frozenset[Level], person: PersonFacts
) -> bool:
    is_of_tool = rule.service in (None, call.service) and rule.tool in (None, call.tool)
    is_of_person = not rule.groups or bool(rule.groups & person.groups)
    return is_of_tool and is_of_person and _is_of_level(rule, levels) and _meets(rule, call)


def _is_of_level(rule: AdminRule, levels: frozenset[Level]) -> bool:
    """A raised risk is covered by what forbids or asks at either of its levels, and by what allows
    at both: strangers' words must not lead a call out of a strict rule, nor into a mild one."""
    if not rule.levels:
        return True
    return levels <= rule.levels if rule.effect == "allow" else bool(levels & rule.levels)


def _meets(rule: AdminRule, call: CallFacts) -> bool:
    """A condition that cannot be applied forbids and asks, and never allows."""
    if not rule.condition:
        return True
    try:
        return holds(rule.condition, call.arguments)
    except Undecidable:
        return rule.effect != "allow"


def _consents(rule: Consent, call: CallFacts, person: PersonFacts) -> bool:
    return (
        rule.person_id == person.id
        and rule.service == call.service
        and rule.endpoint == call.endpoint != ""
        and call.definition_hash in rule.definition_hashes - {""}
        and rule.conversation_id in (None, call.conversation_id)
    )


def _rank(level: Level) -> int:
    return LEVELS.index(level)


def _lower(sentence: str) -> str:
    return sentence[:1].lower() + sentence[1:]


def _deny(reason: str) -> Decision:
    return Decision(effect="deny", reason=reason)


def _ask(reason: str) -> Decision:
    return Decision(effect="ask", reason=reason)


def _ask_once(reason: str) -> Decision:
    return Decision(effect="ask", reason=reason, is_once_only=True)


def _allow(reason: str) -> Decision:
    return Decision(effect="allow", reason=reason)
