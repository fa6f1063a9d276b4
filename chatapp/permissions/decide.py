"""The only place that decides whether a call runs, asks or is refused. Closed by default."""

import logging
from collections.abc import Iterator, Sequence
from typing import assert_never

from .risk import Risk
from .rules import AdminRule, CallFacts, Consent, Decision, PersonFacts, Rule

logger = logging.getLogger(__name__)

IDENTICAL_CALLS_MAX = 2


def decide(call: CallFacts, risk: Risk, rules: Sequence[Rule], person: PersonFacts) -> Decision:
    """Deny beats ask beats allow; where nothing was said in advance, the risk decides."""
    try:
        return next(_decisions(call, risk, rules, person))
    except Exception:
        # Closed by default: a call that the code here stumbles over is put before a person.
        logger.exception("A call could not be decided.")
        return _ask("Asked because policy could not be applied to this call.")


def _decisions(
    call: CallFacts, risk: Risk, rules: Sequence[Rule], person: PersonFacts
) -> Iterator[Decision]:
    """Everything that applies, in the order in which it counts; the first one is the decision."""
    said = {rule.effect for rule in rules if isinstance(rule, AdminRule) and _covers(rule, call)}
    if call.obstacle == "disabled":
        yield _deny("Refused because an admin switched this tool or its service off.")
    if "deny" in said:
        yield _deny("Refused because an admin's rule forbids this tool.")
    if "ask" in said:
        yield _ask("Asked because an admin wants a person to decide every time.")
    yield from _doubts(call)
    if any(_consents(rule, call, person) for rule in rules):
        yield _allow("Runs because you allowed this tool in advance.")
    if "allow" in said:
        yield _allow("Runs because an admin's rule allows this tool.")
    yield _by_risk(risk)


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
        yield _ask(f"Asked because the same call was already made {times} times for this message.")


def _by_risk(risk: Risk) -> Decision:
    match risk.level:
        case "low":
            return _allow("Runs by itself: its risk is low and an admin has confirmed it.")
        case "medium":
            return _ask("Asked because its risk is medium.")
        case "high":
            return _ask("Asked because its risk is high.")
        case _:
            assert_never(risk.level)


def _covers(rule: AdminRule, call: CallFacts) -> bool:
    return rule.service in (None, call.service) and rule.tool in (None, call.tool)


def _consents(rule: Rule, call: CallFacts, person: PersonFacts) -> bool:
    return (
        isinstance(rule, Consent)
        and rule.person_id == person.id
        and rule.service == call.service
        and rule.endpoint == call.endpoint != ""
        and call.definition_hash in rule.definition_hashes - {""}
        and rule.conversation_id in (None, call.conversation_id)
    )


def _deny(reason: str) -> Decision:
    return Decision(effect="deny", reason=reason.strip())


def _ask(reason: str) -> Decision:
    return Decision(effect="ask", reason=reason.strip())


def _allow(reason: str) -> Decision:
    return Decision(effect="allow", reason=reason.strip())
