"""What one decision costs, with many rules, limits and consents that all have to be looked at.

Run `python -m benchmarks.decisions [--rules 200]`. CPU time of this process, so other load does not
count. The rows are read once for all calls of a step and are not counted.
"""

import argparse
import time

from chatapp.permissions.decide import decide
from chatapp.permissions.risk import Risk
from chatapp.permissions.rules import AdminRule, CallFacts, Consent, DailyLimit, PersonFacts, Rule

CALLS = 2_000
CONDITION = 'amount < 100 and currency == "EUR"'


def a_policy(size: int) -> list[Rule]:
    """Half of the rules have a condition on the arguments; none of all this settles the call."""
    rules: list[Rule] = []
    for number in range(size):
        condition = CONDITION if number % 2 else ""
        service = "pay" if number % 2 else "mail"
        rules.append(AdminRule(effect="deny", service=service, condition=condition, id=number))
        rules.append(DailyLimit(calls=1_000, service=service))
        hashes = frozenset({f"hash-{number}"})
        rules.append(
            Consent(person_id=1, service="pay", endpoint="https://pay", definition_hashes=hashes)
        )
    return rules


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rules", type=int, default=200)
    size = parser.parse_args().rules
    call = CallFacts(
        service="pay",
        tool="send_money",
        is_confirmed=True,
        identical_calls_before=0,
        endpoint="https://pay",
        definition_hash="another",
        arguments={"amount": 500, "currency": "EUR", "to": "Ada"},
    )
    policy, person = a_policy(size), PersonFacts(id=1)
    risk = Risk(level="medium", reasons=("Its name says that it sends.",))
    assert decide(call, risk, policy, person).effect == "ask"
    started = time.process_time()
    for _ in range(CALLS):
        decide(call, risk, policy, person)
    each = (time.process_time() - started) / CALLS
    print(f"{size} rules, {size} limits, {size} consents: {each * 1e6:.0f} µs a decision")


if __name__ == "__main__":
    main()
